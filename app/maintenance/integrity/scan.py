"""Finds invalid documents in a database, batch by batch, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from app.batches.store import BATCH_ROWS, BATCHES
from app.core.changes import ABSENT, Change, Intent
from app.core.errors import QuartermasterError
from app.core.types import Document, whole
from app.database import SUBJECTS
from app.maintenance.integrity.kinds import KINDS, Limits, Reference
from app.maintenance.integrity.report import Report
from app.players.items.store import BAGS, HOLDERS, bags_in_slots
from app.players.operations import DELETE
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage import bulk
from app.storage.changes import Changes, fresh_version, version_of
from app.storage.client import Storage
from app.storage.history import HISTORY
from app.storage.schema.explain_validator import Fault
from app.storage.update_from_difference import value_at

BATCH_SIZE = 500
UNIQUE = {"NameKey", "EmailKey"}
# The copy of a deleted player and the entry of its deletion expire within about a minute.
EXPIRE_TOGETHER = timedelta(hours=1)
# What is read of the last entry about a document.
READ = ("Operation", "At", "Version")
# Notes on documents that may be as they should be: a game may store any Version, and drop bags.
OLDER = "has a lower Version than its last change in history: it may be an older copy"
UNRECORDED = "was changed, but history has no entry of its last change"
NOT_CARRIED = "is in no slot"


class Scan:
    """Checks the documents of a database, and repairs them if requested."""

    def __init__(
        self, storage: Storage, limits: Limits, report: Report, repair: Intent | None
    ) -> None:
        self._storage, self._db, self._run = storage, storage.db, storage.transactions.run
        self._limits = limits
        self._report = report
        self._repair = repair
        # The collection, document and slot in which each bag was found.
        self._slots: dict[str, tuple[str, Any, str]] = {}

    def check(self, name: str) -> Iterator[int]:
        """Check a collection in batches; yield the size of each."""
        refused = {"$nor": [{"$jsonSchema": KINDS[name].shape}]}
        for batch in bulk.batches(bulk.read_all(self._db[name], "_id", []), BATCH_SIZE):
            if name in SUBJECTS:
                self._compare_with_history(name, batch)
            # The server checks shapes far faster than Python, which only explains its rejections.
            these = {"_id": {"$in": [document["_id"] for document in batch]}}
            invalid = [found["_id"] for found in self._db[name].find({**these, **refused}, ["_id"])]
            shaped = [document for document in batch if document["_id"] not in invalid]
            faults = zip(shaped, self._faults(name, shaped, True), strict=True)
            invalid += [document["_id"] for document, found in faults if found]
            for id_ in invalid:
                self._examine(name, id_)
            self._report.count(name, len(batch))
            yield len(batch)

    def _faults(
        self, name: str, documents: list[Document], are_shapes_valid: bool = False
    ) -> Iterator[list[Fault]]:
        """Yield the faults of each document."""
        kind = KINDS[name]
        missing = self._missing([r for document in documents for r in kind.references(document)])
        copies = _text_ids(documents) if name == DELETED_PLAYERS.name else []
        again = self._existing(PLAYERS.name, copies)
        counts = self._counts(_text_ids(documents)) if name == BATCHES.name else {}
        for document in documents:
            found = kind.faults(document, self._limits, are_shapes_valid)
            if str(document["_id"]) in again:
                found.append(Fault("Player", "is kept as deleted, but exists"))
            for verdict, count in counts.get(str(document["_id"]), {}).items():
                # There may be fewer: an erasure deletes rows.
                if count > (whole(value_at(document, f"Counts.{verdict}")) or 0):
                    found.append(Fault(f"Counts.{verdict}", f"is below the {count} such rows"))
            for reference in kind.references(document):
                if reference[:2] in missing:
                    noun = reference.collection.removesuffix("s")
                    found.append(Fault(reference.where, f"refers to a {noun} that does not exist"))
                elif other := self._other_slot(name, document, reference):
                    found.append(Fault(reference.where, f"has a bag that is also in {other}"))
            yield found

    def _missing(self, references: list[Reference]) -> set[tuple[str, str]]:
        """Return the collection and id of each reference to a document that does not exist."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for reference in references:
            wanted[reference.collection].add(reference.id)
        return {
            (name, id_) for name, ids in wanted.items() for id_ in ids - self._existing(name, ids)
        }

    def _counts(self, batch_ids: list[str]) -> dict[str, dict[str, int]]:
        """Return the numbers of the rows of batches by their verdicts."""
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        group = {"_id": {"Batch": "$Batch", "Verdict": "$Verdict"}, "Count": {"$sum": 1}}
        stages: list[Document] = [{"$match": {"Batch": {"$in": batch_ids}}}, {"$group": group}]
        for found in self._db[BATCH_ROWS.name].aggregate(stages, hint="verdict"):
            counts[found["_id"]["Batch"]][str(found["_id"]["Verdict"]).capitalize()] = found[
                "Count"
            ]
        return counts

    def _existing(self, name: str, ids: Collection[str]) -> set[str]:
        these = {"_id": {"$in": [*ids]}}
        return {found["_id"] for found in self._db[name].find(these, ["_id"])} if ids else set()

    def _other_slot(self, name: str, document: Document, bag: Reference) -> str | None:
        """Return the slot in which the same bag was found before, if it is still there."""
        if bag.collection == BAGS.name:
            here = (name, document["_id"], bag.where)
            first, id_, where = other = self._slots.setdefault(bag.id, here)
            held = {"_id": id_, f"{where}.BagId": bag.id}
            if other != here and self._db[first].find_one(held, ["_id"]):
                return f"{where} of {first} {id_}"
            self._slots[bag.id] = here
        return None

    def _examine(self, name: str, id_: Any) -> None:
        """Report the faults of a document, and repair it if requested."""
        try:
            found = self._run(partial(self._findings, name, id_, self._repair))
        except QuartermasterError:
            # Such as that its owner is being erased.
            found = self._run(partial(self._findings, name, id_, None))
        for document, fault, is_repairable, is_repaired in found:
            self._report.add_fault(name, document, fault, is_repairable, is_repaired)

    def _findings(
        self, name: str, id_: Any, repair: Intent | None
    ) -> list[tuple[Document, Fault, bool, bool]]:
        """Return the faults of a document, which ones can be repaired, and which ones were.

        In a transaction: nothing moves between documents, and the repair is of what was read.
        """
        if (document := self._db[name].find_one({"_id": id_})) is None:
            return []
        (found,), kind = self._faults(name, [document]), KINDS[name]
        stored = repaired = document
        if name in SUBJECTS:
            repaired = kind.repaired(document, fresh_version())
        elif name == BATCHES.name and isinstance(document.get("Counts"), dict):
            counts = self._counts([id_]).get(id_, {})
            repaired = {**document, "Counts": {**document["Counts"], **counts}}
        if repair and found:
            stored = self._without_taken_keys(name, document, repaired)
        left, remaining = self._faults(name, [repaired, stored])
        if repair and stored is not document:
            new = {n: v for n, v in stored.items() if v is not document.get(n, ABSENT)}
            if name in SUBJECTS:
                changes = Changes(self._storage, SUBJECTS[name])
                change = Change(new, None, is_large=True)
                changes.write(changes.decide(document, lambda _: change, repair))
            elif new:
                self._db[name].update_one({"_id": id_}, {"$set": new})
        return [(document, f, f not in left, f not in remaining) for f in found]

    def _without_taken_keys(self, name: str, before: Document, repaired: Document) -> Document:
        """Keep the former keys if another document has the new ones, and repair the rest."""
        kept = {
            key: before.get(key, ABSENT)
            for key in repaired.keys() & UNIQUE
            if self._db[name].find_one({key: repaired[key], "_id": {"$ne": before["_id"]}}, ["_id"])
        }
        return {n: v for n, v in {**repaired, **kept}.items() if v is not ABSENT}

    def _compare_with_history(self, name: str, documents: list[Document]) -> None:
        """Note documents without their last change, and changes without an entry."""
        if suspects := [id_ for id_, _ in self._differing(documents)]:
            these = {"_id": {"$in": suspects}}
            for id_, note in self._run(lambda: self._differing([*self._db[name].find(these)])):
                self._report.add_note(name, id_, note)

    def _differing(self, documents: list[Document]) -> list[tuple[str, str]]:
        # An entry of this time may have just expired.
        now, last = self._storage.clock.now() + EXPIRE_TOGETHER, self._last(_text_ids(documents))
        found = []
        for document in documents:
            entry, at = last.get(str(document["_id"])), document.get("ChangedAt")
            version = version_of(document)
            if entry and version is not None and version < entry["Version"]:
                found.append((document["_id"], OLDER))
            elif self._storage.entries.keeps(at, now) and not (entry and entry["At"] >= at):
                found.append((document["_id"], UNRECORDED))
        return found

    def _last(self, ids: list[str]) -> dict[str, Document]:
        """Return the last entries about documents, by their ids."""
        stages: list[Document] = [
            # All on one index, which is read backwards.
            {"$match": {"Subject.Id": {"$in": ids}}},
            {"$sort": {"Subject.Id": -1, "At": -1}},
            {"$group": {"_id": "$Subject.Id", **{name: {"$first": f"${name}"} for name in READ}}},
        ]
        return {entry["_id"]: entry for entry in self._db[HISTORY.name].aggregate(stages)}

    def check_deletions(self) -> None:
        """Report deleted players whose copy should exist, but does not."""
        kept = {"$not": {"$lt": self._storage.clock.now() + EXPIRE_TOGETHER}}
        deletions = {"Operation": DELETE.name, "IsErased": {"$ne": True}, "ExpiresAt": kept}
        found = self._db[HISTORY.name].find(deletions, ["Subject", "At"], sort=[("_id", 1)])
        for some in bulk.batches(found, BATCH_SIZE):
            entries = {entry["Subject"]["Id"]: entry for entry in some}
            for id_ in self._run(partial(self._lost, {*entries})):
                self._report.add_lost_player(entries[id_])

    def _lost(self, ids: set[str]) -> list[str]:
        for name in (PLAYERS.name, DELETED_PLAYERS.name):
            ids = ids - self._existing(name, ids)
        # A game may have deleted a player that was restored.
        last = self._last([*ids])
        return [id_ for id_ in sorted(last) if last[id_]["Operation"] == DELETE.name]

    def check_bags(self) -> None:
        """Note the bags that are in no slot, at one moment."""
        with self._storage.snapshot() as session:
            carried = {
                found["_id"]
                for name, fields in HOLDERS.items()
                for field in fields
                for found in self._db[name].aggregate(bags_in_slots(field), session=session)
            }
            for bag in self._db[BAGS.name].find(
                {"_id": {"$type": "string"}}, ["_id"], session=session
            ):
                if bag["_id"] not in carried:
                    self._report.add_note(BAGS.name, bag["_id"], NOT_CARRIED)


def _text_ids(documents: list[Document]) -> list[str]:
    """Return the ids that are texts: only such have entries, or can be looked up."""
    return [document["_id"] for document in documents if isinstance(document["_id"], str)]
