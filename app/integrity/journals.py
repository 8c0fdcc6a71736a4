"""Whether every change has its entry: in the Journal of its document, or in history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from app.changes import Intent, field_changes
from app.database import SUBJECTS
from app.storage.client import Storage
from app.storage.entries import entries_of
from app.storage.schema.explain_validator import Fault
from app.types import Document, whole

# An entry moves within seconds; where it does not, nobody moves any.
MOVES_WITHIN = timedelta(minutes=1)


def history_faults(
    storage: Storage, name: str, documents: list[Document]
) -> dict[str, list[Fault]]:
    """Return by the repr of an id which documents have entries that are lost or have not moved."""
    kind = SUBJECTS.get(name)
    if kind is None:
        return {}
    now = storage.clock.now()
    # What has no id that is a text has no entries that anybody could find.
    counted = [
        document
        for document in documents
        if isinstance(document["_id"], str) and whole(document.get("JournalCount")) is not None
    ]
    moved = storage.journals.numbers([document["_id"] for document in counted])
    faults: dict[str, list[Fault]] = {}
    for document in counted:
        entries = entries_of(kind, document)
        numbers = {whole(entry.get("Number")) for entry in entries}
        known = moved.get(document["_id"], set()) | {n for n in numbers if n is not None}
        found = list(_unmoved(entries, now))
        found += _lost(storage, document, known, now)
        if found:
            faults[repr(document["_id"])] = found
    return faults


def _unmoved(entries: list[Document], now: datetime) -> list[Fault]:
    late = [entry for entry in entries if now - entry["At"] > MOVES_WITHIN]
    noun = "entry" if len(late) == 1 else "entries"
    return [Fault("Journal", f"holds {len(late)} {noun} that should be in history")] if late else []


def is_mended_by_moving(fault: Fault) -> bool:
    """Tell whether it mends a fault to move the entries of its document, and drop what is none."""
    return fault.where.partition(".")[0] == "Journal"


def _lost(storage: Storage, document: Document, numbers: set[int], now: datetime) -> list[Fault]:
    """Return whether the entries of a document, which are numbered, have a gap."""
    last = whole(document["JournalCount"]) or 0
    is_expected = storage.journals.keeps(document.get("ChangedAt"), now)
    first = min(numbers, default=last if is_expected else last + 1)
    # Not by walking there: a game may have stored any count.
    missing = last + 1 - first - sum(first <= number <= last for number in numbers)
    if missing <= 0:
        return []
    noun = "entry" if missing == 1 else "entries"
    return [Fault("JournalCount", f"counts {missing} {noun} that history does not hold")]


def move_entries(storage: Storage, name: str, ids: list[Any]) -> None:
    """Move what is in the Journals of documents to history."""
    if kind := SUBJECTS.get(name):
        storage.journals.move(kind, ids)


def with_entry(
    storage: Storage, name: str, before: Document, after: Document, intent: Intent
) -> Document:
    """Return a repaired document with the entry of its repair."""
    kind = SUBJECTS[name]
    changes = field_changes(kind, before, after)
    return storage.swapper(kind).with_entry(after, intent, changes)
