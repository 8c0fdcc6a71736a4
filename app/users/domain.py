"""Accounts: their fields, and the rules of names, addresses, passwords and codes. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime

from app.core.changes import Change, SubjectKind
from app.core.errors import Conflict, Forbidden, Invalid, InvalidCredentials
from app.core.naming import (
    carry_emails,
    carry_names,
    compose,
    domain_as_sent,
    email_key,
    holds_invisible,
    name_fields,
)
from app.core.penalties import BAN, MUTE
from app.core.permissions import Role, role_names
from app.core.types import Document
from app.storage.schema.shapes import (
    ARRAY,
    COUNT,
    FLAG,
    GUID,
    MOMENT,
    MOMENT_OR_NULL,
    NAMED,
    NOTES,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    changeable,
    map_of,
    object_shape,
)

POWER_FLAGS = (
    "Editor",
    "Ban",
    "Kick",
    "Mute",
    "Api",
    "ApiPersonalInformation",
    "ApiUserManagement",
)
CODE_SHAPE: Document = {
    **object_shape({"Code": TEXT, "ExpiresAt": MOMENT, "Failures": COUNT}),
    "bsonType": ["object", "null"],
}
KEYS = map_of(
    GUID["pattern"],
    object_shape(
        {
            "Name": TEXT,
            "Scopes": TEXTS,
            "CreatedAt": MOMENT,
            "ExpiresAt": MOMENT,
            "Secrets": {**ARRAY, "items": object_shape({"Digest": TEXT, "EndsAt": MOMENT})},
        },
        {
            "Addresses": TEXTS,
            "Budget": {
                "bsonType": "object",
                "properties": {"Items": {**TEXTS, "bsonType": ["array", "null"]}},
            },
            "LastUsedAt": MOMENT,
            # Its lifetime in seconds, from creation or rotation.
            "Lifetime": COUNT,
        },
    ),
)
SECOND_FACTOR: Document = {
    **object_shape({"Secret": TEXT, "LastStep": COUNT, "RecoveryCodes": TEXTS, "Since": MOMENT}),
    "bsonType": ["object", "null"],
}
OPENID: Document = {
    **object_shape({"Issuer": TEXT, "Subject": TEXT}),
    "bsonType": ["object", "null"],
}
SHAPE = changeable(
    {
        **NAMED,
        "Email": TEXT,
        "EmailKey": TEXT,
        "Power": object_shape(dict.fromkeys(POWER_FLAGS, FLAG)),
        "PasswordHash": TEXT_OR_NULL,
        # Counts password changes and revocations. A token contains the value at its issue, and is
        # void when the account has another value.
        "PasswordVersion": COUNT,
        "Reset": CODE_SHAPE,
        "IsMuted": FLAG,
        "MuteReason": TEXT_OR_NULL,
        "CreationDate": MOMENT,
    },
    {
        MUTE.until: MOMENT_OR_NULL,
        MUTE.by: TEXT_OR_NULL,
        BAN.flag: FLAG,
        BAN.reason: TEXT_OR_NULL,
        BAN.until: MOMENT_OR_NULL,
        BAN.by: TEXT_OR_NULL,
        # Whether the game should also refuse the person's IP addresses.
        "BanByAddress": FLAG,
        # The code of a mailed invitation; that of a mailed reset is in Reset.
        "Invitation": CODE_SHAPE,
        "Notes": NOTES,
        # The API keys of the account by id, and the digests that find them (app/auth).
        "Keys": KEYS,
        # The names of its roles as staff: given by hand, and by groups of the company's accounts.
        "Roles": TEXTS,
        "GroupRoles": TEXTS,
        # To the hour.
        "LastSignInAt": MOMENT,
        # It can use neither the console nor the API.
        "IsDisabled": FLAG,
        "KeyDigests": TEXTS,
        # The encrypted secret of an app, and the hashes of recovery codes (app/second_factor).
        "SecondFactor": SECOND_FACTOR,
        # The company account that signs in to this one (app/openid).
        "OpenId": OPENID,
        "FormerNames": ARRAY,
        # An erasure searches texts for these.
        "FormerEmails": TEXTS,
    },
)


def _carry_names_and_emails(before: Document, new: Document) -> Document:
    return carry_names(before, new) | carry_emails(before, new)


# History stays when a person is erased, so it records only that an address changed.
SUBJECT = SubjectKind(
    "user",
    shape=SHAPE,
    secret={
        "Email": "Email",
        "PasswordHash": "Password",
        "Reset": "ResetCode",
        "Invitation": "Invitation",
        "SecondFactor": "SecondFactor",
        "OpenId": "CompanyAccount",
    },
    derived=("NameKey", "NameTails", "EmailKey", "FormerNames", "FormerEmails"),
    hidden=("PasswordVersion", "KeyDigests"),
    unquoted=("Notes", "Keys"),
    carried=_carry_names_and_emails,
)
# Derived keys, secrets and bookkeeping, which are never served.
INTERNAL = (*sorted(SUBJECT.unrecorded), "Reset", "Keys", "SecondFactor")
INTERNAL += ("Invitation", "OpenId", "Roles", "GroupRoles", "IsDisabled")
NO_POWER = dict.fromkeys(POWER_FLAGS, False)

# The part before the @: what every mail server accepts, without header injection.
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}")
_DOMAIN = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z0-9-]{2,63}")
LONGEST_EMAIL = 254

# Without I, O, 0 and 1, which are easily confused.
CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_FAILURES = 5


class WrongPassword(Invalid):
    """The password is not that of the account."""

    def __init__(self) -> None:
        super().__init__("The password is wrong.")


class WrongCode(Forbidden):
    sentence = "The code is wrong or no longer valid."


class SignInOfStaff(Forbidden):
    sentence = (
        "This account has a role of staff, so only its holder sets its password, address and "
        "second factor. If they are lost, ask a colleague to approve 'reset-sign-in', or use "
        "'quartermaster run reset-sign-in' on the machine."
    )


class WrongInvitation(Forbidden):
    sentence = (
        "This invitation is wrong, was used already, or has expired. Ask whoever invited you to "
        "send it again."
    )


def is_username(name: str) -> bool:
    """Tell whether a name can be registered: 2 to 20 letters or digits, of any script."""
    name = compose(name)
    # Some letters are invisible: two names that differ in one of them would look the same.
    is_allowed = 2 <= len(name) <= 20 and not holds_invisible(name)
    return is_allowed and all(c.isalpha() or c.isdecimal() for c in name)


def is_email(email: str) -> bool:
    """Tell whether an address is plausible; only a mail could verify it."""
    local, _, domain = email.rpartition("@")
    return (
        len(email) <= LONGEST_EMAIL
        and email.isprintable()
        and _LOCAL.fullmatch(local) is not None
        and _DOMAIN.fullmatch(domain_as_sent(domain)) is not None
    )


def user_document(record: Document, version: int = 0) -> Document:
    fields = dict(record)
    return {
        "_id": fields.pop("Id"),
        **fields,
        **name_fields(record["Name"]),
        "EmailKey": email_key(record["Email"]),
        "PasswordVersion": version,
        "Reset": None,
        "Version": version,
    }


def new_account(
    guid: str, name: str, email: str, password_hash: str | None, now: datetime
) -> Document:
    return user_document(
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


def queried_power(power: Mapping[str, bool]) -> dict[str, bool]:
    """Return the flags under the names that lists and lookups use."""
    flags = {name: power.get(name, False) for name in POWER_FLAGS[:5]}
    return {**flags, "PersonalInformation": power.get("ApiPersonalInformation", False)}


def changed_power(power: Mapping[str, bool]) -> dict[str, bool]:
    """Return the flags under the names that the contract specifies for a change of email."""
    return {name: power.get(name, False) for name in POWER_FLAGS}


def valid_code(user: Document, now: datetime, field: str = "Reset") -> str | None:
    stored = user.get(field)
    return stored["Code"] if stored and stored["ExpiresAt"] > now else None


def shown_code(user: Document, now: datetime) -> str | None:
    """Return a valid reset code for those who may see it: that of staff is for its holder alone."""
    return None if role_names(user) else valid_code(user, now)


def require_not_staff(user: Document) -> None:
    """Raise SignInOfStaff if only the holder of an account sets how it signs in."""
    if role_names(user):
        raise SignInOfStaff


def new_code() -> str:
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


class ResetCodes:
    """Derives a reset code from an Idempotency-Key: deterministic, and not guessable.

    The sender knows the key but must not know the code, so the code is an HMAC of the key.
    """

    def __init__(self, signing_key: str) -> None:
        self._key = f"quartermaster reset code {signing_key}".encode()

    def of(self, user_id: str, idempotency_key: str) -> str:
        text = f"{user_id} {idempotency_key}".encode()
        digest = hmac.new(self._key, text, hashlib.sha256).digest()
        # 256 is a multiple of the number of letters, so each is equally likely.
        return "".join(CODE_LETTERS[byte % len(CODE_LETTERS)] for byte in digest[:CODE_LENGTH])


def remember_code(user: Document, *, field: str, code: Document, mailed: Document) -> Change:
    """Store a mailed code, unless the address, the password or the roles changed meanwhile."""
    is_same = all(user[name] == mailed[name] for name in ("EmailKey", "PasswordVersion"))
    if not is_same or role_names(user) != role_names(mailed):
        raise Conflict("The account was changed while the mail was sent; please ask again.")
    return Change({field: code}, None)


def rename(user: Document, *, name: str) -> Change:
    """Change the username; its former names still find the account for staff."""
    fields = {"Name": name, **name_fields(name)}
    answer = {"Id": user["_id"], "Name": name}
    return Change({**fields, **carry_names(user, fields)}, answer)


def change_email(user: Document, *, new: str, checked: str | None = None) -> Change:
    """Change the address, with the password or of an account without a role of staff."""
    _require_settable(user, checked)
    return Change(with_email(user, new), None)


def with_email(user: Document, new: str) -> Document:
    """Return the fields of a new address; codes mailed to the former address become void."""
    fields = {"Email": new, "EmailKey": email_key(new), "Reset": None}
    fields |= {"Invitation": None} if user.get("Invitation") else {}
    return {**fields, **carry_emails(user, fields)}


def replace_password(user: Document, *, password_hash: str, checked: str | None = None) -> Change:
    """Change the password; earlier tokens and codes become void."""
    _require_settable(user, checked)
    return Change(_with_password(user, password_hash), None)


def change_power(
    user: Document, *, role: str, change: Callable[[Document, Role], Document]
) -> Change:
    power = change(user["Power"], Role(role))
    return Change({"Power": power}, power)


def revoke_tokens(user: Document) -> Change:
    """Make all tokens of an account void, without changing its password."""
    answer = {"username": user.get("Name")}
    return Change({"PasswordVersion": user["PasswordVersion"] + 1}, answer)


def redeem_code(
    user: Document,
    *,
    code: str,
    now: datetime,
    make_hash: Callable[[], str],
    field: str = "Reset",
) -> Change:
    """Exchange a code for a new password; answer whether the code was right. Count failures."""
    valid = valid_code(user, now, field)
    if valid is None:
        return Change({}, False)
    if hmac.compare_digest(valid.encode(), code.upper().encode()):
        return Change({**_with_password(user, make_hash()), field: None}, True)
    failures = user[field]["Failures"] + 1
    left = None if failures >= CODE_FAILURES else {**user[field], "Failures": failures}
    # A failed request leaves no entry of history.
    return Change({field: left}, False, has_entry=False)


def accept_invitation(
    user: Document, *, code: str, now: datetime, make_hash: Callable[[], str]
) -> Change:
    """Exchange the code of an invitation for a first password, as redeem_code does."""
    if user["PasswordHash"] is not None:
        return Change({}, False)
    return redeem_code(user, code=code, now=now, make_hash=make_hash, field="Invitation")


def _with_password(user: Document, password_hash: str) -> Document:
    return {"PasswordHash": password_hash, "Reset": None, **revoke_tokens(user).fields}


def _require_settable(user: Document, checked: str | None) -> None:
    """Refuse a change if the password was changed since it was checked.

    Without the password, refuse it if only the holder sets how the account signs in.
    """
    if checked is None:
        require_not_staff(user)
    elif user["PasswordHash"] != checked:
        raise InvalidCredentials
