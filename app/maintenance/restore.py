"""Restores a backup into a database, after checking all of the file.

A restore may be killed, and run again: a collection marks the database, which no other program
uses until the restore has finished.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from app.core.changes import Intent
from app.core.errors import Conflict
from app.core.progress import progress
from app.core.types import Document
from app.database import COLLECTIONS
from app.maintenance import store
from app.maintenance.backup import FORMAT, MANIFEST
from app.privacy.store import Erasures
from app.storage import bulk
from app.storage.client import Storage
from app.storage.events import Feed
from app.storage.extended_json import from_json
from app.storage.schema.collections import init_database
from app.storage.schema.migrations import CURRENT, FIRST
from app.storage.schema.upgrade import UpgradeRefused


class NoBackup(Conflict):
    sentence = (
        "This file is not a backup of Quartermaster, or it is damaged or not complete ({fault}). "
        "Nothing was written."
    )


class OtherRelease(Conflict):
    sentence = (
        "This backup was made by Quartermaster {release}, at SchemaVersion {version}; this program "
        "restores those from {first} to {last}. Nothing was written. Use another release."
    )


class Restored(NamedTuple):
    """The manifest, the number of documents, and the ids of people who were erased again."""

    manifest: Document
    documents: int
    erased: set[str]


def restore_backup(
    storage: Storage, erasures: Erasures, file: IO[bytes], replace: str | None, intent: Intent
) -> Restored:
    """Check a backup, write all of it, bring it up to date, and apply erasures made since."""
    if not file.seekable():
        # It is read twice: to check all of it, and to write it.
        pipe, file = file, tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        shutil.copyfileobj(pipe, file)
    try:
        archive = zipfile.ZipFile(file)
        manifest = from_json(json.loads(archive.read(MANIFEST)))
        _require_known(manifest)
        total = sum(each["Count"] for each in manifest["Collections"])
        with progress("Checking", total) as advance:
            found = [_check(archive, each, advance) for each in manifest["Collections"]]
    except store.UNREADABLE as error:
        raise NoBackup(error) from error
    db = storage.db
    store.make_room(db, replace)
    with progress("Restoring", total) as advance:
        for collection in found:
            db.command({"create": collection.name, **collection.options})
            for count in bulk.insert(db[collection.name], _documents(archive, collection)):
                advance(count)
    with progress("Building indexes", len(found)) as advance:
        for collection in found:
            store.build_indexes(db, collection)
            advance(1)
    try:
        init_database(db, COLLECTIONS, is_restore=True)
    except UpgradeRefused:
        # All of it is there, for the older release to finish its work.
        store.restore_erasures(db)
        store.end_restore(db)
        raise
    store.restore_erasures(db)
    returned = list(erasures.find_returned())
    erasures.erase_again(returned, intent)
    # Where the log of events goes on was a moment of another server, or of a dropped collection.
    Feed(storage).catch_up()
    store.end_restore(db)
    return Restored(manifest, total, {found.user_id for found in returned})


def _require_known(manifest: Document) -> None:
    """Raise unless this program can restore backups of this format and schema version."""
    release, schema = manifest["Release"], manifest["SchemaVersion"]
    if manifest["Format"] > FORMAT or not FIRST <= schema <= CURRENT:
        raise OtherRelease(release, schema, FIRST, CURRENT)


def _check(
    archive: zipfile.ZipFile, entry: Document, advance: Callable[[int], None]
) -> store.Collection:
    """Return a collection of the manifest; raise unless all of it is there.

    The zip file has a checksum of each collection, which reading compares.
    """
    collection = store.Collection(entry["Name"], entry["Options"], entry["Indexes"])
    count = 0
    for _ in _documents(archive, collection):
        count += 1
        advance(1)
    if count != entry["Count"]:
        raise ValueError(f"{collection.name} has {count} documents, not {entry['Count']}")
    return collection


def _documents(archive: zipfile.ZipFile, collection: store.Collection) -> Iterator[Any]:
    if not collection.is_view:
        with archive.open(f"{collection.name}.bson") as member:
            yield from bulk.decode(member)
