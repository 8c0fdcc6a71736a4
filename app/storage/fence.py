"""Keeps the names of people who are being erased from being stored again.

An erasure begins with its record (app/privacy/store.py). Every transaction that stores a person's
id together with a name or a text reads, inside, that there is no such record. So once the
transactions have ended that began before the record, nobody stores anything about the person, and
the erasure can delete what there is. The record decides, not ``ErasedAt`` in a document: a game may
overwrite its documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo.collection import Collection

from app.core.errors import Conflict, Unauthorized
from app.core.types import Document
from app.storage.commands import read_one
from app.storage.schema.plan import CollectionPlan, index
from app.storage.schema.shapes import ARRAY, GUID, MOMENT, object_shape

# Kept for ever, and in every backup: with them, db check finds erased people who have returned.
ERASURES = CollectionPlan(
    "erasures",
    object_shape({"_id": GUID, "BegunAt": MOMENT, "Players": ARRAY, "Bags": ARRAY}),
    (index("players", "Players"),),
)


class BeingErased(Conflict):
    sentence = "This belongs to a person who is being erased."


def erased_people(
    erasures: Collection[Document], ids: Iterable[Any], belongings: str = "Players"
) -> dict[str, str]:
    """Return the erased account of each of these accounts and characters (or Bags), by id.

    A character that has another owner by now is left out: it may be from a restored backup.
    """
    wanted = {id_ for id_ in ids if isinstance(id_, str)}
    if not wanted:
        return {}
    these = {"$in": [*wanted]}
    records = erasures.find({"$or": [{"_id": these}, {belongings: these}]}, [belongings])
    owners = {
        id_: record["_id"]
        for record in records
        for id_ in {record["_id"], *record[belongings]} & wanted
    }
    documents = erasures.database["players"]
    there = documents.find({"_id": {"$in": [*owners]}}, ["UserId"]) if owners else ()
    others = {p["_id"] for p in there if p.get("UserId") != owners[p["_id"]]}
    return {id_: owner for id_, owner in owners.items() if id_ not in others}


def require_not_erased(
    erasures: Collection[Document],
    owners: Iterable[Any],
    *entries: Document | None,
    players: Sequence[Any] = (),
) -> None:
    """Raise if an owner of documents, or an author or approver of entries, is being erased.

    So are the owners of these players, whose documents a game may have deleted or overwritten.
    """
    authors = {entry["By"]["UserId"] for entry in entries if entry}
    authors |= {
        entry["ApprovedBy"]["UserId"] for entry in entries if entry and "ApprovedBy" in entry
    }
    people = {id_ for id_ in [*owners, *authors] if isinstance(id_, str)}
    if players:
        erased = set(erased_people(erasures, [*people, *players]).values())
    else:
        # Part of every change, so it reads no more than one id.
        where = {"_id": {"$in": [*people]}}
        found = read_one(erasures, where, ["_id"]) if people else None
        erased = {found["_id"]} if found else set()
    if erased:
        raise Unauthorized if erased & authors else BeingErased
