"""Former names and email addresses of players and users. Pure.

A document keeps its former names next to its name, written by the same change, so that it can be
found by a former name. History does not record them, and they are deleted with the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from app.core.errors import Invalid
from app.core.naming import email_key, name_key
from app.core.types import Document

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


def without_former_names(document: Document, beginning: str) -> tuple[Document, str]:
    """Return a document without its FormerNames, and the first of them with this prefix."""
    rest = {name: value for name, value in document.items() if name != "FormerNames"}
    found = (n for n in former_names(document) if name_key(n).startswith(beginning))
    return rest, next(found, "")


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
