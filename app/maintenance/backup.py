"""Writes a backup: a zip file with the documents of all collections, and a manifest.

NAME.bson has the documents of a collection as MongoDB stores them, one after another. The last
member, manifest.json, names the release, the schema version, and of each collection the options,
the indexes and the number of its documents. Without it, a backup is not complete.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import IO, Any

from app.core.progress import progress
from app.core.types import Document
from app.maintenance import store
from app.storage.client import Storage
from app.storage.extended_json import to_json
from app.storage.schema.migrations import version_of

FORMAT = 2
MANIFEST = "manifest.json"
# Level 4 takes 20 % longer than level 1, for files that are 17 % smaller; level 6 takes twice as
# long again, for 8 %.
LEVEL = 4


def write_backup(storage: Storage, file: IO[bytes]) -> int:
    """Write all collections at one moment; return the number of documents."""
    at = storage.clock.now().isoformat()
    total = int(storage.db.command("dbStats")["objects"])
    with (
        store.snapshot(storage) as session,
        progress("Backing up", total) as advance,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive,
    ):
        # The first read; collections are listed after it.
        schema_version = version_of(storage.db, session)
        written = [
            _add(archive, each, store.read(storage.db, session, each), advance)
            for each in store.list_collections(storage.db)
        ]
        manifest = {
            "Format": FORMAT,
            "Release": version("quartermaster"),
            "SchemaVersion": schema_version,
            "Database": storage.db.name,
            "At": at,
            "Collections": written,
        }
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
    return sum(collection["Count"] for collection in written)


def _add(
    archive: zipfile.ZipFile,
    each: store.Collection,
    documents: Iterable[Any],
    advance: Callable[[int], None],
) -> Document:
    """Add the documents of a collection; return what the manifest says of it."""
    count = 0
    if not each.is_view:
        with archive.open(f"{each.name}.bson", "w", force_zip64=True) as member:
            for document in documents:
                member.write(document.raw)
                count += 1
                advance(1)
    return {
        "Name": each.name,
        **to_json({"Options": each.options, "Indexes": each.indexes}),
        "Count": count,
    }
