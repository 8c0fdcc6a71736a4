"""The collection of history entries: one for each change, written in the same transaction.

Unique indexes let a change with an Idempotency-Key happen once for each document, and let a change
be undone once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pymongo.database import Database
from pymongo.read_preferences import ReadPreference

from app.core.changes import Applied, Intent
from app.core.errors import AlreadyUndone, KeyReused, NotFound, QuartermasterError
from app.core.types import Document
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, MOMENT, TEXT, object_shape
from app.storage.search_fields import history_document

NAME = "history"
# The index of named documents with notes of staff, which are few.
NOTED = index("noted", "NameKey", "_id", partialFilterExpression={"Notes": {"$exists": True}})


def _where_it_exists(field: str) -> Document:
    return {"partialFilterExpression": {field: {"$exists": True}}}


HISTORY = CollectionPlan(
    NAME,
    object_shape(
        {
            "_id": TEXT,
            "At": MOMENT,
            "Subject": object_shape({"Kind": TEXT, "Id": {}}),
            "Operation": TEXT,
            "Changes": ARRAY,
        }
    ),
    (
        index("time", "Subject.Kind", "At", "_id"),
        index("subject", "Subject.Id", "At", "_id"),
        index("author", "Authors", "At", "_id"),
        index("operation", "Operation", "At", "_id"),
        index("object", "Objects", "At", "_id"),
        index("word", "Words", "At", "_id", **_where_it_exists("Words")),
        index("key", "By.Key", "At", "_id", **_where_it_exists("By.Key")),
        index("approver", "ApprovedBy.UserId", **_where_it_exists("ApprovedBy.UserId")),
        index("undoes", "Undoes", unique=True, **_where_it_exists("Undoes")),
        index(
            "idempotency_key",
            "IdempotencyKey",
            "Subject.Id",
            "Subject.Kind",
            unique=True,
            **_where_it_exists("IdempotencyKey"),
        ),
        expiry(),
    ),
)


# Without the search fields, which would only be decoded.
REPLAYED = dict.fromkeys(("Authors", "Objects", "Words"), 0)


class Entries:
    """What changes read and write of the history of one database."""

    def __init__(self, db: Database[Document], days: int) -> None:
        # A secondary may lag behind.
        self._history = db[NAME].with_options(read_preference=ReadPreference.PRIMARY)
        self._kept = timedelta(days=days) if days else None

    def add(self, *entries: Document) -> None:
        """Insert the entries of changes, in their transaction."""
        if len(entries) == 1:
            self._history.insert_one(history_document(entries[0], self._kept))
        elif entries:
            self._history.insert_many([history_document(one, self._kept) for one in entries])

    def with_key(self, key: str, kind: str, id_: Any) -> Sequence[Document]:
        """Return the entries with an Idempotency-Key about a document; without an id, about any."""
        same = {"IdempotencyKey": key, "Subject.Kind": kind}
        if id_ is not None:
            same["Subject.Id"] = id_
        return list(self._history.find(same, REPLAYED))

    def with_keys(self, keys: Iterable[str]) -> Sequence[Document]:
        """Return the entries of changes that were made with one of these Idempotency-Keys."""
        wanted = [*keys]
        found = self._history.find({"IdempotencyKey": {"$in": wanted}}, REPLAYED)
        return list(found) if wanted else []

    def undo_refusals(self, intents: Iterable[Intent]) -> dict[str, QuartermasterError]:
        """Return by entry why changes cannot undo it: it was undone before, or is gone."""
        wanted = {intent.undoes["_id"]: intent.undoes for intent in intents if intent.undoes}
        if not wanted:
            return {}
        ids = [*wanted]
        undos = self._history.find({"Undoes": {"$in": ids}}, ["Undoes"])
        refusals: dict[str, QuartermasterError] = {
            undo["Undoes"]: AlreadyUndone(undo["Undoes"], undo["_id"]) for undo in undos
        }
        there = {entry["_id"] for entry in self._history.find({"_id": {"$in": ids}}, ["_id"])}
        for id_, entry in wanted.items():
            # An event of the game is in a collection of its own.
            if "Operation" in entry and id_ not in there:
                refusals.setdefault(id_, NotFound("entry of history", id_))
        return refusals

    def require_undoable(self, intent: Intent) -> None:
        """Raise if the entry that a change undoes was already undone, or is no longer there."""
        for refusal in self.undo_refusals([intent]).values():
            raise refusal

    def expiry_of(self, at: datetime) -> Document:
        """Return the expiry of an entry of this time, and of what expires with it; {}: never."""
        return {"ExpiresAt": at + self._kept} if self._kept else {}

    def keeps(self, at: Any, now: datetime) -> bool:
        """Return whether history still keeps an entry of this time; False if it is not a time."""
        return isinstance(at, datetime) and (self._kept is None or now - at < self._kept)


def replay(entry: Document, intent: Intent) -> Applied:
    """Return the first answer again, or raise if the key was used for another request."""
    if (entry["Operation"], entry.get("Fingerprint")) != (intent.operation, intent.fingerprint):
        raise KeyReused(str(intent.key))
    return Applied(entry.get("Answer"), replayed=True, entry=entry)
