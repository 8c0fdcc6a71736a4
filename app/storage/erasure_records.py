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

    def erased(self, ids: Iterable[str]) -> set[str]:
        """Return which of these are ids of erased accounts or of their characters."""
        wanted = set(ids)
        found = {"$in": list(wanted)}
        records = self._committed.find({"$or": [{"_id": found}, {"Players": found}]}, ["Players"])
        return {id_ for record in records for id_ in (record["_id"], *record["Players"])} & wanted

    def meet(self, accounts: Mapping[Any, Any], gone: Mapping[str, str] | None = None) -> bool:
        """Let the erasures go on that concern what was just written; tell whether there are any.

        Accounts are all that it is about or by, and gone are characters that are not there any
        more, each with the name that was written. A character that is there is its owner's, who
        may be another one than the erased person in a restored backup.
        """
        ids = {"_id": {"$in": [id_ for id_ in accounts if isinstance(id_, str)]}}
        found = list(self._committed.find(ids, ["_id"])) if ids["_id"]["$in"] else []
        for record in found:
            self.reopen(record["_id"], accounts[record["_id"]])
        for id_, name in (gone or {}).items():
            for record in self._committed.find({"Players": id_}, ["_id"]):
                self.reopen(record["_id"], name)
                found.append(record)
        return bool(found)

    def reopen(self, user_id: str, name: Any = None) -> None:
        """Let an erasure be carried out once more, also where the person is named so."""
        # The stamp tells whoever is about to finish it that there is more.
        again: Document = {"$set": {"FinishedAt": None, "Stamp": ObjectId()}}
        if isinstance(name, str) and name:
            again["$addToSet"] = {"Texts": name}
        self._erasures.update_one({"_id": user_id}, again)
