"""Migrations: ordered steps from the database of release 0.3.0 to the current schema.

Each step is idempotent and finds the remaining work by itself: it may be killed and repeated, and
several processes may run it concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.database import Database

from app.core.types import Document
from app.storage.bulk import batches
from app.storage.schema import upgrade
from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import COUNT, TEXT, object_shape
from app.storage.schema.upgrade import UnfitDatabase, UpgradeRefused
from app.storage.search_fields import row_words

Step = Callable[[Database[Document]], None]

VERSIONS = "schema"
SCHEMA_VERSIONS = CollectionPlan(VERSIONS, object_shape({"_id": TEXT, "SchemaVersion": COUNT}))
ONLY = {"_id": "schema"}
# This collection exists while a restore is not finished.
RESTORING = "restoring"


class RestoreUnfinished(UnfitDatabase):
    sentence = (
        "A restore of the database '{name}' has not finished: run quartermaster restore again, "
        "with the same backup or another one."
    )


class DatabaseTooOld(UpgradeRefused):
    sentence = (
        "The database '{name}' is at SchemaVersion {version}, from before release 0.3.0: run "
        "quartermaster db init of 0.3.0 first, and then that of this release."
    )


class DatabaseTooNew(UnfitDatabase):
    """A newer release has migrated the database to a schema that this one does not support."""

    sentence = (
        "The database '{name}' is at SchemaVersion {version}, and this program knows none above "
        "{known}: run the newer program, or restore a backup from before it."
    )


def find_rows_by_words(db: Database[Document]) -> None:
    """Let an erasure find the rows of unknown players that name somebody, by an index."""
    rows = db["batch_rows"]
    for batch in batches(rows.find({"Subject": None, "Words": {"$exists": False}})):
        rows.bulk_write([UpdateOne(row, {"$set": row_words(row)}) for row in batch], ordered=False)
    if "unknown" in rows.index_information():
        rows.drop_index("unknown")


# The SchemaVersion of release 0.3.0, and that after the first step; a database without one is new.
FIRST, TRANSACTIONS = 12, 35
STEPS: list[Step] = [
    upgrade.to_transactions,
    find_rows_by_words,
]
CURRENT = TRANSACTIONS + len(STEPS) - 1


def version_of(db: Database[Document], session: ClientSession | None = None) -> int:
    """Return the SchemaVersion of a database; 0 if it has none."""
    found = db[VERSIONS].find_one(ONLY, session=session)
    return int(found["SchemaVersion"]) if found else 0


def refuse_unfinished_restore(db: Database[Document]) -> None:
    """Raise RestoreUnfinished if a restore was killed: much may be missing."""
    if RESTORING in db.list_collection_names():
        raise RestoreUnfinished(db.name)


def refuse_newer(db: Database[Document]) -> int:
    """Return the SchemaVersion of a database, or raise DatabaseTooNew."""
    version = version_of(db)
    if version > CURRENT:
        raise DatabaseTooNew(db.name, version, CURRENT)
    return version


def refuse_older(db: Database[Document]) -> None:
    """Raise UpgradeRefused if a database is too old, or if its release has not finished."""
    version = version_of(db)
    if 0 < version < FIRST:
        raise DatabaseTooOld(db.name, version)
    if 0 < version < TRANSACTIONS:
        upgrade.refuse_unfit(db)


def migrate(db: Database[Document], steps: Sequence[Step] = STEPS) -> None:
    """Take the steps that a database has not taken yet."""
    version = refuse_newer(db)
    for number, step in enumerate(steps, TRANSACTIONS):
        if version < number:
            step(db)
            # With $max: a slower process must not decrease it.
            db[VERSIONS].update_one(ONLY, {"$max": {"SchemaVersion": number}}, upsert=True)
