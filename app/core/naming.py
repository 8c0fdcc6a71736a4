"""Guids, comparison keys of names and addresses, former names, lookup keys in paths. Pure.

A document keeps its former names next to its name, written by the same change, so that it can be
found by a former name. History does not record them, and they are deleted with the document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import idna

from app.core.errors import Invalid
from app.core.types import Document

# The minimum length of a search text.
SEARCH_LENGTH = 3
# The maximum length of a name, and the longest text that is composed to NFC.
NAME_LENGTH = 255
SPELLED_LENGTH = 4 * NAME_LENGTH
LONGEST_DOMAIN = 253
NIL = "00000000-0000-0000-0000-000000000000"
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# Invisible characters: Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt (14.0,
# unchanged in 16.0), and blanks that are not among them: the empty Braille cell, the blank
# hieroglyphs, the null notehead and the Khitan filler.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u2800\U00013441\U00013442\U0001d159\U00016fe4]"
)


def with_hyphens(text: str) -> str:
    """Return a guid of 32 hexadecimal digits with its hyphens, and any other text as it is."""
    if not re.fullmatch("[0-9a-fA-F]{32}", text, re.ASCII):
        return text
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def parse_guid(text: str) -> str | None:
    """Return the guid in the form of the API, or None if the text is not a guid."""
    return text.lower() if _GUID.fullmatch(text) else None


def compose(text: str) -> str:
    """Return a text in Unicode's normal form C, unless it is too long for a name.

    Composing is quadratic in the number of combining marks, and a client may send a million.
    """
    return unicodedata.normalize("NFC", text) if len(text) <= SPELLED_LENGTH else text


def holds_invisible(text: str) -> bool:
    return _INVISIBLE.search(text) is not None


def is_visible(text: str) -> bool:
    """Return whether a text has a visible character; combining marks alone are not visible."""
    rest = _INVISIBLE.sub("", text)
    return any(not c.isspace() and not unicodedata.category(c).startswith("M") for c in rest)


def name_key(name: str) -> str:
    """Return the key by which names are unique: composed, case-folded, and composed again.

    Case folding decomposes some letters, such as the Greek \u0390, but not the capital form.
    """
    return compose(compose(name).casefold())


def email_key(email: str) -> str:
    local, _, domain = email.rpartition("@")
    return f"{name_key(local)}@{domain_as_sent(domain) or name_key(domain)}"


def email_as_sent(email: str) -> str:
    """Return an address with its domain in ASCII, as SMTP needs it; empty if it has none."""
    local, _, domain = email.rpartition("@")
    sent = domain_as_sent(domain)
    return f"{local}@{sent}" if local and sent else ""


def email_spellings(text: str) -> set[str]:
    """Return a text and, if it is an address, the same with its domain in ASCII and in Unicode."""
    sent = email_as_sent(text)
    local, _, domain = sent.rpartition("@")
    try:
        return {text, sent, f"{local}@{idna.decode(domain)}"} if sent else {text}
    except idna.IDNAError:
        return {text, sent}


def domain_as_sent(domain: str) -> str:
    """Return a domain in ASCII (punycode), as SMTP needs it; empty if it cannot be encoded.

    IDNA 2008 with the UTS 46 mapping of case and width, as browsers do it. Python's own codec is
    IDNA 2003, which turns straße.de into strasse.de: another domain today, of another owner.
    """
    if len(domain) > LONGEST_DOMAIN:
        return ""
    try:
        encoded = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return ""
    labels = encoded.lower().split(".")
    return ".".join(labels) if all(0 < len(label) < 64 for label in labels) else ""


def printable(text: str) -> str:
    """Return a text for a terminal, with newlines and control characters escaped."""
    return text if text.isprintable() else repr(text)


class Lookup(NamedTuple):
    """The lookup key of a path: an id if it is a guid, else a name."""

    text: str
    id: str | None
    name_key: str | None

    @classmethod
    def parse(cls, text: str) -> Lookup:
        guid = parse_guid(text)
        return cls(text, guid, None) if guid else cls(text, None, name_key(text))

    def __str__(self) -> str:
        return self.text


def name_tails(key: str) -> list[str]:
    """Return the suffixes of a name key that are long enough to be searched for.

    A substring of the name is a prefix of one of them, and an index finds prefixes.
    """
    return [key[start:] for start in range(len(key) - SEARCH_LENGTH + 1)]


def name_fields(name: str) -> dict[str, Any]:
    """Return the fields by which a document is found by name."""
    key = name_key(name)
    return {"NameKey": key, "NameTails": name_tails(key)}


def named_document(record: Document, version: int = 0) -> Document:
    """Turn the record of a player or an object into the document that is stored."""
    first = {"_id": record["Id"], "Name": record["Name"]}
    stored = {**first, **record, **name_fields(record["Name"]), "Version": version}
    del stored["Id"]
    return stored


# The path of the indexed field.
KEY_PATH = "FormerNames.Key"
MOST_FORMER = 20


class SeveralFormer(Invalid):
    """Several had this name before: send the id of one of those that the message lists."""

    code = "AMBIGUOUS_NAME"

    def __init__(self, kind: str, name: str, ids: Iterable[str]) -> None:
        fault = f"is a former name of several {kind}s: give the id of one, {' or '.join(ids)}."
        super().__init__(f"'{name}' {fault}", {kind: [fault.capitalize()]})


def former_names(document: Document) -> list[str]:
    """Return the former names of a document, the latest first; a game may store anything."""
    listed = document.get("FormerNames")
    found = [former.get("Name") for former in _list(listed) if isinstance(former, dict)]
    return [name for name in found if isinstance(name, str)]


def former_emails(user: Document) -> list[str]:
    """Return the former addresses of an account, the latest first."""
    return [email for email in _list(user.get("FormerEmails")) if isinstance(email, str)]


def carry_names(before: Document, new: Document) -> Document:
    """Return the FormerNames of a document whose Name changes, if it has any."""
    kept = _without(new["Name"], [before.get("Name"), *former_names(before)], name_key)
    names = [{"Name": name, "Key": name_key(name)} for name in kept]
    return {"FormerNames": names} if names or "FormerNames" in before else {}


def carry_emails(before: Document, new: Document) -> Document:
    """Return the FormerEmails of an account whose Email changes, if it has any."""
    kept = _without(new["Email"], [before.get("Email"), *former_emails(before)], email_key)
    return {"FormerEmails": kept} if kept or "FormerEmails" in before else {}


def only_one(kind: str, name: str, ids: Iterable[str]) -> str | None:
    """Return the only id; None if there is none. Raise SeveralFormer if there are several."""
    found = sorted(set(ids))
    if len(found) > 1:
        raise SeveralFormer(kind, name, found)
    return found[0] if found else None


def _without(new: str, texts: Iterable[Any], key_of: Callable[[str], str]) -> list[str]:
    """Return the distinct texts, compared by key, without the new one."""
    by_key: dict[str, str] = {}
    for text in texts:
        if isinstance(text, str) and text:
            by_key.setdefault(key_of(text), text)
    by_key.pop(key_of(new), None)
    return list(by_key.values())[:MOST_FORMER]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
