"""The compare-and-swap: how every change to a stored document is made.

A change is read once, decided by a pure rule, and written in one atomic update. Its filter holds
the stamp that was read, which no other write can have had, and the values of what it changes, for
those who write beside us and stamp nothing. Whoever was slower reads again and tries again. The
same update notes the change in the document's journal, from which a repeated request gets its
first answer.

What is answered, yes or no, rests on what a majority holds. A primary that is cut off shows changes
that will be rolled back, so a refusal is confirmed by a write as well, one that changes nothing.
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
# What a write is known by: Version counts the changes, Stamp is unique. A counter alone is not: two
# primaries, one of them cut off, count up to the same numbers.
KNOWN_BY = ("Version", "Stamp")
# Nothing is inserted without upsert, so this is a no-op, whatever is stored. MongoDB confirms a
# no-op as it does any write: when a majority holds all that the primary had applied before it.
NO_CHANGE: Document = {"$setOnInsert": {"Version": 0}}
# Counts beyond this are somebody's mistake, and the next ones would not fit into an int64.
LARGEST_COUNT = 2**62
# PathNotViable and DocumentValidationFailure: what is stored is not what it was when it was read.
NOT_APPLICABLE = (28, 121)


class Decision(NamedTuple):
    """What came of a rule: a filter of what it is based on, an update, and what to tell."""

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
            if is_held(collection, where):
                continue
            raise NotFound(kind, next(iter(where.values())))
        _complete(document, reads)
        decision = _decide(document, rule, intent)
        if _written(collection, decision, intent):
            return _told(collection, decision.outcome)
        if tried.count(decision.based_on) > 1:
            raise Damaged(kind)
        if decision.based_on in tried:
            _complete_stored(collection, document["_id"], reads)
        tried.append(decision.based_on)
        metrics.SWAP_RETRIES.labels(collection.name).inc()
        time.sleep(pause)
    raise Busy(kind)


def is_held(collection: Collection[Document], where: Document) -> bool:
    """Tell whether there is such a document, by what a majority holds."""
    return bool(collection.update_one(where, NO_CHANGE).matched_count)


def _told(collection: Collection[Document], outcome: Applied | QuartermasterError) -> Applied:
    if isinstance(outcome, QuartermasterError):
        raise outcome
    if outcome.replayed:
        metrics.SWAP_REPLAYS.labels(collection.name).inc()
    return outcome


def _decide(document: Document, rule: Rule, intent: Intent) -> Decision:
    """Apply the rule to what was read, and say what must still be so when that is written."""
    unchanged = {"_id": document["_id"], **{name: as_read(document, name) for name in KNOWN_BY}}
    try:
        if entry := _journalled(document, intent):
            noted = {"_id": document["_id"], "Journal.Key": intent.key}
            return Decision(noted, NO_CHANGE, Applied(entry.get("Answer"), replayed=True))
        change = rule(document)
    except Unavailable:
        raise
    except QuartermasterError as refusal:
        return Decision(unchanged, NO_CHANGE, refusal)
    update, values = difference(document, change.fields)
    if not update and intent.key is None:
        return Decision(unchanged, NO_CHANGE, Applied(change.answer))
    if intent.key is not None:
        # An entry set into a journal that is missing would begin a map, in which none is found.
        values["Journal"] = {"$type": "array"}
    _note(update, document, intent, change.answer)
    return Decision({**unchanged, **values}, update, Applied(change.answer))


def _written(collection: Collection[Document], decision: Decision, intent: Intent) -> bool:
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


def _complete_stored(collection: Collection[Document], id_: Any, reads: tuple[str, ...]) -> None:
    """Add what is missing of a document that nobody changed, and that could not be written to.

    Older programs made documents without a journal, and a game may have removed a map or set it to
    null. Where that is not the reason, the document is damaged.
    """
    has_none = {"_id": id_, "Journal": {"$not": {"$type": "array"}}}
    collection.update_one(has_none, {"$set": {"Journal": []}})
    for parent in filter(None, map(_parent, reads)):
        collection.update_one({"_id": id_, parent: None}, {"$set": {parent: {}}})


def fresh_version() -> int:
    """Return a version that no living document has had, for one that is replaced as a whole.

    It is a multiple of the journal's length, so that the new journal fills from its start.
    """
    return time.time_ns() // 1_000_000 * JOURNAL_LENGTH


def fresh_stamp() -> ObjectId:
    """Return a stamp that no other write has."""
    return ObjectId()


def _pauses(patience: float) -> Iterator[float]:
    """Yield growing pauses, each of random length so that rivals do not meet again."""
    deadline = wait_deadline(patience)
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0, pause)  # nosec B311 # noqa: S311 (nothing secret about a pause)
        if time.monotonic() >= deadline:
            return
        pause = min(pause * 2, LONGEST_PAUSE)


def _projection(reads: tuple[str, ...], intent: Intent) -> Document:
    projection: Document = dict.fromkeys((*reads, *KNOWN_BY), 1)
    if intent.key is not None:
        projection["JournalCount"] = 1
        # The server picks the one entry that matters out of the journal.
        projection["Journal"] = {"$elemMatch": {"Key": intent.key}}
    return projection


def _complete(document: Document, reads: tuple[str, ...]) -> None:
    """Show a map of which one key was read as a map, though the key be absent.

    Otherwise a rule that adds the key would seem to replace a missing map, and all else in it.
    """
    for parent in filter(None, map(_parent, reads)):
        document.setdefault(parent, {})


def _parent(path: str) -> str:
    """Return the map that a path leads into; none of a whole field."""
    return path.rpartition(".")[0]


def _journalled(document: Document, intent: Intent) -> Document | None:
    entries: list[Document] = document.pop("Journal", [])
    if not entries or intent.key is None:
        return None
    same = (intent.operation, intent.fingerprint)
    if (entries[0].get("Operation"), entries[0].get("Fingerprint")) != same:
        raise KeyReused(intent.key)
    return entries[0]


def _note(update: Document, document: Document, intent: Intent, answer: Any) -> None:
    """Add the next version, a stamp and a journal entry.

    The journal is a ring, the oldest entry overwritten, with a count of its own: what a game or
    somebody without a key changes makes nobody forget a key.
    """
    version = _count(document.get("Version"))
    if version is None:
        version = fresh_version()
    fields = update.setdefault("$set", {})
    fields |= {"Version": version + 1, "Stamp": fresh_stamp()}
    if intent.key is not None:
        # A ring from before there was a count has its entries at the places of their versions.
        count = _count(document.get("JournalCount", version)) or 0
        entry = {"Operation": intent.operation, "Key": intent.key, "Answer": answer}
        entry |= {"Fingerprint": intent.fingerprint, "At": datetime.now(timezone.utc)}
        fields |= {f"Journal.{count % JOURNAL_LENGTH}": entry, "JournalCount": count + 1}


def _count(value: Any) -> int | None:
    """Return a count; a missing one is 0, and one that cannot be counted on is None."""
    count = 0 if value is None else whole(value)
    return count if count is not None and 0 <= count < LARGEST_COUNT else None
