"""The records of erased persons, and how a write that names one of them meets its erasure.

No pause is long enough: a worker may be stopped for an hour between two steps. So both sides write
before they look. An erasure stores its record, and then looks for what names the person. Whoever
stores something that names people looks at the records after that. One of the two sees the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson import ObjectId
from pymongo.database import Database

from app.storage.committed import committed
from app.storage.schema.plan import CollectionPlan, index
from app.storage.schema.shapes import ARRAY, GUID, MOMENT, object_shape
from app.types import Document

ERASURES = CollectionPlan(
    "erasures",
    object_shape({"_id": GUID, "BegunAt": MOMENT, "Players": ARRAY, "Bags": ARRAY}),
    (index("players", "Players"), index("name", "NameDigest", sparse=True)),
)


class ErasureRecords:
    """The records of erasures in one database."""

    def __init__(self, db: Database[Document]) -> None:
        self._erasures = db[ERASURES.name]
        self._committed = committed(self._erasures)
        self._players = committed(db["players"])

    def erased(self, ids: Iterable[str]) -> set[str]:
        """Return which of these are ids of erased accounts or of their characters."""
        wanted = set(ids)
        records = self._records_of(wanted)
        return {id_ for record in records for id_ in (record["_id"], *record["Players"])} & wanted

    def owners(self, ids: Iterable[Any]) -> dict[str, str]:
        """Return whose erasures these accounts and characters belong to, by their ids.

        A character that is there is its owner's, who may be another one in a restored backup.
        """
        wanted = {id_ for id_ in ids if isinstance(id_, str)}
        if not wanted:
            return {}
        owners = {
            id_: record["_id"]
            for record in self._records_of(wanted)
            for id_ in {record["_id"], *record["Players"]} & wanted
        }
        there = self._players.find({"_id": {"$in": list(owners)}}, ["UserId"]) if owners else ()
        others = {p["_id"] for p in there if p.get("UserId") != owners[p["_id"]]}
        return {id_: owner for id_, owner in owners.items() if id_ not in others}

    def meet(self, named: Mapping[Any, Any]) -> bool:
        """Let the erasures go on that concern what was just written; tell whether there are any.

        Named are all accounts and characters that it is about or by, with the names in it.
        """
        owners = self.owners(named)
        for id_, owner in owners.items():
            self.reopen(owner, named[id_])
        return bool(owners)

    def reopen(self, user_id: str, name: Any = None) -> None:
        """Let an erasure be carried out once more, also where the person is named so."""
        # The stamp tells whoever is about to finish it that there is more.
        again: Document = {"$set": {"FinishedAt": None, "Stamp": ObjectId()}}
        if isinstance(name, str) and name:
            again["$addToSet"] = {"Texts": name}
        self._erasures.update_one({"_id": user_id}, again)

    def _records_of(self, ids: set[str]) -> list[Document]:
        found = {"$in": list(ids)}
        where = {"$or": [{"_id": found}, {"Players": found}]}
        return list(self._committed.find(where, ["Players"]))
