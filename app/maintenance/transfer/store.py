"""Writes imported documents to the database, and exports documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from app.core.changes import Intent
from app.core.errors import Conflict
from app.core.penalties import BAN
from app.core.progress import progress
from app.database import COLLECTIONS, SUBJECTS
from app.http.json import encode
from app.maintenance.transfer.records import RECORDS
from app.storage import bulk
from app.storage.client import Storage
from app.storage.fence import ERASURES
from app.storage.import_replace import Replacer
from app.storage.schema.collections import init_database

# Fields that stay unchanged if a line does not contain them. Defaults would lift bans, and reset
# the variables of a running game.
ALONE = (
    "CreationDate",
    *("PasswordHash", "Notes", "Keys", "KeyDigests", "SecondFactor"),
    *("Invitation", "OpenId", "Roles", "GroupRoles", "IsDisabled"),
    "LastSignInAt",
)
KEPT: dict[str, tuple[tuple[str, ...], ...]] = {
    "users": ((*BAN, "BanByAddress"), *((name,) for name in ALONE)),
    "players": (("CreationDate",), ("Notes",), ("ErasedAt",)),
    "objects": (("Value",),),
}


def write_documents(storage: Storage, kind: str, spool: bulk.Spool, intent: Intent) -> None:
    """Insert or replace the validated documents of a file, with an entry of history for each."""
    # A transaction creates no collections and indexes.
    init_database(storage.db, COLLECTIONS)
    if kind == ERASURES.name:
        _merge_erasures(storage, spool)
        return
    with progress(f"Writing {kind}", len(spool)) as advance:
        replacer = Replacer(storage, SUBJECTS[kind], intent, KEPT.get(kind, ()))
        for count in replacer.replace_all(spool):
            advance(count)


def _merge_erasures(storage: Storage, spool: bulk.Spool) -> None:
    """Add new erasures, and new ids to known ones; nothing is removed."""
    collection = storage.db[ERASURES.name]
    with progress(f"Writing {ERASURES.name}", len(spool)) as advance:
        for raw in spool:
            record = dict(raw)
            # An import erases nobody: db check reports who is stored again, and --repair erases.
            record["FinishedAt"] = record.get("FinishedAt") or record["BegunAt"]
            sets = {name: {"$each": list(record.pop(name))} for name in ("Players", "Bags")}
            merged = {"$setOnInsert": record, "$addToSet": sets}
            collection.update_one({"_id": record.pop("_id")}, merged, upsert=True)
            advance(1)


def export_documents(
    storage: Storage, kind: str, sizes: Mapping[str, int], file: IO[bytes]
) -> None:
    """Write all documents of a kind as lines of JSON, in the order of their names or ids."""
    record = RECORDS[kind](sizes)
    order = "NameKey" if kind in ("users", "players") else "_id"
    count = storage.db[kind].estimated_document_count()
    with progress(f"Writing {kind}", count) as advance:
        for document in bulk.read_all(storage.db[kind], order):
            id_ = document["_id"]
            try:
                file.write(encode(record.record(document)) + b"\n")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                message = f"{id_} of the {kind} is damaged: quartermaster db check says how."
                raise Conflict(message) from error
            advance(1)
