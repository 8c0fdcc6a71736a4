"""The records of erased persons, and how a write that names one of them meets its erasure.

No pause is long enough: a worker may be stopped for an hour between two steps. So both sides write
before they look. An erasure stores its record, and then looks for what names the person. Whoever
stores something that names people looks at the records after that. One of the two sees the other.

In a text about somebody else, an erased person is found by the digests of the names, which a record
keeps until a day after it is finished (app/storage/mentions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bson import ObjectId
from pymongo.database import Database

from app.storage.committed import committed
from app.storage.mentions import digest_of, named_in, shape_of
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
# The records by which names are still found in texts.
LATELY: Document = {"NameShapes": {"$exists": True}}
READ = ["Players", "NameShapes", "NameDigests"]


class ErasureRecords:
    """The records of erasures in one database."""

    def __init__(self, db: Database[Document]) -> None:
        self._erasures = db[ERASURES.name]
        self._committed = committed(self._erasures)
        self._players = committed(db["players"])

    def erased(self, ids: Iterable[str]) -> set[str]:
        """Return which of these are ids of erased accounts or of their characters."""
        return set(self.owners(ids))

    def owners(self, ids: Iterable[Any]) -> dict[str, str]:
        """Return whose erasures these accounts and characters belong to, by their ids.

        A character that is there is its owner's, who may be another one in a restored backup.
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

    def meet(
        self, named: Mapping[Any, Any], texts: Callable[[], Iterable[Any]] | None = None
    ) -> bool:
        """Let the erasures go on that concern what was just written; tell whether it is theirs.

        Named are all accounts and characters that it is about or by, with the names in it. Texts
        returns what people have written in it, and is called only if somebody was erased lately.
        """
        wanted = {id_ for id_ in named if isinstance(id_, str)}
        records = self._records_of(wanted, *([LATELY] if texts else []))
        owners = self._owners(records, wanted)
        for id_, owner in owners.items():
            self.reopen(owner, named[id_])
        lately = [record for record in records if "NameShapes" in record]
        for user_id, names in named_in(texts(), lately).items() if texts and lately else ():
            # Not the Stamp: an erasure need not wait for those who keep writing the name.
            again = {"$set": {"FinishedAt": None, "Mentioned": ObjectId()}, **_naming(names)}
            self._erasures.update_one({"_id": user_id}, again)
        return bool(owners)

    def lately(self) -> list[Document]:
        """Return the finished records by which names are still found in texts."""
        return list(self._committed.find({**LATELY, "FinishedAt": {"$ne": None}}, READ))

    def reopen(self, user_id: str, *names: Any) -> None:
        """Let an erasure be carried out once more, also where the person is named so."""
        # The stamp tells whoever is about to finish it that there is more.
        again: Document = {"$set": {"FinishedAt": None, "Stamp": ObjectId()}}
        self._erasures.update_one({"_id": user_id}, {**again, **_naming(names)})

    def add_names(self, user_id: str, names: Iterable[str]) -> None:
        """Add names to a record, before they are looked for."""
        if update := _naming(names):
            self._erasures.update_one({"_id": user_id}, update)

    def _records_of(self, ids: set[str], *others: Document) -> list[Document]:
        found = {"$in": list(ids)}
        where = {"$or": [{"_id": found}, {"Players": found}, *others]}
        return list(self._committed.find(where, READ))


def _naming(names: Iterable[Any]) -> Document:
    """Return the update that adds names to a record, and by what they are found later."""
    texts = sorted({name for name in names if isinstance(name, str) and name})
    shapes = {text: shape for text in texts if (shape := shape_of(text))}
    added = {
        "Texts": texts,
        "NameShapes": [*map(list, shapes.values())],
        "NameDigests": [*map(digest_of, shapes)],
    }
    each = {field: {"$each": values} for field, values in added.items() if values}
    return {"$addToSet": each} if each else {}
