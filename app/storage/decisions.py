"""Decides what a change writes, and under which condition. Nothing here writes.

A rule is applied to a document as it was read. The filter of the write contains the stamp that was
read, which is unique to the last write. It also contains the values that the change is based on: a
game writes without stamps. The same update appends the entry of the change to the Journal.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from bson import ObjectId

from app.changes import (
    JOURNAL_LENGTH,
    Applied,
    Change,
    Intent,
    Rule,
    SubjectKind,
    changed_at,
    field_changes,
    new_entry,
    within_size,
)
from app.errors import AlreadyUndone, KeyReused, NotFound, QuartermasterError, Unavailable
from app.storage.clock import Clock
from app.storage.committed import NO_CHANGE
from app.storage.journal import MovedEntries
from app.storage.update_from_difference import as_read, difference
from app.types import Document, whole

# Identify a write: Version counts the changes, and Stamp is unique. A counter alone is not
# enough: in a network split, two primaries reach the same number.
WRITE_IDENTITY = ("Version", "Stamp")
# A larger number cannot result from counting, and would soon overflow an int64.
LARGEST_COUNT = 2**62
# Matches a Journal that is an array with room for another entry.
HAS_ROOM: Document = {
    "Journal": {"$type": "array"},
    f"Journal.{JOURNAL_LENGTH - 1}": {"$exists": False},
}


class Decision(NamedTuple):
    """The result of a rule: the filter with its preconditions, the update, and the outcome."""

    based_on: Document
    update: Document
    outcome: Applied | QuartermasterError


class Decisions:
    """Decides changes to the documents of one kind."""

    def __init__(self, kind: SubjectKind, clock: Clock) -> None:
        self._kind = kind
        self._clock = clock

    def decide(
        self, document: Document, rule: Rule, intent: Intent, moved: MovedEntries
    ) -> Decision:
        """Apply the rule to the document as read, and compose the filter of the write."""
        unchanged = {
            "_id": document["_id"],
            **{name: as_read(document, name) for name in WRITE_IDENTITY},
        }
        try:
            if earlier := find_earlier(document, intent, moved):
                return earlier
            change = rule(document)
        except Unavailable:
            raise
        except QuartermasterError as refusal:
            return Decision(unchanged, NO_CHANGE, refusal)
        return self._decision_on(change, document, unchanged, intent)

    def _decision_on(
        self, change: Change, document: Document, unchanged: Document, intent: Intent
    ) -> Decision:
        update, values = difference(document, change.fields)
        if not update and intent.key is None and not change.is_noted:
            return Decision(unchanged, NO_CHANGE, Applied(change.answer))
        bookkeeping = self._bookkeeping(document)
        if not change.has_entry:
            identity = {name: bookkeeping[name] for name in WRITE_IDENTITY}
            update.setdefault("$set", {}).update(identity)
            applied = Applied(change.answer, version=bookkeeping["Version"])
            return Decision({**unchanged, **values}, update, applied)
        update.setdefault("$set", {}).update(bookkeeping)
        changes = change.recorded
        if changes is None:
            changes = field_changes(self._kind, document, change.fields)
        changes = within_size(changes) if change.is_large else changes
        meant = change.intent_with_warning(intent)
        entry = new_entry(self._kind, document, meant, changes, bookkeeping)
        if intent.key is not None:
            entry["Answer"] = change.answer
        update["$push"] = {"Journal": entry}
        applied = Applied(change.answer, entry=entry)
        return Decision({**unchanged, **values, **HAS_ROOM}, update, applied)

    def _bookkeeping(self, document: Document) -> Document:
        """Return the next version, a new stamp, the time, and the incremented entry count."""
        version = _count(document.get("Version"))
        if version is None:
            version = fresh_version()
        # A game may have set the Version back, but entry ids must not repeat.
        version = max(version, _count(document.get("LastVersion")) or 0)
        return {
            "Version": version + 1,
            "LastVersion": version + 1,
            "Stamp": fresh_stamp(),
            "ChangedAt": changed_at(self._clock.now(), document.get("ChangedAt")),
            "JournalCount": (_count(document.get("JournalCount")) or 0) + 1,
        }

    def preview_entry(
        self, document: Document, intent: Intent, changes: list[Document]
    ) -> Document:
        """Return the entry that these changes would have, without id and time."""
        entry = new_entry(self._kind, document, intent, changes, self._bookkeeping(document))
        return {**entry, "_id": None, "At": None}

    def with_entry(self, document: Document, intent: Intent, changes: list[Document]) -> Document:
        """Return a document that is written as a whole, with another entry in its Journal."""
        bookkeeping = self._bookkeeping(document)
        entry = new_entry(self._kind, document, intent, within_size(changes), bookkeeping)
        return {**document, **bookkeeping, "Journal": [*document["Journal"], entry]}


def find_earlier(document: Document, intent: Intent, moved: MovedEntries) -> Decision | None:
    """Return the answer of the same change if it was made before; raise if another was."""
    entries = _entries_in(document.pop("Journal", None))
    if intent.key is not None:
        entry = next((e for e in entries if e.get("IdempotencyKey") == intent.key), None)
        if entry is not None:
            # A network split may roll it back: the write checks that the primary still has it.
            with_entry = {"_id": document["_id"], "Journal.IdempotencyKey": intent.key}
            return replay(with_entry, entry, intent)
        entry = moved.find_key(document["_id"], intent.key)
        if entry is not None:
            # Entries in history are always majority-committed.
            return replay({"_id": document["_id"]}, entry, intent)
    if intent.undoes is not None:
        require_undoable(entries, intent.undoes, moved)
    return None


def require_undoable(journal: list[Document], entry: Document, moved: MovedEntries) -> None:
    """Raise if a change was already undone, or was rolled back since it was read."""
    undo = next((other for other in journal if other.get("Undoes") == entry["_id"]), None)
    if undo := undo or moved.find_undo(entry["_id"]):
        raise AlreadyUndone(entry["_id"], undo["_id"])
    if "Stamp" not in entry:  # an event of the game, which cannot be rolled back
        return
    is_here = any(other.get("Stamp") == entry["Stamp"] for other in journal)
    if not is_here and not moved.has_moved(entry["Subject"]["Id"], entry["Stamp"]):
        raise NotFound("entry of history", entry["_id"])


def _entries_in(journal: Any) -> list[Document]:
    return [e for e in journal if isinstance(e, dict)] if isinstance(journal, list) else []


def replay(where: Document, entry: Document, intent: Intent) -> Decision:
    """Return the first answer again, or raise if the key was used for another request."""
    if (entry["Operation"], entry.get("Fingerprint")) != (intent.operation, intent.fingerprint):
        raise KeyReused(str(intent.key))
    return Decision(where, NO_CHANGE, Applied(entry.get("Answer"), replayed=True, entry=entry))


def fresh_version() -> int:
    """Return a version for a document that is replaced as a whole: higher than all before."""
    return time.time_ns() // 1_000_000 * JOURNAL_LENGTH


def fresh_stamp() -> ObjectId:
    """Return a stamp that is unique to one write."""
    return ObjectId()


def projection_of(reads: tuple[str, ...], intent: Intent | None) -> Document:
    known = ("Name", *WRITE_IDENTITY, "LastVersion", "ChangedAt", "JournalCount")
    projection: Document = dict.fromkeys((*reads, *known), 1)
    if intent is None:
        return projection
    if intent.undoes is not None:
        projection["Journal"] = 1
    elif intent.key is not None:
        # The server only returns the entry with this key.
        projection["Journal"] = {"$elemMatch": {"IdempotencyKey": intent.key}}
    return projection


def add_empty_maps(document: Document, reads: tuple[str, ...]) -> None:
    """Add an empty map for each projected path whose map was not found.

    Otherwise a rule that adds a key would seem to replace the whole map.
    """
    for parent in filter(None, map(parent_of, reads)):
        document.setdefault(parent, {})


def parent_of(path: str) -> str:
    """Return the map that contains a path such as Variables.x; empty for a whole field."""
    return path.rpartition(".")[0]


def version_of(document: Document) -> int | None:
    """Return the Version of a document; None if it is not a usable number."""
    return _count(document.get("Version"))


def _count(value: Any) -> int | None:
    """Return a stored count; 0 if it is missing, None if it is not a usable number."""
    count = 0 if value is None else whole(value)
    return count if count is not None and 0 <= count < LARGEST_COUNT else None
