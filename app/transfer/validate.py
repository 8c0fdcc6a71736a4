"""Validates a whole file of records before import writes any of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import IO

import orjson
from flask import current_app

from app.changes import Intent
from app.database import SUBJECTS
from app.errors import Invalid
from app.http.context import current
from app.http.parser import load
from app.privacy.store import Erasures
from app.progress import progress
from app.storage import bulk
from app.storage.client import Storage
from app.storage.swap import fresh_version
from app.transfer.records import RECORDS, Record
from app.types import Document, is_deep
from app.users.passwords import Passwords

# The unique keys beside the id, each with the field of the record that it is derived from.
UNIQUE = {
    "users": {"NameKey": "Name", "EmailKey": "Email"},
    "players": {"NameKey": "Name"},
    "bags": {},
    "objects": {},
    "erasures": {},
}
HASH_BATCH_SIZE = 64
# MongoDB stores no more than some hundred.
DEEPEST = 80
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

storage = current(Storage)
passwords = current(Passwords)
erasures = current(Erasures)


def validate_file(kind: str, file: IO[bytes], spool: bulk.Spool, intent: Intent) -> Iterator[str]:
    """Add the documents of valid lines to the spool; yields a sentence for each fault."""
    line_numbers: dict[str, dict[str, int]] = {field: {} for field in ("_id", *UNIQUE[kind])}
    owners: dict[str, dict[str, str]] = {field: {} for field in UNIQUE[kind]}
    for number, document in _documents(kind, file, intent):
        if isinstance(document, str):
            yield f"Line {number}: {document}"
            continue
        for field, seen in line_numbers.items():
            value = document[field]
            if value in seen:
                name = {"_id": "Id", **UNIQUE[kind]}[field]
                yield f"Line {number}: the field '{name}' is the same as on line {seen[value]}."
            seen.setdefault(value, number)
            if field in owners:
                owners[field][value] = document["_id"]
        try:
            spool.add(document)
        except Invalid as error:
            yield f"Line {number}: {error}"
    yield from _erased(kind, line_numbers["_id"])
    for field, name in UNIQUE[kind].items():
        for value in bulk.clashes(storage.db[kind], field, owners[field]):
            number = line_numbers[field][value]
            yield f"Line {number}: the field '{name}' belongs to another of the {kind}."


def _erased(kind: str, line_numbers: dict[str, int]) -> Iterator[str]:
    """Yield which lines would bring somebody back who was erased."""
    if kind not in ("users", "players"):
        return
    for batch in bulk.batches(line_numbers):
        for id_ in sorted(erasures.erased(batch), key=lambda id_: line_numbers[id_]):
            yield f"Line {line_numbers[id_]}: the field 'Id' belongs to somebody who was erased."


def _documents(kind: str, file: IO[bytes], intent: Intent) -> Iterator[tuple[int, Document | str]]:
    """Yield the number of each line with its document, or with a sentence that names its fault."""
    record = RECORDS[kind](current_app.config)
    now, version = datetime.now(timezone.utc), fresh_version()
    swapper = storage.swapper(SUBJECTS[kind]) if kind in SUBJECTS else None
    with progress(f"Checking {kind}", _size(file)) as advance:
        numbered = ((n, line) for n, line in enumerate(file, 1) if line.strip())
        for batch in bulk.batches(numbered, HASH_BATCH_SIZE):
            values = [_parsed(line, record) for _, line in batch]
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
    """Hash the passwords of a file."""
    # argon2 releases the GIL, so threads use all cores.
    with ThreadPoolExecutor() as pool:
        with_password = [user for user in users if "Password" in user]
        hashes = pool.map(passwords.hash, [user["Password"] for user in with_password])
        for user, password_hash in zip(with_password, hashes, strict=True):
            user["PasswordHash"] = password_hash


def _parsed(line: bytes, record: Record) -> Document | str:
    """Return the loaded values of a line, or a sentence that names its fault."""
    largest = getattr(record, "largest", None)
    if largest and len(line) > largest:
        return f"it is longer than {largest} bytes."
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
