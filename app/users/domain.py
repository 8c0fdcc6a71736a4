"""What an account is, and which names and addresses one may have. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from app.keys import name_key, name_tails

Document = dict[str, Any]

POWER_FLAGS = (
    *("Editor", "Ban", "Kick", "Mute"),
    *("Api", "ApiPersonalInformation", "ApiUserManagement"),
)
NO_POWER = dict.fromkeys(POWER_FLAGS, False)

# One local part, one @, a domain with a dot, and nothing that could end a mail header.
_CHARACTER = r"[^@\s\x00-\x1f\x7f<>()\[\],;:\\\"]"
_EMAIL = re.compile(rf"{_CHARACTER}{{1,64}}@(?!\.){_CHARACTER}+\.{_CHARACTER}{{2,63}}(?<!\.)")
LONGEST_EMAIL = 254


def is_username(name: str) -> bool:
    """Tell whether a name can be registered: 2 to 20 letters or digits, of any script."""
    return 2 <= len(name) <= 20 and all(c.isalpha() or c.isdecimal() for c in name)


def is_email(email: str) -> bool:
    """Tell whether an address is plausible; only a mail to it would prove more."""
    return len(email) <= LONGEST_EMAIL and _EMAIL.fullmatch(email) is not None


def email_key(email: str) -> str:
    return name_key(email)


def stored(record: Document, version: int = 0) -> Document:
    """Turn a complete user record into a document."""
    fields = dict(record)
    key = name_key(record["Name"])
    return {
        "_id": fields.pop("Id"),
        **fields,
        "NameKey": key,
        "NameTails": name_tails(key),
        "EmailKey": email_key(record["Email"]),
        "Version": version,
        "Journal": [],
    }


def new_account(
    guid: str, name: str, email: str, password_hash: str | None, now: datetime
) -> Document:
    """Return the document of an account that was just made."""
    return stored(
        {
            "Id": guid,
            "Name": name,
            "Email": email,
            "Power": dict(NO_POWER),
            "PasswordHash": password_hash,
            "IsMuted": False,
            "MuteReason": None,
            "CreationDate": now,
        }
    )
