"""The records of erasures, and the check of writes that name an erased person.

Waiting does not help: a worker may be suspended for an hour between two steps. So both sides write
before they read. An erasure stores its record, then searches for documents that name the person. A
process that stores a document with names then reads the records. So one of them sees the other.

In texts, erased people are found by digests of their names, which a record keeps until a day after
the erasure has finished (app/storage/mentions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bson import ObjectId
from pymongo.database import Database

from app.storage.committed import committed
from app.storage.mentions import digest_of, find_names, shape_of
from app.storage.schema.plan import CollectionPlan, index
from app.storage.schema.shapes import ARRAY, GUID, MOMENT, object_shape
from app.types import Document

ERASURES = CollectionPlan(
    "erasures",
    object_shape({"_id": GUID, "BegunAt": MOMENT, "Players": ARRAY, "Bags": ARRAY}),
    (
        index("players", "Players"),
        index("name", "NameDigest", sparse=True),
        index("mentions", "NameShapes", sparse=True),
    ),
)
# Matches records that still have the digests of names.
WITH_DIGESTS: Document = {"NameShapes": {"$exists": True}}
READ = ["Players", "NameShapes", "NameDigests"]


class ErasureRecords:
    """The records of erasures in one database."""

    def __init__(self, db: Database[Document]) -> None:
        self._erasures = db[ERASURES.name]
        self._committed = committed(self._erasures)
        self._players = committed(db["players"])

    def erased_ids(self, ids: Iterable[str]) -> set[str]:
        """Return which of these are ids of erased accounts or their characters."""
        return set(self.owners(ids))

    def owners(self, ids: Iterable[Any]) -> dict[str, str]:
        """Return the erased account of each of these accounts and characters, by id.

        An existing character with another owner is left out: it may be from a restored backup.
        """
        wanted = {id_ for id_ in ids if isinstance(id_, str)}
        return self._owners(self._records_of(wanted), wanted) if wanted else {}

    def _owners(self, records: Iterable[Document], wanted: set[str]) -> dict[str, str]:
        owners = {
            id_: record["_id"]
            for record in records
            for id_ in {record["_id"], *record["Players"]} & wanted
        }
        there = self._players.find({"_id": {"$in": list(owners)}}, ["UserId"]) if owners else ()
        others = {p["_id"] for p in there if p.get("UserId") != owners[p["_id"]]}
        return {id_: owner for id_, owner in owners.items() if id_ not in others}

    def reopen_named(
        self, named: Mapping[Any, Any], texts: Callable[[], Iterable[Any]] | None = None
    ) -> bool:
        """Reopen the erasures that concern a document just written; return whether it is theirs.

        named contains all accounts and characters that it is about or by, with the names in it.
        texts returns the free texts in it, and is called only if somebody was erased recently.
        """
        wanted = {id_ for id_ in named if isinstance(id_, str)}
        records = self._records_of(wanted, *([WITH_DIGESTS] if texts else []))
        owners = self._owners(records, wanted)
        for id_, owner in owners.items():
            self.reopen(owner, named[id_])
        recent = [record for record in records if "NameShapes" in record]
        for user_id, names in find_names(texts(), recent).items() if texts and recent else ():
            # The Stamp stays: an erasure need not wait for people who keep writing the name.
            again = {"$set": {"FinishedAt": None, "Mentioned": ObjectId()}, **_naming(names)}
            self._erasures.update_one({"_id": user_id}, again)
        return bool(owners)

    def recent_records(self) -> list[Document]:
        """Return the finished records that still have the digests of names."""
        return list(self._committed.find({**WITH_DIGESTS, "FinishedAt": {"$ne": None}}, READ))

    def reopen(self, user_id: str, *names: Any) -> None:
        """Run an erasure again, also for these names of the person."""
        # A new Stamp keeps a worker that is about to finish the erasure from doing so.
        again: Document = {"$set": {"FinishedAt": None, "Stamp": ObjectId()}}
        self._erasures.update_one({"_id": user_id}, {**again, **_naming(names)})

    def add_names(self, user_id: str, names: Iterable[str]) -> None:
        """Add names to a record before searching for them."""
        if update := _naming(names):
            self._erasures.update_one({"_id": user_id}, update)

    def _records_of(self, ids: set[str], *others: Document) -> list[Document]:
        found = {"$in": list(ids)}
        where = {"$or": [{"_id": found}, {"Players": found}, *others]}
        return list(self._committed.find(where, READ))


def _naming(names: Iterable[Any]) -> Document:
    """Return the update that adds names and their digests to a record."""
    texts = sorted({name for name in names if isinstance(name, str) and name})
    shapes = {text: shape for text in texts if (shape := shape_of(text))}
    added = {
        "Texts": texts,
        "NameShapes": [*map(list, shapes.values())],
        "NameDigests": [*map(digest_of, shapes)],
    }
    each = {field: {"$each": values} for field, values in added.items() if values}
    return {"$addToSet": each} if each else {}
