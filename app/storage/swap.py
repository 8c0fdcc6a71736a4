"""The compare-and-swap: how every change to a stored document is made.

A change is read once, decided by a pure rule, and written in one atomic update whose filter holds
the version that was read. Whoever was slower reads again and tries again. The same update notes
the change in the document's journal, from which a repeated request gets its first answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from app import metrics
from app.changes import Applied, Intent, Rule
from app.errors import Busy, KeyReused, NotFound, OutcomeUnknown
from app.storage.faults import explain
from app.storage.turns import patience

Document = dict[str, Any]

JOURNAL_LENGTH = 64
PATIENCE_SECONDS = 5.0
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1


def swap(
    collection: Collection[Document],
    where: Document,
    reads: tuple[str, ...],
    rule: Rule,
    intent: Intent,
) -> Applied:
    """Apply a rule to one document, exactly once per Idempotency-Key."""
    tried: Document = {}
    for pause in _pauses():
        document = collection.find_one(where, _projection(reads, intent))
        if document is None:
            raise NotFound(collection.name.removesuffix("s"), next(iter(where.values())))
        _complete(document, reads)
        applied, unchanged, update = _decide(document, rule, intent)
        if _written(collection, unchanged, update, intent):
            if applied.replayed:
                metrics.SWAP_REPLAYS.labels(collection.name).inc()
            return applied
        if unchanged == tried:
            _begin_journal(collection, document["_id"])
        tried = unchanged
        metrics.SWAP_RETRIES.labels(collection.name).inc()
        time.sleep(pause)
    raise Busy(collection.name.removesuffix("s"))


def _decide(document: Document, rule: Rule, intent: Intent) -> tuple[Applied, Document, Document]:
    """Return the answer, the filter of what it was decided on, and the update that makes it true.

    What is true already is written all the same, as an update that changes nothing: MongoDB
    confirms it when a majority holds all that came before. What was read may be known to the
    primary alone, and undone when another is elected.
    """
    version = document.get("Version", 0)
    nothing = {"$max": {"Version": version}}
    if entry := _journalled(document, intent):
        noted = {"_id": document["_id"], "Journal.Key": intent.key}
        return Applied(entry["Answer"], replayed=True), noted, nothing
    change = rule(document)
    unchanged = _unchanged(document, intent)
    update = _difference(document, change.fields)
    if not update and intent.key is None:
        return Applied(change.answer), unchanged, nothing
    _note(update, version, intent, change.answer)
    return Applied(change.answer), unchanged, update


def _unchanged(document: Document, intent: Intent) -> Document:
    """Return the filter for a document that nobody has changed since it was read."""
    unchanged = {"_id": document["_id"], "Version": document.get("Version")}
    # An entry set into a journal that is missing would begin a map, in which none is ever found.
    return unchanged if intent.key is None else {**unchanged, "Journal": {"$type": "array"}}


def _begin_journal(collection: Collection[Document], id_: Any) -> None:
    """Give a document its journal: nobody was faster, so it has none, as those of old have not."""
    has_none = {"_id": id_, "Journal": {"$not": {"$type": "array"}}}
    collection.update_one(has_none, {"$set": {"Journal": []}})


def _written(
    collection: Collection[Document], where: Document, update: Document, intent: Intent
) -> bool:
    try:
        return bool(collection.update_one(where, update).matched_count)
    except PyMongoError as error:
        if intent.key is None and explain(error):
            raise OutcomeUnknown from error
        raise


def fresh_version() -> int:
    """Return a version that no living document has had, for one that is replaced as a whole.

    It is a multiple of the journal's length, so that the new journal fills from its start.
    """
    return time.time_ns() // 1_000_000 * JOURNAL_LENGTH


def _pauses() -> Iterator[float]:
    """Yield growing pauses, each of random length so that rivals do not meet again."""
    deadline = patience(PATIENCE_SECONDS)
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0, pause)  # nosec B311 # noqa: S311 (nothing secret about a pause)
        if time.monotonic() >= deadline:
            return
        pause = min(pause * 2, LONGEST_PAUSE)


def _projection(reads: tuple[str, ...], intent: Intent) -> Document:
    projection: Document = dict.fromkeys((*reads, "Version"), 1)
    if intent.key is not None:
        # The server picks the one entry that matters out of the journal.
        projection["Journal"] = {"$elemMatch": {"Key": intent.key}}
    return projection


def _complete(document: Document, reads: tuple[str, ...]) -> None:
    """Show a map of which one key was read as a map, though the key be absent.

    Otherwise a rule that adds the key would seem to replace a missing map, and all else in it.
    """
    for path in reads:
        parent, dot, _ = path.partition(".")
        if dot:
            document.setdefault(parent, {})


def _journalled(document: Document, intent: Intent) -> Document | None:
    entries: list[Document] = document.pop("Journal", [])
    if not entries or intent.key is None:
        return None
    same = (intent.operation, intent.fingerprint)
    if (entries[0]["Operation"], entries[0]["Fingerprint"]) != same:
        raise KeyReused(intent.key)
    return entries[0]


def _note(update: Document, version: int, intent: Intent, answer: Any) -> None:
    """Add the next version and its journal entry; the journal is a ring, oldest overwritten.

    What came without a key cannot be asked for again, and leaves its place in the ring as it is.
    """
    fields = update.setdefault("$set", {})
    fields["Version"] = version + 1
    if intent.key is not None:
        entry = {"Operation": intent.operation, "Key": intent.key, "Answer": answer}
        entry |= {"Fingerprint": intent.fingerprint, "At": datetime.now(timezone.utc)}
        fields[f"Journal.{version % JOURNAL_LENGTH}"] = entry


def _difference(old: Document, new: Mapping[str, Any]) -> Document:
    """Return the smallest update that makes these fields of the old document the new ones."""
    update: Document = {}
    _collect(update, "", {field: old.get(field, _ABSENT) for field in new}, new)
    return update


def _collect(update: Document, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if value is before:  # what a rule leaves alone, it hands back as it was
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            _collect(update, f"{path}{name}.", before, value)
        elif not _same(before, value):
            update.setdefault("$set", {})[path + name] = value
    for name in old.keys() - new.keys():
        update.setdefault("$unset", {})[path + name] = ""


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are stored alike; True equals 1 and 1.0 in Python, but not here."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (one, other)]
    return bool(one == other) and kinds[0] == kinds[1]


_ABSENT = object()
