"""quartermaster seed, import and export."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

import click
from flask import current_app
from flask.cli import with_appcontext

from app.cli.checking import RECORDS, Record, check
from app.cli.progress import progress
from app.cli.world import World, carries_bag, guid
from app.errors import Conflict
from app.http.json import encode
from app.http.stores import current
from app.storage import bulk, password_costs, schema
from app.storage.client import Storage
from app.users.passwords import Passwords

Document = dict[str, Any]

FAULTS_SHOWN = 20
Writer = Callable[[Any, Iterable[Any]], Iterator[int]]

kind_argument = click.argument("kind", type=click.Choice(list(RECORDS)))
storage = current(Storage)
passwords = current(Passwords)


@click.command()
@click.option("--players", type=click.IntRange(0), default=500, show_default=True)
@click.option("--users", type=click.IntRange(1), default=100, show_default=True)
@click.option("--yes", is_flag=True, help="Add to the players of others without asking.")
@click.option("--into-production", is_flag=True, help="Do so in production as well.")
@with_appcontext
def seed(players: int, users: int, yes: bool, into_production: bool) -> None:
    """Fill the database with a believable world.

    The same numbers make the same players, users and bags. Seeding again adds what is missing
    and leaves what is there as it is. All its accounts have one password, which is public.
    """
    if current_app.config["ENV"] == "production" and not into_production:
        raise Conflict(
            "seed is not for production: the password of its accounts is public. "
            "--into-production does it all the same."
        )
    if not yes and _holds_others(players):
        _ask_to_mix()
    seed_world(storage, passwords, players, users)
    click.echo(f"Seeded {players} players and {users} users.")


def _holds_others(players: int) -> bool:
    """Tell whether there are players that no seed has made."""
    stored = storage.db["players"]
    ours = {guid("player", index) for index in range(max(players, stored.count_documents({})))}
    return any(document["_id"] not in ours for document in stored.find({}, ["_id"]))


def _ask_to_mix() -> None:
    """Ask whoever sits at a terminal; a script has to say so itself."""
    sentence = f"The database '{storage.db.name}' holds players that seed has not made."
    if not sys.stdin.isatty():
        raise Conflict(f"{sentence} --yes adds to them.")
    click.confirm(f"{sentence} Add to them?", abort=True)


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    password_costs.note(storage.db, passwords.cost)
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
        faults = list(check(kind, file, spool))
        for fault in faults[:FAULTS_SHOWN]:
            click.echo(fault, err=True)
        if faults:
            more = f", of which {FAULTS_SHOWN} are shown" if len(faults) > FAULTS_SHOWN else ""
            noun = "fault" if len(faults) == 1 else "faults"
            raise click.ClickException(f"{len(faults)} {noun}{more}; nothing was written.")
        if kind == "users":
            costs = {password_costs.cost_of(user["PasswordHash"]) for user in spool}
            password_costs.note(storage.db, *costs)
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
    readable by its owner alone, and to be kept as safe as the database. Standard output that is a
    file which others can read is refused for them.
    """
    record = RECORDS[kind](current_app.config)
    order = "_id" if kind == "bags" else "NameKey"
    with (
        _output(path, is_secret=kind == "users") as file,
        progress(f"Writing {kind}", storage.db[kind].estimated_document_count()) as advance,
    ):
        for document in bulk.read_all(storage.db[kind], order, ["Journal"]):
            file.write(_line(kind, record, document))
            advance(1)


def _line(kind: str, record: Record, document: Document) -> bytes:
    id_ = document["_id"]
    try:
        return encode(record.record(document)) + b"\n"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sentence = f"{id_} of the {kind} is damaged: quartermaster db check says how."
        raise Conflict(sentence) from error


@contextmanager
def _output(path: str, is_secret: bool) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when all is written, and leaves the former one until then.

    A link of that name is replaced and not followed: somebody else may have put it there.
    """
    if path == "-" or _is_stdout(path):
        if is_secret:
            _refuse_open_stdout()
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if Path(path).exists() and not Path(path).is_file():  # a device or a pipe keeps its name
        with Path(path).open("wb") as file:
            yield file
        return
    if not Path(path).parent.is_dir():
        raise Conflict(f"There is no folder {Path(path).parent}.")
    # A draft for each export, and never one that is there already: O_EXCL follows no link.
    draft = Path(f"{path}.{secrets.token_hex(8)}.part")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_secret else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _is_stdout(path: str) -> bool:
    """Tell whether a path such as /dev/stdout leads to standard output, wherever that goes."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(sys.stdout.fileno()))
    except OSError:  # there is no such file, or a caller in this process reads what we print
        return False


def _refuse_open_stdout() -> None:
    """Refuse to fill a file that the shell has made for everybody to read."""
    with suppress(OSError):
        found = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISREG(found) and found & (stat.S_IRWXG | stat.S_IRWXO):
            raise Conflict(
                "Standard output is a file that others can read, and accounts come with their "
                "password hashes: name the FILE, or set umask 077 before."
            )
