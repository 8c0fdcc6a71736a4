"""Writes a backup: a zip file with the documents of all collections, and a manifest.

NAME.bson has the documents of a collection as MongoDB stores them, one after another. The last
member, manifest.json, names the release, the schema version, and of each collection the options,
the indexes, the number of its documents and their SHA-256. Without it, a backup is not complete.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from typing import IO

from app.core.progress import progress
from app.core.types import Document
from app.maintenance.store import (
    SNAPSHOT_WINDOW,
    Collection,
    Snapshot,
    as_json,
    snapshot,
    snapshot_seconds,
)
from app.storage.client import Storage

FORMAT = 1
MANIFEST = "manifest.json"
# Level 4 takes 20 % longer than level 1, for files that are 17 % smaller; level 6 takes twice as
# long again, for 8 %.
LEVEL = 4
# A busy machine reads and compresses no less; for the estimate.
BYTES_PER_SECOND = 10_000_000
# MongoDB's default.
SNAPSHOT_SECONDS = 300


def long_backup(storage: Storage) -> str | None:
    """Return a sentence if a backup may take longer than MongoDB keeps its snapshot."""
    needed = int(storage.db.command("dbStats")["dataSize"]) // BYTES_PER_SECOND
    known = snapshot_seconds(storage.db)
    kept = SNAPSHOT_SECONDS if known is None else known
    if needed < kept:
        return None
    unless = " unless that was changed, which this account may not see" if known is None else ""
    return (
        f"This backup may take {needed} seconds, and MongoDB keeps a snapshot for {kept}{unless}. "
        "If it takes longer, it fails and leaves no file. To keep snapshots longer, run this on "
        f"every member: db.adminCommand({{setParameter: 1, {SNAPSHOT_WINDOW}: {needed * 2}}}). For "
        "large databases, docs/deploy.rst recommends mongodump --oplog."
    )


def write_backup(storage: Storage, file: IO[bytes]) -> int:
    """Write all collections at one moment; return the number of documents."""
    at = storage.clock.now().isoformat()
    with (
        snapshot(storage.db) as source,
        progress("Backing up", source.count()) as advance,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive,
    ):
        written = [_add(archive, source, each, advance) for each in source.collections]
        source.check()
        manifest = {
            "Format": FORMAT,
            "Release": version("quartermaster"),
            "SchemaVersion": source.schema_version,
            "Database": storage.db.name,
            "At": at,
            "Collections": written,
        }
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
    return sum(collection["Count"] for collection in written)


def _add(
    archive: zipfile.ZipFile, source: Snapshot, each: Collection, advance: Callable[[int], None]
) -> Document:
    """Add the documents of a collection; return what the manifest says of it."""
    digest, total = hashlib.sha256(), 0
    if not each.is_view:
        with archive.open(f"{each.name}.bson", "w", force_zip64=True) as member:
            for count, batch in source.batches(each):
                digest.update(batch)
                member.write(batch)
                total += count
                advance(count)
    return {
        "Name": each.name,
        "Options": as_json(each.options),
        "Indexes": as_json(each.indexes),
        "Count": total,
        "SHA256": digest.hexdigest(),
    }
