"""The compare-and-swap by which every change to a stored document is made.

The document is read once, a pure rule decides, and one atomic update writes. Its filter holds the
stamp that was read, which is unique to the last write, and the values that the change is based on,
against writers such as a game that do not stamp. If the filter no longer matches, the change is
read and decided again. The same update appends the entry of the change to the document's Journal,
from which it moves to history (app/storage/journal.py). A request repeated with the same
Idempotency-Key gets the first answer from there, for as long as history is kept.

Answers rest on majority-committed data. A primary that is cut off by a network split still serves
writes that will be rolled back, so a refusal, too, is confirmed by a majority write: a no-op.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError, WriteError

from app import metrics
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
from app.errors import (
    AlreadyUndone,
    Busy,
    Damaged,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    QuartermasterError,
    TooLarge,
    Unavailable,
)
from app.request_scope import wait_deadline
from app.storage.clock import Clock
from app.storage.committed import NO_CHANGE, majority_holds
from app.storage.errors import explain, is_forbidden
from app.storage.journal import Journals, MovedEntries
from app.storage.turns import Turns
from app.storage.update_from_difference import as_read, difference
from app.types import Document, whole

log = logging.getLogger("quartermaster")

# Shorter than a request may use the database, so that the last try is not cut short.
PATIENCE_SECONDS = 4.0
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
# What identifies a write: Version counts the changes, and Stamp is unique. A counter alone would
# not do: in a network split, two primaries count up to the same number.
WRITE_IDENTITY = ("Version", "Stamp")
# A larger count was not made by counting, and would soon overflow an int64.
LARGEST_COUNT = 2**62
# How often a write may fail on a document that is still as it was read. Two of the failures may be
# due to a full Journal, which somebody else has emptied, and to a write since.
MOST_FAILURES = 2
# PathNotViable and DocumentValidationFailure: the document was changed since it was read.
NOT_APPLICABLE = (28, 121)
# BSONObjectTooLarge, before and after the update is applied.
TOO_LARGE_CODES = (10334, 17419)
# A Journal that is an array with room for one more entry.
HAS_ROOM: Document = {
    "Journal": {"$type": "array"},
    f"Journal.{JOURNAL_LENGTH - 1}": {"$exists": False},
}


class Decision(NamedTuple):
    """The result of a rule: the filter of what it is based on, the update, and the outcome."""

    based_on: Document
    update: Document
    outcome: Applied | QuartermasterError


class Swapper:
    """Changes the documents of one collection."""

    def __init__(
        self,
        collection: Collection[Document],
        kind: SubjectKind,
        journals: Journals,
        clock: Clock,
    ) -> None:
        self._collection = collection
        self._kind = kind
        self._journals = journals
        self._clock = clock
        self._turns = Turns()

    def swap(
        self,
        where: Document,
        reads: tuple[str, ...],
        rule: Rule,
        intent: Intent,
        patience: float = PATIENCE_SECONDS,
    ) -> Applied:
        """Apply a rule to one document, exactly once per Idempotency-Key."""
        with self._turns.take(str(where), wait_deadline(patience) - time.monotonic()):
            return self._swap(where, reads, rule, intent, patience)

    def _swap(
        self,
        where: Document,
        reads: tuple[str, ...],
        rule: Rule,
        intent: Intent,
        patience: float,
    ) -> Applied:
        failed: list[Document] = []
        for pause in _pauses(patience):
            if document := self._read(where, reads, intent):
                decision = self._decide(document, rule, intent, self._journals.find_moved([intent]))
                if failed.count(decision.based_on) > MOST_FAILURES:
                    raise Damaged(self._kind.name)
                if self._try_to_write(decision, intent):
                    return self._outcome_of(decision.outcome)
                self._prepare_retry(document["_id"], reads, decision.based_on, failed)
                metrics.SWAP_RETRIES.labels(self._collection.name).inc()
                time.sleep(pause)
        raise Busy(self._kind.name)

    def _read(self, where: Document, reads: tuple[str, ...], intent: Intent) -> Document | None:
        """Read a document; None if a majority holds one that was not found, else raise NotFound."""
        document = self._collection.find_one(where, projection_of(reads, intent))
        if document is not None:
            add_empty_maps(document, reads)
        elif not majority_holds(self._collection, where):
            raise NotFound(self._kind.name, next(iter(where.values())))
        return document

    def _prepare_retry(
        self, id_: Any, reads: tuple[str, ...], based_on: Document, failed: list[Document]
    ) -> None:
        """After a second failure on the same values, remove what may prevent the write."""
        if based_on in failed:
            if self._is_full(id_):
                # What no majority holds yet does not move: this is no failure, but too soon.
                self._journals.move(self._kind, [id_])
                return
            self._add_missing_parts(id_, reads)
        failed.append(based_on)

    def preview(
        self, where: Document, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Document:
        """Return the entry that a change would have, without id and time, and change nothing."""
        document = self._read(where, reads, intent)
        if document is None:
            raise Busy(self._kind.name)
        changes = field_changes(self._kind, document, rule(document).fields)
        return self.previewed(document, intent, changes)

    def find_earlier(self, where: Document, intent: Intent) -> Applied | None:
        """Return what the same request has done before, as a majority holds it; None: it is new."""
        while document := self._collection.find_one(where, projection_of((), intent)):
            earlier = self._earlier(document, intent, self._journals.find_moved([intent]))
            if earlier is None:
                break
            # A write that matches nothing: the entry has just moved to history, or is rolled back.
            if self._try_to_write(earlier, intent):
                return self._outcome_of(earlier.outcome)
        return None

    def find_moved(self, id_: Any, intent: Intent) -> Applied | None:
        """Return what the same request has done, also to a document that is gone since."""
        entry = self._journals.find_moved([intent]).find_key(id_, intent.key)
        return self._outcome_of(_replay({}, entry, intent).outcome) if entry else None

    def require_undoable(self, intent: Intent) -> None:
        """Raise if history holds that the change which a request undoes was undone before."""
        if intent.undoes is not None:
            _require_undoable([], intent.undoes, self._journals.find_moved([intent]))

    def insert(
        self,
        document: Document,
        intent: Intent,
        changes: Sequence[Document] = (),
        is_checked: bool = True,
    ) -> Document:
        """Insert a document together with its entry, and return the entry.

        One that is brought back as it was is not checked by the validator, if the account of the
        database may do that: it may be older than its validator.
        """
        with_entry = self.with_entry(document, intent, list(changes))
        try:
            self._collection.insert_one(with_entry, bypass_document_validation=not is_checked)
        except OperationFailure as error:
            if is_checked or not is_forbidden(error):
                raise
            self._collection.insert_one(with_entry)
        except PyMongoError as error:
            if intent.key is None and explain(error):
                raise OutcomeUnknown from error
            raise
        self._count_entry(intent.operation, document["_id"])
        entry: Document = with_entry["Journal"][-1]
        return entry

    def previewed(self, document: Document, intent: Intent, changes: list[Document]) -> Document:
        """Return the entry that these changes would have, without id and time."""
        entry = new_entry(self._kind, document, intent, changes, self._bookkeeping(document))
        return {**entry, "_id": None, "At": None}

    def with_entry(self, document: Document, intent: Intent, changes: list[Document]) -> Document:
        """Return a document that is written as a whole, with one more entry in its Journal."""
        bookkeeping = self._bookkeeping(document)
        entry = new_entry(self._kind, document, intent, within_size(changes), bookkeeping)
        return {**document, **bookkeeping, "Journal": [*document["Journal"], entry]}

    def _count_entry(self, operation: str, id_: Any) -> None:
        metrics.HISTORY_ENTRIES.labels(operation).inc()
        self._journals.note(self._kind, id_)

    def _outcome_of(self, outcome: Applied | QuartermasterError) -> Applied:
        if isinstance(outcome, QuartermasterError):
            raise outcome
        if outcome.replayed:
            metrics.SWAP_REPLAYS.labels(self._collection.name).inc()
        elif outcome.entry:
            self._count_entry(outcome.entry["Operation"], outcome.entry["Subject"]["Id"])
        return outcome

    def _decide(
        self, document: Document, rule: Rule, intent: Intent, moved: MovedEntries
    ) -> Decision:
        """Apply the rule to the document as read, and collect the filter of the write."""
        unchanged = {
            "_id": document["_id"],
            **{name: as_read(document, name) for name in WRITE_IDENTITY},
        }
        try:
            if earlier := self._earlier(document, intent, moved):
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
            return Decision({**unchanged, **values}, update, Applied(change.answer))
        update.setdefault("$set", {}).update(bookkeeping)
        changes = field_changes(self._kind, document, change.fields)
        changes = within_size(changes) if change.is_large else changes
        entry = new_entry(self._kind, document, intent, changes, bookkeeping)
        if intent.key is not None:
            entry["Answer"] = change.answer
        update["$push"] = {"Journal": entry}
        applied = Applied(change.answer, entry=entry)
        return Decision({**unchanged, **values, **HAS_ROOM}, update, applied)

    @staticmethod
    def _earlier(document: Document, intent: Intent, moved: MovedEntries) -> Decision | None:
        """Return the answer of the same change if it was made before; raise if another was."""
        entries = _entries_in(document.pop("Journal", None))
        if intent.key is not None:
            entry = next((e for e in entries if e.get("IdempotencyKey") == intent.key), None)
            if entry is not None:
                # In a network split it may be rolled back: the write finds it at the primary.
                with_entry = {"_id": document["_id"], "Journal.IdempotencyKey": intent.key}
                return _replay(with_entry, entry, intent)
            entry = moved.find_key(document["_id"], intent.key)
            if entry is not None:
                # Only what a majority holds has moved to history.
                return _replay({"_id": document["_id"]}, entry, intent)
        if intent.undoes is not None:
            _require_undoable(entries, intent.undoes, moved)
        return None

    def _bookkeeping(self, document: Document) -> Document:
        """Return the next version, a stamp, the time, and the count of entries with one more."""
        version = _count(document.get("Version"))
        if version is None:
            version = fresh_version()
        # A game may have set the Version back, and an entry has its id from it.
        version = max(version, _count(document.get("LastVersion")) or 0)
        return {
            "Version": version + 1,
            "LastVersion": version + 1,
            "Stamp": fresh_stamp(),
            "ChangedAt": changed_at(self._clock.now(), document.get("ChangedAt")),
            "JournalCount": (_count(document.get("JournalCount")) or 0) + 1,
        }

    def _try_to_write(self, decision: Decision, intent: Intent) -> bool:
        try:
            result = self._collection.update_one(decision.based_on, decision.update)
            return bool(result.matched_count)
        except WriteError as error:
            if error.code in TOO_LARGE_CODES:
                raise TooLarge(self._kind.name) from error
            if error.code not in NOT_APPLICABLE:
                raise
            log.warning("A change does not fit what is stored: %s", error)
            return False
        except PyMongoError as error:
            if intent.key is None and decision.update is not NO_CHANGE and explain(error):
                raise OutcomeUnknown from error
            raise

    def _is_full(self, id_: Any) -> bool:
        """Tell whether a Journal has no room for another entry."""
        last = {"_id": id_, f"Journal.{JOURNAL_LENGTH - 1}": {"$exists": True}}
        return self._collection.find_one(last, {"_id": 1}) is not None

    def _add_missing_parts(self, id_: Any, reads: tuple[str, ...]) -> None:
        """Add the missing parts of a document whose filter fails without a concurrent write.

        Older programs stored no journal, and a game may have removed a map or set it to null. If
        that does not help, the document is damaged.
        """
        has_no_journal = {"_id": id_, "Journal": {"$not": {"$type": "array"}}}
        self._collection.update_one(has_no_journal, {"$set": {"Journal": []}})
        for parent in filter(None, map(_parent, reads)):
            self._collection.update_one({"_id": id_, parent: None}, {"$set": {parent: {}}})


def _require_undoable(journal: list[Document], entry: Document, moved: MovedEntries) -> None:
    """Raise if a change was undone before, or was rolled back since it was read."""
    undo = next((other for other in journal if other.get("Undoes") == entry["_id"]), None)
    if undo := undo or moved.find_undo(entry["_id"]):
        raise AlreadyUndone(entry["_id"], undo["_id"])
    is_here = any(other.get("Stamp") == entry["Stamp"] for other in journal)
    if not is_here and not moved.has_moved(entry["Subject"]["Id"], entry["Stamp"]):
        raise NotFound("entry of history", entry["_id"])


def _entries_in(journal: Any) -> list[Document]:
    return [e for e in journal if isinstance(e, dict)] if isinstance(journal, list) else []


def _replay(where: Document, entry: Document, intent: Intent) -> Decision:
    """Return the first answer again, or raise if the key came with another request."""
    if (entry["Operation"], entry.get("Fingerprint")) != (intent.operation, intent.fingerprint):
        raise KeyReused(str(intent.key))
    return Decision(where, NO_CHANGE, Applied(entry.get("Answer"), replayed=True, entry=entry))


def fresh_version() -> int:
    """Return a version for a document that is replaced as a whole: later than any it has had."""
    return time.time_ns() // 1_000_000 * JOURNAL_LENGTH


def fresh_stamp() -> ObjectId:
    """Return a stamp that is unique to one write."""
    return ObjectId()


def _pauses(patience: float) -> Iterator[float]:
    """Yield pauses of an exponential backoff with jitter, so that concurrent writers spread out."""
    deadline = wait_deadline(patience)
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0, pause)  # nosec B311 # noqa: S311 (nothing secret about a pause)
        if time.monotonic() >= deadline:
            return
        pause = min(pause * 2, LONGEST_PAUSE)


def projection_of(reads: tuple[str, ...], intent: Intent | None) -> Document:
    known = ("Name", *WRITE_IDENTITY, "LastVersion", "ChangedAt", "JournalCount")
    projection: Document = dict.fromkeys((*reads, *known), 1)
    if intent is None:
        return projection
    if intent.undoes is not None:
        projection["Journal"] = 1
    elif intent.key is not None:
        # The server returns only the entry with this key.
        projection["Journal"] = {"$elemMatch": {"IdempotencyKey": intent.key}}
    return projection


def add_empty_maps(document: Document, reads: tuple[str, ...]) -> None:
    """Add an empty map for each path that was projected into a map and found nothing.

    Otherwise a rule that adds a key would seem to replace the whole map.
    """
    for parent in filter(None, map(_parent, reads)):
        document.setdefault(parent, {})


def _parent(path: str) -> str:
    """Return the map that a path such as Variables.x leads into; empty for a whole field."""
    return path.rpartition(".")[0]


def version_of(document: Document) -> int | None:
    """Return the Version of a document; None if it is not a usable number."""
    return _count(document.get("Version"))


def _count(value: Any) -> int | None:
    """Return a stored count; 0 if it is missing, None if it is not a usable number."""
    count = 0 if value is None else whole(value)
    return count if count is not None and 0 <= count < LARGEST_COUNT else None
