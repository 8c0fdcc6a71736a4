"""Restores a backup into a database, after checking all of the file.

A restore may be killed, and run again: a collection marks the database, which no other program
uses until the restore has finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from app.core.changes import Intent
from app.core.errors import Conflict
from app.core.progress import progress
from app.core.types import Document
from app.database import COLLECTIONS
from app.maintenance import store
from app.maintenance.backup import FORMAT, MANIFEST
from app.privacy.store import Erasures
from app.storage.client import Storage
from app.storage.events import Feed
from app.storage.schema.collections import init_database
from app.storage.schema.migrations import CURRENT, FIRST
from app.storage.schema.upgrade import UpgradeRefused

# The limits of MongoDB, in bytes.
SMALLEST, LARGEST = 5, 16 * 1024 * 1024
# A manifest has some kB.
LARGEST_MANIFEST = 2**20
# What the standard library raises for files that are damaged in one way or another.
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)


class NoBackup(Conflict):
    sentence = (
        "This file is not a backup of Quartermaster, or not a complete one ({fault}). Nothing was "
        "written."
    )


class DamagedBackup(Conflict):
    sentence = "This backup is damaged, in '{name}': {fault}. Nothing was written."


class BackupTooNew(Conflict):
    sentence = (
        "This backup was made by Quartermaster {release}, at SchemaVersion {version}, and this "
        "program knows none above {known}. Nothing was written; restore it with that release or a "
        "later one."
    )


class BackupTooOld(Conflict):
    sentence = (
        "This backup was made by Quartermaster {release}, at SchemaVersion {version}, from before "
        "release 0.3.0. Nothing was written. Restore it with 0.3.0, and upgrade that."
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
    store.require_snapshots(storage)
    if not file.seekable():
        # It is read twice: to check all of it, and to write it.
        pipe, file = file, tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        shutil.copyfileobj(pipe, file)
    archive, manifest = _open(file)
    total = sum(each["Count"] for each in manifest["Collections"])
    with progress("Checking", total) as advance:
        found = [_check(archive, each, advance) for each in manifest["Collections"]]
    known = Counter([MANIFEST, *(f"{each.name}.bson" for each in found if not each.is_view)])
    if Counter(archive.namelist()) != known or len({each.name for each in found}) < len(found):
        raise NoBackup(f"it does not contain what its {MANIFEST} names, or more")
    db = storage.db
    store.make_room(db, replace)
    with progress("Restoring", total) as advance:
        for collection in found:
            store.create(db, collection)
            for count in store.insert(db, collection.name, _documents(archive, collection)):
                advance(count)
    with progress("Building indexes", len(found)) as advance:
        for collection in found:
            store.complete(db, collection)
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


def _open(file: IO[bytes]) -> tuple[zipfile.ZipFile, Document]:
    """Open a backup; return its manifest, too."""
    try:
        archive = zipfile.ZipFile(file)
        if archive.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
            raise ValueError(f"{MANIFEST} is too large")
        manifest = json.loads(archive.read(MANIFEST))
        number, schema, collections = map(manifest.get, ("Format", "SchemaVersion", "Collections"))
        numbers = [number, schema, *(each["Count"] for each in collections)]
        texts = [manifest["Release"], manifest["At"], *(each["Name"] for each in collections)]
        if not all(type(each) is int and each >= 0 for each in numbers):
            raise ValueError(f"{MANIFEST} has a wrong number")
        if not all(isinstance(each, str) for each in texts):
            raise TypeError(f"{MANIFEST} has a wrong name")
    except UNREADABLE as error:
        raise NoBackup(error) from error
    if number > FORMAT or schema > CURRENT:
        raise BackupTooNew(manifest["Release"], schema, CURRENT)
    if schema < FIRST:
        raise BackupTooOld(manifest["Release"], schema)
    return archive, manifest


def _check(
    archive: zipfile.ZipFile, entry: Document, advance: Callable[[int], None]
) -> store.Collection:
    """Return a collection of the manifest, or raise DamagedBackup unless all of it is there."""
    digest, count = hashlib.sha256(), 0
    try:
        values = store.from_json([entry["Options"], entry["Indexes"]])
        collection = store.Collection(entry["Name"], *values)
        if not all(isinstance(one, dict) for one in (collection.options, *collection.indexes)):
            raise TypeError("its options or indexes are not objects")
        for document in _documents(archive, collection):
            digest.update(document)
            count += 1
            advance(1)
        is_whole = (count, digest.hexdigest()) == (entry["Count"], entry["SHA256"])
    except UNREADABLE as error:
        raise DamagedBackup(entry["Name"], error) from error
    if not is_whole:
        raise DamagedBackup(entry["Name"], "the documents are not those of the manifest")
    return collection


def _documents(archive: zipfile.ZipFile, collection: store.Collection) -> Iterator[bytes]:
    """Yield the documents of a collection; raise ValueError if one has an impossible size."""
    if collection.is_view:
        return
    with archive.open(f"{collection.name}.bson") as member:
        while head := member.read(4):
            size = int.from_bytes(head, "little")
            document = head + member.read(size - 4) if SMALLEST <= size <= LARGEST else b""
            if len(document) != size:
                raise ValueError(f"a document of {size} bytes cannot be read")
            yield document
