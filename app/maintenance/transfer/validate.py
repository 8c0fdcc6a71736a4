"""Validates a whole file of records before import writes any of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import orjson
from flask import current_app

from app.core.errors import Invalid
from app.core.permissions import role_names
from app.core.progress import progress
from app.core.types import Document, is_deep
from app.http.context import current
from app.http.parser import load
from app.maintenance.transfer.records import RECORDS, Record
from app.storage import bulk
from app.storage.changes import fresh_version
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people
from app.users.domain import SignInOfStaff
from app.users.passwords import Passwords
from app.users.staff.store import Staff

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
staff = current(Staff)


def validate_file(kind: str, file: IO[bytes], spool: bulk.Spool) -> Iterator[str]:
    """Add the documents of valid lines to the spool; yields a sentence for each fault."""
    names = {"_id": "Id", **UNIQUE.get(kind, {})}
    # By field and value: the line number and the id of its document.
    lines: dict[str, dict[str, tuple[int, str]]] = {field: {} for field in names}
    # By account: the first line with something that belongs to it.
    people: dict[str, int] = {}
    # By id, how the accounts with a role of staff sign in: only their holders set that.
    of_staff = {}
    if kind == "users":
        accounts = staff.walk("Roles", "GroupRoles", *SIGN_IN)
        of_staff = {user["_id"]: user for user in accounts if role_names(user)}
    for number, document in _documents(kind, file):
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
        if kind == "players":
            people.setdefault(document["UserId"], number)
        try:
            spool.add(document)
        except Invalid as error:
            yield f"Line {number}: {error}"
    ids = {id_: number for id_, (number, _) in lines.pop("_id").items()}
    erasures, belongings = storage.db[ERASURES.name], "Bags" if kind == "bags" else "Players"
    for name, found in (("Id", ids), ("UserId", people)):
        for batch in bulk.batches(found) if kind in ("users", "players", "bags") else ():
            erased = erased_people(erasures, batch, belongings)
            for number in sorted(found[id_] for id_ in erased):
                yield f"Line {number}: the field '{name}' belongs to somebody who was erased."
    for field, seen in lines.items():
        owners = {value: id_ for value, (_, id_) in seen.items()}
        for value in bulk.clashes(storage.db[kind], field, owners):
            number, name = seen[value][0], names[field]
            yield (
                f"Line {number}: the field '{name}' is already used by another record of the "
                f"{kind}."
            )


def _documents(kind: str, file: IO[bytes]) -> Iterator[tuple[int, Document | str]]:
    """Yield the number of each line with its document, or with a sentence that names its fault."""
    record = RECORDS[kind](current_app.config)
    version = fresh_version()
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
                    document = record.document(value, None, version)
                    yield number, document
                advance(len(line))


def _add_password_hashes(users: list[Document]) -> None:
    changed = [user for user in users if "Password" in user]
    found = storage.db["users"].find({"_id": {"$in": [u["Id"] for u in changed]}}, ["PasswordHash"])
    stored = {user["_id"]: user.get("PasswordHash") for user in found}

    # Threads have no application.
    matches, hash_anew = passwords.matches, passwords.hash

    def hash_of(user: Document) -> str:
        former, password = stored.get(user["Id"]), user["Password"]
        # The same password is no change: an import may be repeated.
        return former if former and matches(former, password) else hash_anew(password)

    # argon2 releases the GIL, so threads use all cores.
    with ThreadPoolExecutor() as pool:
        for user, password_hash in zip(changed, pool.map(hash_of, changed), strict=True):
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
