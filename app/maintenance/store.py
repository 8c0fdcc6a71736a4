"""Reads all collections of a database at one moment, and writes them to another database."""

from __future__ import annotations

import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pymongo
from bson.errors import BSONError
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import OperationFailure

from app.core.errors import Conflict
from app.core.types import Document
from app.storage import bulk
from app.storage.client import LONG_WORK_SECONDS, Storage
from app.storage.events import LEASE, LEASE_TIME, LOCKS
from app.storage.fence import ERASURES
from app.storage.schema.migrations import RESTORING, VERSIONS
from app.storage.schema.upgrade import GONE_OF_ERASURES

BATCH = 1000
PAUSE_SECONDS = 0.5
# SnapshotTooOld, and SnapshotUnavailable: a collection has another index than at the moment.
SNAPSHOT_LOST = (239, 246)
SNAPSHOT_WINDOW = "minSnapshotHistoryWindowInSeconds"
# What is raised for files that are damaged in one way or another.
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, BSONError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)


class SnapshotLost(Conflict):
    sentence = (
        "MongoDB no longer has all data of the moment at which this backup began: it took longer "
        f"than {SNAPSHOT_WINDOW}, or a collection or an index was created or dropped. There is no "
        "backup; docs/deploy.rst says how to raise that time. Run it again."
    )


class NotEmpty(Conflict):
    sentence = (
        "The database '{name}' is not empty: '{collection}' has documents. Nothing was written. To "
        "delete all collections of the database first, also those of the game, stop the service "
        "and the game, and add --replace {name}."
    )


class ServiceRunning(Conflict):
    sentence = (
        "The service is using the database '{name}': stop it on all machines first, and the game, "
        "too. Nothing was written."
    )


class Collection(NamedTuple):
    """A collection or a view, as MongoDB describes it."""

    name: str
    options: Document
    indexes: list[Document]

    @property
    def is_view(self) -> bool:
        return "viewOn" in self.options


def read(db: Database[Document], session: ClientSession, collection: Collection) -> Iterator[Any]:
    """Yield the documents of a collection, as MongoDB stores them."""
    # MongoDB has no snapshots of capped collections, which only a game may have.
    at = None if collection.options.get("capped") else session
    return db.get_collection(collection.name, bulk.RAW).find({}, batch_size=BATCH, session=at)


@contextmanager
def snapshot(storage: Storage) -> Iterator[ClientSession]:
    """Yield a session whose reads all see one moment, which the first read fixes."""
    try:
        with storage.snapshot() as session:
            yield session
    except OperationFailure as error:
        if error.code in SNAPSHOT_LOST:
            raise SnapshotLost from error
        raise


def make_room(db: Database[Document], replace: str | None) -> None:
    """Delete all collections; raise NotEmpty if they have documents and are not to be replaced.

    From the first write on, the collection 'restoring' marks an unfinished restore, which may be
    repeated. It holds the former records of erasures, of which the backup may know nothing.
    """
    # A worker that runs holds the lease of the events. Wait for the end of one that is gone.
    deadline = time.monotonic() + LEASE_TIME.total_seconds() + PAUSE_SECONDS
    while db[LOCKS.name].find_one({**LEASE, "$expr": {"$gt": ["$Until", "$$NOW"]}}):
        if time.monotonic() > deadline:
            raise ServiceRunning(db.name)
        time.sleep(PAUSE_SECONDS)
    found = {collection.name for collection in list_collections(db)}
    with pymongo.timeout(LONG_WORK_SECONDS):
        if RESTORING not in found:
            # What db init writes may be there.
            own = {VERSIONS, LOCKS.name}
            for name in sorted(found - own) if replace != db.name else ():
                if db[name].find_one({}, ["_id"]):
                    raise NotEmpty(db.name, name)
            if ERASURES.name in found:
                db[ERASURES.name].rename(RESTORING)
            else:
                db.create_collection(RESTORING)
        for name in found - {RESTORING}:
            db.drop_collection(name)


def build_indexes(db: Database[Document], collection: Collection) -> None:
    # The index of _id is there; a clustered collection lists its key as an index.
    indexes = [i for i in collection.indexes if i["name"] != "_id_" and not i.get("clustered")]
    if indexes:
        with pymongo.timeout(LONG_WORK_SECONDS):
            db.command({"createIndexes": collection.name, "indexes": indexes})


def restore_erasures(db: Database[Document]) -> None:
    """Add the kept records of erasures, which an older release may have written.

    One that was not finished begins again with what the backup has, as all others do.
    """
    finished = {"FinishedAt": {"$ifNull": ["$FinishedAt", "$BegunAt"]}}
    merge = {"$merge": {"into": ERASURES.name, "whenMatched": "replace"}}
    db[RESTORING].aggregate([{"$unset": [*GONE_OF_ERASURES]}, {"$set": finished}, merge])


def end_restore(db: Database[Document]) -> None:
    db.drop_collection(RESTORING)


def list_collections(db: Database[Document]) -> list[Collection]:
    """Return all collections and views but MongoDB's own."""
    found = []
    for listed in db.list_collections():
        name, is_view = listed["name"], listed["type"] == "view"
        if not name.startswith("system."):
            indexes = [] if is_view else [dict(index) for index in db[name].list_indexes()]
            found.append(Collection(name, listed["options"], indexes))
    return found
