"""What a majority of the servers holds, which no election takes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pymongo import MongoClient
from pymongo.read_concern import ReadConcern

from app.database import SUBJECTS
from app.storage.history_entries import entries_of
from app.storage.journal import HISTORY

# Unless the URI names another.
DATABASE = "quartermaster"


class Stored(NamedTuple):
    """Players, and the entries of history about all documents that were asked for."""

    players: list[dict]
    entries: list[dict]


def subjects(uri: str) -> list[str]:
    """Return the ids of all documents that may have a history."""
    with MongoClient(uri) as client:
        database = client.get_default_database(DATABASE)
        present = [id_ for name in SUBJECTS for id_ in database[name].distinct("_id")]
        # Of those who were erased or deleted, entries are left.
        return [*present, *database[HISTORY.name].distinct("Subject.Id")]


def read(uri: str, ids: dict) -> Stored:
    """Read players, and entries wherever they are; ids is the condition on a document's id."""
    with MongoClient(uri, tz_aware=True) as client:
        database = client.get_default_database(DATABASE)
        majority = {
            name: database.get_collection(name, read_concern=ReadConcern("majority"))
            for name in (*SUBJECTS, HISTORY.name)
        }
        # Journals are read before history: an entry that moves in between is found twice, not
        # never.
        found = {name: list(majority[name].find({"_id": ids})) for name in SUBJECTS}
        moved = list(majority[HISTORY.name].find({"Subject.Id": ids}))
    return Stored(found["players"], [*moved, *_unmoved(found, moved)])


def _unmoved(found: dict, moved: list[dict]) -> Iterator[dict]:
    """Yield the entries in Journals that history does not hold yet.

    The Stamp is unique to a write. By it one that has moved twice is still found twice.
    """
    stamps = {entry["Stamp"] for entry in moved}
    for documents in found.values():
        for document in documents:
            entries = entries_of(document)
            yield from (entry for entry in entries if entry["Stamp"] not in stamps)
