"""Validates a whole file of records before import writes any of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import IO

import orjson
from flask import current_app

from app.auth.permissions import role_names
from app.changes import Intent
from app.database import SUBJECTS
from app.errors import Invalid
from app.http.context import current
from app.http.parser import load
from app.privacy.store import Erasures
from app.progress import progress
from app.staff.store import Staff
from app.storage import bulk
from app.storage.client import Storage
from app.storage.decisions import fresh_version
from app.transfer.records import RECORDS, Record
from app.types import Document, is_deep
from app.users.domain import SignInOfStaff
from app.users.passwords import Passwords

# The unique keys besides the id, each with the record field that it is derived from.
UNIQUE = {
    "users": {"NameKey": "Name", "EmailKey": "Email"},
    "players": {"NameKey": "Name"},
}
# How an account signs in. A record without a password keeps the stored one.
SIGN_IN = ("PasswordHash", "Email")
HASH_BATCH_SIZE = 64
# MongoDB limits the nesting of documents to about a hundred levels.
DEEPEST = 80
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

storage = current(Storage)
passwords = current(Passwords)
erasures = current(Erasures)
staff = current(Staff)


def validate_file(kind: str, file: IO[bytes], spool: bulk.Spool, intent: Intent) -> Iterator[str]:
    """Add the documents of valid lines to the spool; yields a sentence for each fault."""
    names = {"_id": "Id", **UNIQUE.get(kind, {})}
    # By field and value: the line number and the id of its document.
    lines: dict[str, dict[str, tuple[int, str]]] = {field: {} for field in names}
    of_staff = _staff() if kind == "users" else {}
    for number, document in _documents(kind, file, intent):
        if isinstance(document, str):
            yield f"Line {number}: {document}"
            continue
        held = of_staff.get(document["_id"])
        if held and any(document[name] not in (None, held.get(name)) for name in SIGN_IN):
            yield f"Line {number}: {SignInOfStaff()}"
        for field, name in names.items():
            first, _ = lines[field].setdefault(document[field], (number, document["_id"]))
            if first != number:
                yield f"Line {number}: the field '{name}' is the same as on line {first}."
        try:
            spool.add(document)
        except Invalid as error:
            yield f"Line {number}: {error}"
    ids = lines.pop("_id")
    for batch in bulk.batches(ids) if kind in ("users", "players") else ():
        for number in sorted(ids[id_][0] for id_ in erasures.erased_ids(batch)):
            yield f"Line {number}: the field 'Id' belongs to somebody who was erased."
    for field, seen in lines.items():
        owners = {value: id_ for value, (_, id_) in seen.items()}
        for value in bulk.clashes(storage.db[kind], field, owners):
            number, name = seen[value][0], names[field]
            yield (
                f"Line {number}: the field '{name}' is already used by another record of the "
                f"{kind}."
            )


def _staff() -> dict[str, Document]:
    """Return by id how the accounts with a role of staff sign in: only their holders set that."""
    found = staff.walk("Roles", "GroupRoles", *SIGN_IN)
    return {user["_id"]: user for user in found if role_names(user)}


def _documents(kind: str, file: IO[bytes], intent: Intent) -> Iterator[tuple[int, Document | str]]:
    """Yield the number of each line with its document, or with a sentence that names its fault."""
    record = RECORDS[kind](current_app.config)
    now, version = datetime.now(timezone.utc), fresh_version()
    swapper = storage.swapper(SUBJECTS[kind]) if kind in SUBJECTS else None
    with progress(f"Checking {kind}", _size(file)) as advance:
        numbered = ((n, line) for n, line in enumerate(file, 1) if line.strip())
        for batch in bulk.batches(numbered, HASH_BATCH_SIZE):
            values = [_parse_line(line, record) for _, line in batch]
            if kind == "users":
                _add_password_hashes([value for value in values if isinstance(value, dict)])
            for (number, line), value in zip(batch, values, strict=True):
                if isinstance(value, str):
                    yield number, value
                else:
                    document = record.document(value, now, version)
                    yield number, swapper.with_entry(document, intent, []) if swapper else document
                advance(len(line))


def _add_password_hashes(users: list[Document]) -> None:
    # argon2 releases the GIL, so threads use all cores.
    with ThreadPoolExecutor() as pool:
        with_password = [user for user in users if "Password" in user]
        hashes = pool.map(passwords.hash, [user["Password"] for user in with_password])
        for user, password_hash in zip(with_password, hashes, strict=True):
            user["PasswordHash"] = password_hash


def _parse_line(line: bytes, record: Record) -> Document | str:
    """Return the loaded values of a line, or a sentence that names its fault."""
    if record.largest and len(line) > record.largest:
        return f"it is longer than {record.largest} bytes."
    try:
        values = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        return f"it is not valid JSON: {error}."
    if not isinstance(values, dict):
        return "it is not a JSON object."
    if is_deep(values, DEEPEST):
        return f"it is nested more than {DEEPEST} levels deep."
    try:
        loaded: Document = load(record, values, record.unknown)
    except Invalid as error:
        return str(error)
    return loaded


def _size(file: IO[bytes]) -> int:
    """Return the size of a file, 0 for a pipe."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
