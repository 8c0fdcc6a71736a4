"""Writes imported documents to the database, and exports documents.

The files of an export are written atomically, and with mode 600 if they hold secrets.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from app.core.changes import Intent
from app.core.errors import Conflict
from app.core.penalties import BAN
from app.core.progress import progress
from app.database import COLLECTIONS, SUBJECTS
from app.http.json import encode
from app.maintenance.transfer.records import RECORDS
from app.storage import bulk
from app.storage.bulk import Replacer
from app.storage.client import Storage
from app.storage.fence import ERASURES
from app.storage.schema.collections import init_database


@contextmanager
def open_output(path: str, is_secret: bool) -> Iterator[IO[bytes]]:
    """Open a file that is renamed to its path when it is complete; - is standard output.

    A symlink at path is replaced, not followed: another user may have planted it. A program that is
    killed leaves its unfinished file.
    """
    if path in ("-", "/dev/stdout"):
        mode = 0
        with suppress(OSError):
            mode = os.fstat(sys.stdout.fileno()).st_mode
        # A redirection into a file: its mode, set by the shell, may let others read it.
        if is_secret and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Conflict(
                "Standard output is a file that others can read, and the records are secret: give "
                "a FILE, or set umask 077 first."
            )
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if Path(path).exists() and not Path(path).is_file():
        # Write directly to a device or a FIFO: a rename would replace it.
        with Path(path).open("wb") as file:
            yield file
        return
    if not Path(path).parent.is_dir():
        raise Conflict(f"There is no folder {Path(path).parent}.")
    # O_EXCL fails on an existing file and follows no symlink, so there is no TOCTOU race.
    temporary = Path(f"{path}.{secrets.token_hex(8)}.part")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_secret else 0o666
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            # After a power failure, a file must not have its name without its content.
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
                # Equal records make equal lines.
                fields = sorted(record.record(document).items())
                file.write(encode({"Id": id_, **dict(fields)}) + b"\n")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                message = f"{id_} of the {kind} is damaged: quartermaster db check says how."
                raise Conflict(message) from error
            advance(1)
