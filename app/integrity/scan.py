"""Finds invalid documents in a database, batch by batch, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from app.changes import Intent
from app.integrity.journals import (
    history_faults,
    is_mended_beside,
    lost_numbers,
    move_entries,
    with_entry,
)
from app.integrity.kinds import KINDS, Reference, document_faults
from app.integrity.rules import Limits
from app.integrity.store import existing_ids, ids_with_invalid_shape, read, replace_fields
from app.storage import bulk
from app.storage.client import Storage
from app.storage.decisions import fresh_version
from app.storage.schema.explain_validator import Fault
from app.types import Document

BATCH_SIZE = 500
# How often to retry the repair of a document that is changed concurrently.
REPAIR_ATTEMPTS = 5
UNIQUE = ("NameKey", "EmailKey")


class Finding(NamedTuple):
    """A fault of a document, and whether it can be and was repaired."""

    collection: str
    document: Document
    fault: Fault
    is_repairable: bool
    is_repaired: bool = False


class Scan:
    """Checks the documents of a database, and repairs them if requested."""

    def __init__(self, storage: Storage, limits: Limits, repair: Intent | None) -> None:
        self._storage = storage
        self._db = storage.db
        self._limits = limits
        self._repair = repair
        # The collection, document and slot in which each bag was found.
        self._slots: dict[str, tuple[str, Any, str]] = {}

    def run(self, name: str) -> Iterator[tuple[int, list[Finding]]]:
        """Check a collection in batches; yield the size and the findings of each."""
        for batch in bulk.batches(bulk.read_all(self._db[name], "_id", []), BATCH_SIZE):
            # The server checks shapes far faster than Python, which only explains its rejections.
            ids = [document["_id"] for document in batch]
            invalid = ids_with_invalid_shape(self._db[name], ids, KINDS[name].shape)
            shaped = [document for document in batch if document["_id"] not in invalid]
            invalid += [document["_id"] for document, _ in self._invalid(name, shaped, True)]
            yield len(batch), self._findings(name, invalid) if invalid else []

    def _invalid(
        self, name: str, documents: Iterable[Document], are_shapes_valid: bool = False
    ) -> Iterator[tuple[Document, list[Fault]]]:
        """Yield each invalid document with its faults."""
        documents = list(documents)
        kind = KINDS[name]
        history = history_faults(self._storage, name, documents)
        dangling = self._dangling([r for document in documents for r in kind.references(document)])
        for document in documents:
            found = document_faults(kind, document, self._limits, are_shapes_valid)
            for reference in kind.references(document):
                if reference[:2] in dangling:
                    noun = reference.collection.removesuffix("s")
                    found.append(Fault(reference.where, f"refers to a {noun} that does not exist"))
                elif other := self._other_slot(name, document, reference):
                    found.append(Fault(reference.where, f"has a bag that is also in {other}"))
            found += history.get(repr(document["_id"]), [])
            if found:
                yield document, found

    def _other_slot(self, name: str, document: Document, bag: Reference) -> str | None:
        """Return the slot in which the same bag was found before, if it is still there."""
        if bag.collection == "bags":
            here = (name, document["_id"], bag.where)
            first, id_, where = other = self._slots.setdefault(bag.id, here)
            held = {"_id": id_, f"{where}.BagId": bag.id}
            if other != here and self._db[first].find_one(held, ["_id"]):
                return f"{where} of {first} {id_}"
            self._slots[bag.id] = here
        return None

    def _dangling(self, references: list[Reference]) -> set[tuple[str, str]]:
        """Return the collection and id of each reference to a document that does not exist."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for reference in references:
            wanted[reference.collection].add(reference.id)
        return {
            (name, id_)
            for name, ids in wanted.items()
            for id_ in ids - existing_ids(self._db[name], ids)
        }

    def _findings(self, name: str, ids: list[Any]) -> list[Finding]:
        """Read the documents again, because they may have changed, and repair them if requested."""
        before = list(self._invalid(name, read(self._db[name], ids)))
        repaired = [self._repaired_document(name, document, set()) for document, _ in before]
        unrepairable = _faults_by_id(self._invalid(name, repaired))
        remaining = _faults_by_id(before)
        if self._repair:
            self._write_repairs(name, ids, self._repair)
            remaining = _faults_by_id(self._invalid(name, read(self._db[name], ids)))
        return [
            Finding(
                name,
                document,
                fault,
                fault not in unrepairable[key] or is_mended_beside(fault),
                fault not in remaining[key],
            )
            for document, found in before
            for key in [repr(document["_id"])]
            for fault in found
        ]

    def _write_repairs(self, name: str, ids: list[Any], intent: Intent) -> None:
        """Repair documents; read and repair again those that changed in between."""
        clashing: set[str] = set()
        for _ in range(REPAIR_ATTEMPTS):
            move_entries(self._storage, name, ids)
            documents = list(read(self._db[name], ids))
            lost = lost_numbers(self._storage, name, documents)
            pairs = []
            for before in documents:
                after = self._repaired_document(name, before, clashing)
                missing = lost.get(repr(before["_id"]), [])
                if before != after or missing:
                    written = with_entry(self._storage, name, before, after, intent, missing)
                    pairs.append((before, written))
            if not pairs:
                break
            clashes = replace_fields(self._db[name], pairs)
            clashing |= {repr(document["_id"]) for document in clashes}

    def _repaired_document(self, name: str, document: Document, clashing: set[str]) -> Document:
        repaired = KINDS[name].repair(document, fresh_version())
        if repr(document["_id"]) not in clashing:
            return repaired
        # The derived key belongs to another document: keep the stored one, and repair the rest.
        return {**repaired, **{key: document[key] for key in UNIQUE if key in document}}


def _faults_by_id(invalid: Iterable[tuple[Document, list[Fault]]]) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = defaultdict(list)
    # repr: the id of a broken document may be of a type that is not hashable.
    return found | {repr(document["_id"]): faults for document, faults in invalid}
