"""quartermaster seed, import and export."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import IO

import click
from flask import current_app
from flask.cli import with_appcontext

from app.database import COLLECTIONS
from app.demo.seed import seed_world
from app.demo.world import guid
from app.errors import Conflict
from app.http.context import current
from app.progress import progress
from app.storage import bulk, password_costs
from app.storage.client import Storage
from app.storage.schema.collections import init_collections, init_database
from app.transfer.files import opened_output
from app.transfer.records import RECORDS, export_line
from app.transfer.validate import check
from app.users.passwords import Passwords

FAULTS_SHOWN = 20

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
            password_costs.record(storage.db, *costs)
        init_collections(storage.db, COLLECTIONS)
        with progress(f"Writing {kind}", len(spool)) as advance:
            for count in bulk.write(storage.db[kind], spool):
                advance(count)
        init_database(storage.db, COLLECTIONS)
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
        opened_output(path, is_secret=kind == "users") as file,
        progress(f"Writing {kind}", storage.db[kind].estimated_document_count()) as advance,
    ):
        for document in bulk.read_all(storage.db[kind], order, ["Journal"]):
            file.write(export_line(kind, record, document))
            advance(1)
