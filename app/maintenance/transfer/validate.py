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
from app.core.types import DEEPEST, Document, is_deep
from app.http.parser import load
from app.maintenance.transfer.records import RECORDS
from app.players.records import Record
from app.storage import bulk
from app.storage.changes import fresh_version
from app.storage.client import storage
from app.storage.fence import ERASURES, erased_people
from app.users.domain import SignInOfStaff
from app.users.hashing import passwords
from app.users.staff.store import staff

# The unique keys besides the id, each with the record field that it is derived from.
UNIQUE = {
    "users": {"NameKey": "Name", "EmailKey": "Email"},
    "players": {"NameKey": "Name"},
}
# How an account signs in. A record without a password keeps the stored one.
SIGN_IN = ("PasswordHash", "Email")
BATCH_SIZE = 64
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
        if isinstance(document, Invalid):
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


def _documents(kind: str, file: IO[bytes]) -> Iterator[tuple[int, Document | Invalid]]:
    """Yield the number of each line with its document, or with its fault."""
    record, version = RECORDS[kind](current_app.config), fresh_version()
    # Threads have no application.
    users, matches, hash_anew = storage.db["users"], passwords.matches, passwords.hash

    def read(line: bytes) -> Document | Invalid:
        try:
            values = parse_line(line, record)
        except Invalid as fault:
            return fault
        if kind == "users" and "Password" in values:
            stored = users.find_one({"_id": values["Id"]}, ["PasswordHash"]) or {}
            former, password = stored.get("PasswordHash"), values["Password"]
            # The same password is no change: an import may be repeated.
            is_same = former and matches(former, password)
            values["PasswordHash"] = former if is_same else hash_anew(password)
        return record.document(values, None, version)

    with progress(f"Checking {kind}", _size(file)) as advance, ThreadPoolExecutor() as pool:
        numbered = ((n, line) for n, line in enumerate(file, 1) if line.strip())
        for batch in bulk.batches(numbered, BATCH_SIZE):
            # argon2 releases the GIL, so threads use all cores.
            documents = pool.map(read, [line for _, line in batch])
            for (number, line), document in zip(batch, documents, strict=True):
                yield number, document
                advance(len(line))


def parse_line(line: bytes, record: Record) -> Document:
    """Return the loaded values of a line, or raise Invalid."""
    if record.largest and len(line) > record.largest:
        raise Invalid(f"it is longer than {record.largest} bytes.")
    try:
        values = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        raise Invalid(f"it is not valid JSON: {error}.") from None
    if not isinstance(values, dict):
        raise Invalid("it is not a JSON object.")
    if is_deep(values, DEEPEST):
        raise Invalid(f"it is nested more than {DEEPEST} levels deep.")
    loaded: Document = load(record, values, record.unknown)
    return loaded


def _size(file: IO[bytes]) -> int:
    """Return the size of a file, 0 for a pipe."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
