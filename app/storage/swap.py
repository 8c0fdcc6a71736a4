"""The compare-and-swap by which every change to a stored document is made.

The document is read once, a pure rule decides, and one atomic update writes. Its filter holds the
stamp that was read, which is unique to the last write, and the values that the change is based on,
against writers such as a game that do not stamp. If the filter no longer matches, the change is
read and decided again. The same update adds an entry to the document's journal, from which a
request repeated with the same Idempotency-Key gets its first answer.

Answers rest on majority-committed data. A primary that is cut off by a network split still serves
writes that will be rolled back, so a refusal, too, is confirmed by a majority write: a no-op.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import PyMongoError, WriteError

from app import metrics
from app.changes import JOURNAL_LENGTH, Applied, Intent, Rule
from app.errors import (
    Busy,
    Damaged,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    QuartermasterError,
    Unavailable,
)
from app.storage.bulkhead import wait_deadline
from app.storage.difference import as_read, difference
from app.storage.errors import explain
from app.types import Document, whole

log = logging.getLogger("quartermaster")

PATIENCE_SECONDS = 5.0
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
# What identifies a write: Version counts the changes, and Stamp is unique. A counter alone would
# not do: in a network split, two primaries count up to the same number.
WRITE_IDENTITY = ("Version", "Stamp")
# Without upsert, $setOnInsert is a no-op whatever is stored. With write concern majority, MongoDB
# acknowledges a no-op once a majority holds all that the primary had applied before it.
NO_CHANGE: Document = {"$setOnInsert": {"Version": 0}}
# A larger count was not made by counting, and would soon overflow an int64.
LARGEST_COUNT = 2**62
# PathNotViable and DocumentValidationFailure: the document was changed since it was read.
NOT_APPLICABLE = (28, 121)


class Decision(NamedTuple):
    """The result of a rule: the filter of what it is based on, the update, and the outcome."""

    based_on: Document
    update: Document
    outcome: Applied | QuartermasterError


def swap(
    collection: Collection[Document],
    where: Document,
    reads: tuple[str, ...],
    rule: Rule,
    intent: Intent,
    patience: float = PATIENCE_SECONDS,
) -> Applied:
    """Apply a rule to one document, exactly once per Idempotency-Key."""
    kind = collection.name.removesuffix("s")
    tried: list[Document] = []
    for pause in _pauses(patience):
        document = collection.find_one(where, _projection(reads, intent))
        if document is None:
            if majority_holds(collection, where):
                continue
            raise NotFound(kind, next(iter(where.values())))
        _add_empty_maps(document, reads)
        decision = _decide(document, rule, intent)
        if _try_to_write(collection, decision, intent):
            return _outcome_of(collection, decision.outcome)
        if tried.count(decision.based_on) > 1:
            raise Damaged(kind)
        if decision.based_on in tried:
            _add_missing_parts(collection, document["_id"], reads)
        tried.append(decision.based_on)
        metrics.SWAP_RETRIES.labels(collection.name).inc()
        time.sleep(pause)
    raise Busy(kind)


def majority_holds(collection: Collection[Document], where: Document) -> bool:
    """Tell whether a majority holds such a document."""
    return bool(collection.update_one(where, NO_CHANGE).matched_count)


def _outcome_of(collection: Collection[Document], outcome: Applied | QuartermasterError) -> Applied:
    if isinstance(outcome, QuartermasterError):
        raise outcome
    if outcome.replayed:
        metrics.SWAP_REPLAYS.labels(collection.name).inc()
    return outcome


def _decide(document: Document, rule: Rule, intent: Intent) -> Decision:
    """Apply the rule to the document as read, and collect the filter that the write must match."""
    unchanged = {
        "_id": document["_id"],
        **{name: as_read(document, name) for name in WRITE_IDENTITY},
    }
    try:
        if entry := _journalled(document, intent):
            with_entry = {"_id": document["_id"], "Journal.Key": intent.key}
            return Decision(with_entry, NO_CHANGE, Applied(entry.get("Answer"), replayed=True))
        change = rule(document)
    except Unavailable:
        raise
    except QuartermasterError as refusal:
        return Decision(unchanged, NO_CHANGE, refusal)
    update, values = difference(document, change.fields)
    if not update and intent.key is None:
        return Decision(unchanged, NO_CHANGE, Applied(change.answer))
    if intent.key is not None:
        # Setting Journal.0 where there is no array would create a map, and no entry would be found.
        values["Journal"] = {"$type": "array"}
    _add_bookkeeping(update, document, intent, change.answer)
    return Decision({**unchanged, **values}, update, Applied(change.answer))


def _try_to_write(collection: Collection[Document], decision: Decision, intent: Intent) -> bool:
    try:
        return bool(collection.update_one(decision.based_on, decision.update).matched_count)
    except WriteError as error:
        if error.code not in NOT_APPLICABLE:
            raise
        log.warning("A change does not fit what is stored: %s", error)
        return False
    except PyMongoError as error:
        if intent.key is None and decision.update is not NO_CHANGE and explain(error):
            raise OutcomeUnknown from error
        raise


def _add_missing_parts(collection: Collection[Document], id_: Any, reads: tuple[str, ...]) -> None:
    """Add the missing parts of a document whose filter fails without a concurrent write.

    Older programs stored no journal, and a game may have removed a map or set it to null. If that
    does not help, the document is damaged.
    """
    has_none = {"_id": id_, "Journal": {"$not": {"$type": "array"}}}
    collection.update_one(has_none, {"$set": {"Journal": []}})
    for parent in filter(None, map(_parent, reads)):
        collection.update_one({"_id": id_, parent: None}, {"$set": {parent: {}}})


def fresh_version() -> int:
    """Return a version for a document that is replaced as a whole: later than any it has had.

    It is a multiple of the journal's length, so that the new journal fills from its start.
    """
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


def _projection(reads: tuple[str, ...], intent: Intent) -> Document:
    projection: Document = dict.fromkeys((*reads, *WRITE_IDENTITY), 1)
    if intent.key is not None:
        projection["JournalCount"] = 1
        # The server returns only the journal entry of this key.
        projection["Journal"] = {"$elemMatch": {"Key": intent.key}}
    return projection


def _add_empty_maps(document: Document, reads: tuple[str, ...]) -> None:
    """Add an empty map for each path that was projected into a map and found nothing.

    Otherwise a rule that adds a key would seem to replace the whole map.
    """
    for parent in filter(None, map(_parent, reads)):
        document.setdefault(parent, {})


def _parent(path: str) -> str:
    """Return the map that a path such as Variables.x leads into; empty for a whole field."""
    return path.rpartition(".")[0]


def _journalled(document: Document, intent: Intent) -> Document | None:
    entries: list[Document] = document.pop("Journal", [])
    if not entries or intent.key is None:
        return None
    same = (intent.operation, intent.fingerprint)
    if (entries[0].get("Operation"), entries[0].get("Fingerprint")) != same:
        raise KeyReused(intent.key)
    return entries[0]


def _add_bookkeeping(update: Document, document: Document, intent: Intent, answer: Any) -> None:
    """Add the next version, a stamp and, for a change with a key, a journal entry.

    The journal is a ring buffer with a count of its own, so that only changes with a key overwrite
    the entries of others.
    """
    version = _count(document.get("Version"))
    if version is None:
        version = fresh_version()
    fields = update.setdefault("$set", {})
    fields |= {"Version": version + 1, "Stamp": fresh_stamp()}
    if intent.key is not None:
        # Before there was a JournalCount, an entry's index was its version.
        count = _count(document.get("JournalCount", version)) or 0
        entry = {"Operation": intent.operation, "Key": intent.key, "Answer": answer}
        entry |= {"Fingerprint": intent.fingerprint, "At": datetime.now(timezone.utc)}
        fields |= {f"Journal.{count % JOURNAL_LENGTH}": entry, "JournalCount": count + 1}


def _count(value: Any) -> int | None:
    """Return a stored count; 0 if it is missing, None if it is not a usable number."""
    count = 0 if value is None else whole(value)
    return count if count is not None and 0 <= count < LARGEST_COUNT else None
