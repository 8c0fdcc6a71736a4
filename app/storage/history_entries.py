"""The entries in the Journal of a document, also those from before there was a history. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.changes import SubjectKind
from app.types import Document

# Before there was a history, a journal kept the last changes with an Idempotency-Key, so that a
# repetition is recognised. One operation had another name.
FORMER_OPERATIONS = {"set": "set-variable"}


# The fields of an entry that may be null or empty.
NOTHING_TOLD: Document = {
    "By": {"UserId": None, "Name": None},
    "RequestId": None,
    "Reason": None,
    "Arguments": {},
}


def entries_of(kind: SubjectKind, document: Document) -> list[Document]:
    """Return the entries in a document's Journal, the oldest first.

    What is no entry is left out: a game may have written anything.
    """
    journal = document.get("Journal")
    found = enumerate(journal if isinstance(journal, list) else [])
    return [
        _complete(entry) if "_id" in entry else _former_entry(kind, document, number, entry)
        for number, entry in found
        if is_entry(entry) or is_former_entry(entry)
    ]


def is_entry(entry: Any) -> bool:
    """Tell whether this program has written something into a Journal."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("_id"), str)
        and isinstance(entry.get("At"), datetime)
        and isinstance(entry.get("Subject"), dict)
        and {"Kind", "Id"} <= entry["Subject"].keys()
        and isinstance(entry.get("Operation"), str)
        and isinstance(entry.get("Changes"), list)
        and isinstance(entry.get("By", {}), dict)
        and isinstance(entry.get("Arguments", {}), dict)
        and isinstance(entry.get("Reason"), str | None)
        and entry.get("Stamp") is not None
    )


def _complete(entry: Document) -> Document:
    """Return an entry with all of its fields: a game that saves documents may drop its nulls."""
    changes = [change for change in entry["Changes"] if isinstance(change, dict)]
    told = [{"Path": "", "Before": None, "After": None, **change} for change in changes]
    return {**NOTHING_TOLD, **entry, "Changes": told}


def is_former_entry(entry: Any) -> bool:
    """Tell whether this is the record of an Idempotency-Key from before there was a history."""
    return (
        isinstance(entry, dict)
        and "_id" not in entry
        and isinstance(entry.get("Key"), str)
        and isinstance(entry.get("Operation"), str)
        and isinstance(entry.get("At"), datetime)
    )


def _former_entry(kind: SubjectKind, document: Document, number: int, entry: Document) -> Document:
    """Return the entry of a change from before history: what was recorded of it, and no more."""
    return {
        "_id": f"{kind.name}:{document['_id']}:before-{number}",
        "At": entry["At"],
        "Subject": {"Kind": kind.name, "Id": document["_id"], "Name": document.get("Name")},
        "Operation": FORMER_OPERATIONS.get(entry["Operation"], entry["Operation"]),
        "By": {"UserId": None, "Name": None},
        "Via": "api",
        "RequestId": None,
        "Reason": None,
        "Arguments": {},
        "Changes": [],
        "Stamp": f"{entry['At'].isoformat()} {entry['Key']}",
        "IdempotencyKey": entry["Key"],
        "Fingerprint": entry.get("Fingerprint"),
        "Answer": entry.get("Answer"),
    }


def key_of(entry: Any) -> str | None:
    """Return the Idempotency-Key of an entry, also of one from before there was a history."""
    if not isinstance(entry, dict):
        return None
    key: str | None = entry.get("IdempotencyKey", entry.get("Key"))
    return key
