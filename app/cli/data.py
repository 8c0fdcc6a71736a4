"""quartermaster db, seed, import and export."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

import click
import orjson
from flask import current_app
from flask.cli import AppGroup, with_appcontext

from app.cli.progress import progress
from app.cli.records import BagRecord, PlayerRecord, UserRecord
from app.cli.world import World, carries_bag
from app.errors import Invalid
from app.http.json import encode
from app.http.parser import load
from app.http.stores import current
from app.storage import bulk, schema
from app.storage.client import Storage
from app.storage.swap import fresh_version
from app.users.passwords import Passwords

Document = dict[str, Any]
Record = PlayerRecord | BagRecord | UserRecord

RECORDS: dict[str, type[Record]] = {
    "users": UserRecord,
    "players": PlayerRecord,
    "bags": BagRecord,
}
# What must differ from record to record beside the Id, by the field that holds it in the file.
UNIQUE = {
    "users": {"NameKey": "Name", "EmailKey": "Email"},
    "players": {"NameKey": "Name"},
    "bags": {},
}
FAULTS_SHOWN = 20
HASHED_AT_ONCE = 64
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Writer = Callable[[Any, Iterable[Any]], Iterator[int]]

kind_argument = click.argument("kind", type=click.Choice(list(RECORDS)))
storage = current(Storage)
passwords = current(Passwords)

db = AppGroup("db", help="Prepare the database.")


@db.command("init")
def init_database() -> None:
    """Create collections, validators and indexes.

    Safe to repeat, at any time: what is there already is left or brought up to date.
    """
    schema.init(storage.db)
    click.echo(f"The database '{storage.db.name}' is ready.")


@click.command()
@click.option("--players", type=click.IntRange(0), default=500, show_default=True)
@click.option("--users", type=click.IntRange(1), default=100, show_default=True)
@with_appcontext
def seed(players: int, users: int) -> None:
    """Fill the database with a believable world.

    The same numbers make the same players, users and bags. Seeding again adds what is missing
    and leaves what is there as it is.
    """
    seed_world(storage, passwords, players, users)
    click.echo(f"Seeded {players} players and {users} users.")


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    bags = sum(map(carries_bag, range(players)))
    for kind, documents, length in (
        ("users", world.users(), users),
        ("players", world.players(players), players),
        ("bags", world.bags(players), bags),
    ):
        _write(kind, storage, bulk.add_missing, documents, length)
    schema.init(storage.db)


def _write(
    kind: str, storage: Storage, write: Writer, documents: Iterable[Any], length: int
) -> None:
    """Write documents into a collection that has its validator, indexed or not."""
    schema.init_collections(storage.db)
    with progress(f"Writing {kind}", length) as advance:
        for count in write(storage.db[kind], documents):
            advance(count)


@click.command("import")
@kind_argument
@click.argument("file", type=click.File("rb"))
@with_appcontext
def import_records(kind: str, file: IO[bytes]) -> None:
    """Add or replace records from FILE, JSON lines; - is standard input.

    Every line is checked before anything is written. A record replaces the one with its Id.
    """
    with closing(bulk.Spool()) as spool:
        faults = list(_check(kind, file, spool))
        for fault in faults[:FAULTS_SHOWN]:
            click.echo(fault, err=True)
        if faults:
            more = f", of which {FAULTS_SHOWN} are shown" if len(faults) > FAULTS_SHOWN else ""
            noun = "fault" if len(faults) == 1 else "faults"
            raise click.ClickException(f"{len(faults)} {noun}{more}; nothing was written.")
        _write(kind, storage, bulk.write, spool, len(spool))
        schema.init(storage.db)
        click.echo(f"Imported {len(spool)} {kind}.")


@click.command()
@kind_argument
@click.argument(
    "path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True), default="-"
)
@with_appcontext
def export(kind: str, path: str) -> None:
    """Write all records to FILE, JSON lines; standard output where none is named.

    A file appears when it is complete. The users' lines hold password hashes: their file is
    readable by its owner alone, and to be kept as safe as the database.
    """
    record = RECORDS[kind](current_app.config)
    order = "_id" if kind == "bags" else "NameKey"
    with (
        _output(path, 0o600 if kind == "users" else 0o666) as file,
        progress(f"Writing {kind}", storage.db[kind].estimated_document_count()) as advance,
    ):
        for document in bulk.read_all(storage.db[kind], order, ["Journal"]):
            file.write(encode(record.record(document)) + b"\n")
            advance(1)


@contextmanager
def _output(path: str, mode: int) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when all is written, and leaves the former one until then."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    draft = Path(f"{path}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _check(kind: str, file: IO[bytes], spool: bulk.Spool) -> Iterator[str]:
    """Put the documents of good lines into the spool, and yield what is wrong with the others."""
    lines: dict[str, dict[str, int]] = {field: {} for field in ("_id", *UNIQUE[kind])}
    owners: dict[str, dict[str, str]] = {field: {} for field in UNIQUE[kind]}
    for number, document in _documents(kind, file):
        if isinstance(document, str):
            yield f"Line {number}: {document}"
            continue
        for field, seen in lines.items():
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
    for field, name in UNIQUE[kind].items():
        for value in bulk.clashes(storage.db[kind], field, owners[field]):
            number = lines[field][value]
            yield f"Line {number}: the field '{name}' belongs to another of the {kind}."


def _documents(kind: str, file: IO[bytes]) -> Iterator[tuple[int, Document | str]]:
    """Yield each line's number with its document, or with a sentence on what is wrong with it."""
    record = RECORDS[kind](current_app.config)
    now, version = datetime.now(timezone.utc), fresh_version()
    with progress(f"Checking {kind}", _size(file)) as advance:
        numbered = ((n, line) for n, line in enumerate(file, 1) if line.strip())
        for batch in bulk.batches(numbered, HASHED_AT_ONCE):
            values = [_parsed(line, record) for _, line in batch]
            if kind == "users":
                _add_password_hashes([value for value in values if isinstance(value, dict)])
            for (number, line), value in zip(batch, values, strict=True):
                if isinstance(value, str):
                    yield number, value
                else:
                    yield number, record.document(value, now, version)
                advance(len(line))


def _add_password_hashes(users: list[Document]) -> None:
    """Hash the passwords that a file brings; an account without one keeps what it has."""
    # Hashing is slow and runs outside of Python, on as many cores as there are.
    with ThreadPoolExecutor() as pool:
        brought = [user for user in users if "Password" in user]
        hashes = pool.map(passwords.hash, [user["Password"] for user in brought])
        for user, password_hash in zip(brought, hashes, strict=True):
            user["PasswordHash"] = password_hash
    silent = [user for user in users if user["PasswordHash"] is None]
    kept = bulk.values_of(storage.db["users"], "PasswordHash", [user["Id"] for user in silent])
    for user in silent:
        user["PasswordHash"] = kept.get(user["Id"])


def _parsed(line: bytes, record: Record) -> Document | str:
    """Return the checked values of a line, or a sentence on what is wrong with it."""
    try:
        values = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        return f"it is not valid JSON: {error}."
    if not isinstance(values, dict):
        return "it is not a JSON object."
    try:
        loaded: Document = load(record, values, record.unknown)
    except Invalid as error:
        return str(error)
    return loaded


def _size(file: IO[bytes]) -> int:
    """Return how much there is to read; a pipe does not say."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
