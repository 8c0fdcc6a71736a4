"""The compare-and-swap for many documents at once: two reads and one bulk write.

Each change is decided and written as in app/storage/swap.py: its filter contains the stamp and the
values that were read, the same update appends its entry, and its key is looked up before. For a
bulk write, MongoDB only returns how many filters matched. If not all did, the documents are read
again: changes whose stamp is found were made. The others have no outcome; the next try finds by key
what was made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError
from pymongo.read_preferences import ReadPreference

from app import metrics
from app.changes import ABSENT, Applied, Intent, Rule
from app.errors import NotFound, QuartermasterError, Unavailable
from app.storage.decisions import (
    Decision,
    add_empty_maps,
    find_earlier,
    projection_of,
    version_of,
)
from app.storage.journal import MovedEntries
from app.storage.swap import Swapper
from app.types import Document

log = logging.getLogger("quartermaster")


class Wanted(NamedTuple):
    """The change of one document among many; its intent has a key."""

    id: Any
    reads: tuple[str, ...]
    rule: Rule
    intent: Intent


class Swapped(NamedTuple):
    """The outcome of one change among many, and the Version of the document that was read.

    The outcome is None if another process was faster, or the document needs more than one write.
    """

    outcome: Applied | QuartermasterError | None = None
    version: int | None = None
    # The warning of a change that was only judged; a change that was made has it in its entry.
    warning: str | None = None


class BulkSwapper(Swapper):
    """Changes the documents of one collection, one by one or many at once."""

    def swap_many(self, wanted: Sequence[Wanted]) -> list[Swapped]:
        """Try to change many different documents, each with its own rule."""
        documents = self.read_many(wanted)
        moved = self._journals.find_moved([one.intent for one in wanted])
        # A missing document has no outcome here: the caller then changes it alone.
        read = [one for one in wanted if one.id in documents]
        decided = {
            one.id: self.decide(documents[one.id], one.rule, one.intent, moved) for one in read
        }
        made = self._write_many(list(decided.values()))
        return [
            Swapped(self._final_outcome(decided[one.id].outcome), version_of(documents[one.id]))
            if one.id in made
            else Swapped()
            for one in wanted
        ]

    def _final_outcome(self, outcome: Applied | QuartermasterError) -> Applied | QuartermasterError:
        return outcome if isinstance(outcome, QuartermasterError) else self._outcome_of(outcome)

    def _write_many(self, decisions: Sequence[Decision]) -> set[Any]:
        """Write decisions with one command; return the ids of those that certainly took effect."""
        ids = [decision.based_on["_id"] for decision in decisions]
        updates = [UpdateOne(decision.based_on, decision.update) for decision in decisions]
        try:
            if not updates:
                return set()
            written = self._collection.bulk_write(updates, ordered=False)
            if written.matched_count == len(updates):
                return set(ids)
        except BulkWriteError as error:
            log.warning("The stored data does not allow some changes of a bulk write: %s", error)
            if error.details["writeConcernErrors"]:
                return set()
        metrics.SWAP_RETRIES.labels(self._collection.name).inc()
        # A majority holds what was written, and each stamp is unique to its write.
        primary = self._collection.with_options(read_preference=ReadPreference.PRIMARY)
        found = primary.find({"_id": {"$in": ids}}, ["Stamp"])
        stamps = {document["_id"]: document.get("Stamp") for document in found}
        return {
            decision.based_on["_id"]
            for decision in decisions
            if stamps.get(decision.based_on["_id"])
            == decision.update.get("$set", {}).get("Stamp", "")
        }

    def read_many(self, wanted: Sequence[Wanted]) -> dict[Any, Document]:
        """Return by id the fields of the documents that these changes read."""
        reads = tuple({path: None for one in wanted for path in one.reads})
        projection = projection_of(reads, None)
        if any(one.intent.undoes for one in wanted):
            projection["Journal"] = 1
        else:
            # Each document has one change, so at most one of the keys is in its Journal.
            keys = {"$in": [one.intent.key for one in wanted]}
            projection["Journal"] = {"$elemMatch": {"IdempotencyKey": keys}}
        of_these = {"_id": {"$in": list({one.id: None for one in wanted})}}
        documents = {found["_id"]: found for found in self._collection.find(of_these, projection)}
        for document in documents.values():
            add_empty_maps(document, reads)
        return documents

    def judge_many(self, wanted: Sequence[Wanted], documents: dict[Any, Document]) -> list[Swapped]:
        """Return the outcomes that changes would have, one after another, without making them.

        The documents, from read_many, are updated to the state that the changes would leave.
        """
        moved = self._journals.find_moved([one.intent for one in wanted])
        return [self._judge(one, documents, moved) for one in wanted]

    def _judge(
        self, wanted: Wanted, documents: dict[Any, Document], moved: MovedEntries
    ) -> Swapped:
        document = documents.get(wanted.id)
        if document is None:
            return Swapped(NotFound(self._kind.name, wanted.id))
        version = version_of(document)
        try:
            find_earlier({**document}, wanted.intent, moved)
            change = wanted.rule(document)
        except Unavailable:
            raise
        except QuartermasterError as refusal:
            return Swapped(refusal, version)
        after = {**document, **change.fields, "Version": (version or 0) + 1}
        documents[wanted.id] = {name: v for name, v in after.items() if v is not ABSENT}
        return Swapped(Applied(change.answer), version, change.warning)
