"""Finds invalid documents in a database, batch by batch, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from app.batches.store import BATCH_ROWS, BATCHES
from app.core.changes import Change, Intent
from app.core.errors import Conflict, QuartermasterError
from app.core.progress import progress
from app.core.types import Document, value_at, whole
from app.database import SUBJECTS
from app.maintenance.integrity.kinds import SHAPES, Reference, faults, references, repair_document
from app.maintenance.integrity.report import Report
from app.maintenance.transfer.records import RECORDS
from app.players.items.store import BAGS, HOLDERS, bags_in_slots
from app.storage import bulk
from app.storage.changes import Changes, version_of
from app.storage.client import Storage
from app.storage.history import HISTORY
from app.storage.schema.explain_validator import Fault

# So many are read in one transaction.
BATCH_SIZE = 200
# What expires so soon may be gone already.
SOON = timedelta(hours=1)
# Notes on documents that may be as they should be: a game may store any Version, and drop bags.
OLDER = "has a lower Version than its last change in history: it may be an older copy"
UNRECORDED = "was changed, but history has no entry of its last change"
NOT_CARRIED = "is in no slot"
# Also without its index, a key stays unique.
TAKEN = dict.fromkeys(
    ("NameKey", "EmailKey"), lambda _: Conflict("Another document has the same key.")
)


class Scan:
    """Checks the documents of a database, and repairs them if requested."""

    def __init__(
        self,
        storage: Storage,
        settings: Mapping[str, Any],
        report: Report,
        repair: Intent | None,
    ) -> None:
        self._storage, self._db, self._run = storage, storage.db, storage.transactions.run
        self._records = {name: record(settings) for name, record in RECORDS.items()}
        self._report = report
        self._repair = repair
        # The collection, document and slot in which each bag was found.
        self._slots: dict[str, tuple[str, Any, str]] = {}

    def check(self) -> None:
        """Check all collections, batch by batch."""
        for name in SHAPES:
            ids = (found["_id"] for found in bulk.read_all(self._db[name], "_id", ["_id"]))
            count = self._db[name].estimated_document_count()
            with progress(f"Checking {name}", count) as advance:
                for batch in bulk.batches(ids, BATCH_SIZE):
                    self._check_batch(name, batch)
                    self._report.count(name, len(batch))
                    advance(len(batch))
        self._check_bags()

    def _check_batch(self, name: str, batch: list[Any]) -> None:
        of_these = {"_id": {"$in": batch}}
        invalid, notes = self._run(partial(self._read_batch, name, of_these))
        for id_, note in notes:
            self._report.add_note(name, id_, note)
        for id_ in invalid:
            self._examine(name, id_)

    def _read_batch(self, name: str, of_these: Document) -> tuple[list[Any], list[tuple[str, str]]]:
        """Return the ids of documents with faults, and notes on others: nothing changes between."""
        documents = list(self._db[name].find(of_these))
        found = zip(documents, self._faults(name, documents), strict=True)
        invalid = [document["_id"] for document, its_faults in found if its_faults]
        return invalid, self._notes(documents) if name in SUBJECTS else []

    def _faults(self, name: str, documents: list[Document]) -> Iterator[list[Fault]]:
        """Yield the faults of each document."""
        missing = self._missing([r for document in documents for r in references(name, document)])
        counts = self._counts(_text_ids(documents)) if name == BATCHES.name else {}
        for document in documents:
            found = faults(name, document, self._records.get(name))
            for verdict, count in counts.get(str(document["_id"]), {}).items():
                # There may be fewer: an erasure deletes rows.
                if count > (whole(value_at(document, f"Counts.{verdict}")) or 0):
                    found.append(Fault(f"Counts.{verdict}", f"is below the {count} such rows"))
            for reference in references(name, document):
                if reference[:2] in missing:
                    noun = reference.collection.removesuffix("s")
                    found.append(Fault(reference.where, f"refers to a {noun} that does not exist"))
                elif other := self._other_slot(name, document, reference):
                    found.append(Fault(reference.where, f"has a bag that is also in {other}"))
            yield found

    def _missing(self, all_references: list[Reference]) -> set[tuple[str, str]]:
        """Return the collection and id of each reference to a document that does not exist."""
        missing = {reference[:2] for reference in all_references}
        for name in {name for name, _ in missing}:
            these = {"_id": {"$in": [id_ for of, id_ in missing if of == name]}}
            missing -= {(name, found["_id"]) for found in self._db[name].find(these, ["_id"])}
        return missing

    def _counts(self, batch_ids: list[str]) -> dict[str, dict[str, int]]:
        """Return the numbers of the rows of batches by their verdicts."""
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        group = {"_id": {"Batch": "$Batch", "Verdict": "$Verdict"}, "Count": {"$sum": 1}}
        stages: list[Document] = [{"$match": {"Batch": {"$in": batch_ids}}}, {"$group": group}]
        for found in self._db[BATCH_ROWS.name].aggregate(stages, hint="verdict"):
            verdict = str(found["_id"]["Verdict"]).capitalize()
            counts[found["_id"]["Batch"]][verdict] = found["Count"]
        return counts

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
        is_repaired = self._repair is not None
        try:
            found = self._run(partial(self._findings, name, id_, self._repair))
        except QuartermasterError:
            # Such as that its owner is being erased.
            is_repaired = False
            found = self._run(partial(self._findings, name, id_, None))
        for document, fault, is_repairable in found:
            text = f"{fault.where} {fault.what}"
            self._report.add_fault(name, document, text, is_repairable, is_repaired)

    def _findings(
        self, name: str, id_: Any, repair: Intent | None
    ) -> list[tuple[Document, Fault, bool]]:
        """Repair a document; return its former faults, and which of them a repair removes.

        In a transaction: nothing moves between documents, and the repair is of what was read.
        """
        if (document := self._db[name].find_one({"_id": id_})) is None:
            return []
        after = repair_document(name, document) if name in SUBJECTS else document
        found, left = self._faults(name, [document, after])
        if repair and found and name in SUBJECTS:
            changes = Changes(self._storage, SUBJECTS[name], TAKEN)
            change = Change(after, None, is_large=True)
            changes.write(changes.decide_on(document, lambda _: change, repair))
        return [(document, fault, fault not in left) for fault in found]

    def _notes(self, documents: list[Document]) -> list[tuple[str, str]]:
        """Return notes on documents without their last change, or whose change has no entry."""
        now, last = self._storage.clock.now() + SOON, self._last(_text_ids(documents))
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
            {
                "$group": {
                    "_id": "$Subject.Id",
                    "At": {"$first": "$At"},
                    "Version": {"$first": "$Version"},
                }
            },
        ]
        return {entry["_id"]: entry for entry in self._db[HISTORY.name].aggregate(stages)}

    def _check_bags(self) -> None:
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
