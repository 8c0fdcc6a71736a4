"""quartermaster db, seed, import and export."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timezone
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

    The same numbers make the same players, users and bags, so that seeding again changes
    nothing but the time when those who are online were last seen.
    """
    seed_world(storage, passwords, players, users)
    click.echo(f"Seeded {players} players and {users} users.")


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    _write("users", storage, world.users(), users, trusted=True)
    _write("players", storage, world.players(players), players, trusted=True)
    bags = sum(map(carries_bag, range(players)))
    _write("bags", storage, world.bags(players), bags, trusted=True)
    schema.init(storage.db)


def _write(
    kind: str, storage: Storage, documents: Iterable[Any], length: int, trusted: bool = False
) -> None:
    schema.init_collections(storage.db)
    with progress(f"Writing {kind}", length) as advance:
        for count in bulk.write(storage.db[kind], documents, trusted=trusted):
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
            raise click.ClickException(f"{len(faults)} faults{more}; nothing was written.")
        _write(kind, storage, spool, len(spool))
        schema.init(storage.db)
        click.echo(f"Imported {len(spool)} {kind}.")


@click.command()
@kind_argument
@click.argument("file", type=click.File("wb"), default="-")
@with_appcontext
def export(kind: str, file: IO[bytes]) -> None:
    """Write all records to FILE, JSON lines; standard output where none is named.

    The users' lines hold password hashes: keep the file as safe as the database.
    """
    record = RECORDS[kind](current_app.config)
    order = "_id" if kind == "bags" else "NameKey"
    with progress(f"Writing {kind}", storage.db[kind].estimated_document_count()) as advance:
        for document in bulk.read_all(storage.db[kind], order, ["Journal"]):
            file.write(encode(record.record(document)) + b"\n")
            advance(1)


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
    # Threads of the pool do not see the application that the store's stand-in asks for.
    hash_password = passwords.hash

    def document(line: bytes) -> Document | str:
        try:
            values = _parse(line, record)
        except Invalid as error:
            return str(error)
        if "Password" in values:
            values["PasswordHash"] = hash_password(values["Password"])
        return record.document(values, now, version)

    # Hashing passwords is slow and runs outside of Python, on as many cores as there are.
    with ThreadPoolExecutor() as pool, progress(f"Checking {kind}", _size(file)) as advance:
        numbered = ((n, line) for n, line in enumerate(file, 1) if line.strip())
        for batch in bulk.batches(numbered, HASHED_AT_ONCE):
            texts = [line for _, line in batch]
            results = pool.map(document, texts) if kind == "users" else map(document, texts)
            yield from zip([number for number, _ in batch], results, strict=True)
            advance(sum(map(len, texts)))


def _parse(line: bytes, record: Record) -> Document:
    try:
        values = orjson.loads(line)
    except ValueError as error:
        raise Invalid(f"it is not valid JSON: {error}.") from None
    if not isinstance(values, dict):
        raise Invalid("it is not a JSON object.")
    loaded: Document = load(record, values, record.unknown)
    return loaded


def _size(file: IO[bytes]) -> int:
    """Return how much there is to read; a pipe does not say."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
