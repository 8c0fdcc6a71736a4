"""The entries in the Journal of a document. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.types import Document

# The required fields of an entry with their types; a game may have dropped those that can be null.
REQUIRED = {"_id": str, "At": datetime, "Subject": dict, "Operation": str, "Changes": list}
OPTIONAL = {"By": dict, "Arguments": dict, "Reason": str | None}
# The fields of an entry that may be null or empty.
EMPTY_FIELDS: Document = {
    "By": {"UserId": None, "Name": None},
    "RequestId": None,
    "Reason": None,
    "Arguments": {},
}


def entries_of(document: Document) -> list[Document]:
    """Return the entries in a document's Journal, the oldest first.

    Values that are not entries are left out: a game may have written anything.
    """
    journal = document.get("Journal")
    found = journal if isinstance(journal, list) else []
    return [_complete(entry) for entry in found if is_entry(entry)]


def is_entry(entry: Any) -> bool:
    """Return whether a value in a Journal is an entry that this program has written."""
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), kind) for name, kind in REQUIRED.items())
        and all(isinstance(entry[name], kind) for name, kind in OPTIONAL.items() if name in entry)
        and {"Kind", "Id"} <= entry["Subject"].keys()
        and entry.get("Stamp") is not None
    )


def _complete(entry: Document) -> Document:
    """Return an entry with all fields: a game that saves documents may drop nulls."""
    changes = [change for change in entry["Changes"] if isinstance(change, dict)]
    complete = [{"Path": "", "Before": None, "After": None, **change} for change in changes]
    return {**EMPTY_FIELDS, **entry, "Changes": complete}
