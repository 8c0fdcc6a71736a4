"""Goes through all documents of a database, batch by batch, and finds and mends what is unsound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from app.database import COLLECTIONS
from app.integrity import kinds, repairs
from app.integrity.kinds import Kind
from app.integrity.rules import Limits
from app.integrity.store import existing, misshapen, read, replace_fields
from app.items.domain import bag_of
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.explain_validator import Fault
from app.storage.swap import fresh_version
from app.types import Document

BATCH = 500
# Whoever changes a document just when it is to be mended is waited for so many times.
ROUNDS = 5
UNIQUE = ("NameKey", "EmailKey")


class Reference(NamedTuple):
    """What a document says exists."""

    collection: str
    id: str
    where: str


class Finding(NamedTuple):
    """A fault of a document, and what came of it."""

    collection: str
    document: Document
    fault: Fault
    is_repairable: bool
    is_repaired: bool = False


class Check(NamedTuple):
    """How the documents of a collection are checked, and how they are mended if they can be."""

    kind: Kind
    mend: Callable[[Document, int], Document] = lambda document, _: document
    references: Callable[[Document], Iterator[Reference]] = lambda _: iter(())


def references_of_player(player: Document) -> Iterator[Reference]:
    if isinstance(player.get("UserId"), str):
        yield Reference("users", player["UserId"], "UserId")
    for field in ("Inventory", "Bank"):
        yield from bags_in(player, field)


def bags_in(document: Document, field: str) -> Iterator[Reference]:
    slots = document.get(field)
    for number, held in slots.items() if isinstance(slots, dict) else ():
        if isinstance(held, dict) and isinstance(bag := bag_of(held), str):
            yield Reference("bags", bag, f"{field}.{number}")


CHECKS = {
    **{plan.name: Check(Kind(plan.shape, [])) for plan in COLLECTIONS},
    "users": Check(kinds.USER, repairs.mended_user),
    "players": Check(kinds.PLAYER, repairs.mended_player, references_of_player),
    "bags": Check(kinds.BAG, repairs.mended_bag, lambda bag: bags_in(bag, "Slots")),
}


class Checkup:
    """Looks at the documents of a database, and mends them if that is wanted."""

    def __init__(self, storage: Storage, limits: Limits, repair: bool) -> None:
        self._db = storage.db
        self._limits = limits
        self._repair = repair

    def run(self, name: str) -> Iterator[tuple[int, list[Finding]]]:
        """Yield of a collection how many documents were looked at, and what was found on them."""
        for batch in bulk.batches(bulk.read_all(self._db[name], "_id", []), BATCH):
            # The server judges shapes far faster; only what it refuses is looked at more closely.
            ids = [document["_id"] for document in batch]
            unsound = misshapen(self._db[name], ids, CHECKS[name].kind.shape)
            shaped = [document for document in batch if document["_id"] not in unsound]
            unsound += [document["_id"] for document, _ in self._unsound(name, shaped, True)]
            yield len(batch), self._settled(name, unsound) if unsound else []

    def _unsound(
        self, name: str, documents: Iterable[Document], are_shaped: bool = False
    ) -> Iterator[tuple[Document, list[Fault]]]:
        """Yield the documents that something is wrong with, and what."""
        documents = list(documents)
        check = CHECKS[name]
        stray = self._stray([r for document in documents for r in check.references(document)])
        for document in documents:
            found = kinds.findings(check.kind, document, self._limits, are_shaped)
            for reference in check.references(document):
                if reference[:2] in stray:
                    kind = reference.collection.removesuffix("s")
                    found.append(Fault(reference.where, f"refers to a {kind} that is not there"))
            if found:
                yield document, found

    def _stray(self, references: list[Reference]) -> set[tuple[str, str]]:
        """Return the references that lead nowhere."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for reference in references:
            wanted[reference.collection].add(reference.id)
        return {
            (name, id_)
            for name, ids in wanted.items()
            for id_ in ids - existing(self._db[name], ids)
        }

    def _settled(self, name: str, ids: list[Any]) -> list[Finding]:
        """Look again at documents, which may have changed since, and mend them if wanted."""
        before = list(self._unsound(name, read(self._db[name], ids)))
        mended = [self._mended(name, document, set()) for document, _ in before]
        hopeless = _by_id(self._unsound(name, mended))
        left = _by_id(before)
        if self._repair:
            self._mend(name, ids)
            left = _by_id(self._unsound(name, read(self._db[name], ids)))
        return [
            Finding(name, document, fault, fault not in hopeless[key], fault not in left[key])
            for document, found in before
            for key in [repr(document["_id"])]
            for fault in found
        ]

    def _mend(self, name: str, ids: list[Any]) -> None:
        """Mend documents; those that somebody changed meanwhile are read and mended anew."""
        clashing: set[str] = set()
        for _ in range(ROUNDS):
            documents = list(read(self._db[name], ids))
            mended = [self._mended(name, document, clashing) for document in documents]
            pairs = [pair for pair in zip(documents, mended, strict=True) if pair[0] != pair[1]]
            if not pairs:
                break
            clashes = replace_fields(self._db[name], pairs)
            clashing |= {repr(document["_id"]) for document in clashes}

    def _mended(self, name: str, document: Document, clashing: set[str]) -> Document:
        mended = CHECKS[name].mend(document, fresh_version())
        if repr(document["_id"]) not in clashing:
            return mended
        # Its key is another's, so that the rest is mended without it.
        return {**mended, **{key: document[key] for key in UNIQUE if key in document}}


def _by_id(unsound: Iterable[tuple[Document, list[Fault]]]) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = defaultdict(list)
    return found | {repr(document["_id"]): faults for document, faults in unsound}
