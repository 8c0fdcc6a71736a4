"""quartermaster seed, import and export."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import IO

import click
from flask import current_app
from flask.cli import with_appcontext

from app.cli.intents import intent, reason_option
from app.demo.seed import holds_other_players, seed_world
from app.errors import Conflict
from app.http.context import current
from app.storage import bulk
from app.storage.client import Storage
from app.transfer.files import open_output
from app.transfer.operations import IMPORT
from app.transfer.records import RECORDS
from app.transfer.store import export_documents, write_documents
from app.transfer.validate import validate_file
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

    The same numbers make the same players, users and bags, and a catalogue of all that they have.
    Seeding again adds what is missing and changes nothing else. All its accounts have one
    password, which is public.
    """
    if current_app.config["ENV"] == "production" and not into_production:
        raise Conflict(
            "seed is not for production: the password of its accounts is public. "
            "--into-production does it all the same."
        )
    if not yes and holds_other_players(storage, players):
        sentence = f"The database '{storage.db.name}' holds players that seed has not made."
        # A script cannot answer a prompt: it must pass --yes.
        if not sys.stdin.isatty():
            raise Conflict(f"{sentence} --yes adds to them.")
        click.confirm(f"{sentence} Add to them?", abort=True)
    seed_world(storage, passwords, players, users)
    click.echo(f"Seeded {players} players and {users} users.")


@click.command("import")
@kind_argument
@click.argument("file", type=click.File("rb"))
@reason_option
@with_appcontext
def import_records(kind: str, file: IO[bytes], reason: str | None) -> None:
    """Add or replace records from FILE, JSON lines; - is standard input.

    Every line is checked before anything is written. A record replaces the one with its Id; one
    that says what is stored already changes nothing.
    """
    meant = intent(IMPORT, reason)
    with closing(bulk.Spool()) as spool:
        faults = list(validate_file(kind, file, spool, meant))
        for fault in faults[:FAULTS_SHOWN]:
            click.echo(fault, err=True)
        if faults:
            more = f", of which {FAULTS_SHOWN} are shown" if len(faults) > FAULTS_SHOWN else ""
            noun = "fault" if len(faults) == 1 else "faults"
            raise click.ClickException(f"{len(faults)} {noun}{more}; nothing was written.")
        write_documents(storage, kind, spool, meant)
        click.echo(f"Imported {len(spool)} {kind}.")


@click.command()
@kind_argument
@click.argument(
    "path", metavar="[FILE]", type=click.Path(dir_okay=False, allow_dash=True), default="-"
)
@with_appcontext
def export(kind: str, path: str) -> None:
    """Write all records to FILE, JSON lines; without FILE, to standard output.

    A file appears when it is complete. The users' lines hold password hashes: their file is
    readable by its owner alone; keep it as safe as the database. They are not written to standard
    output if that is a file which others can read.
    """
    with open_output(path, is_secret=kind == "users") as file:
        export_documents(storage, kind, current_app.config, file)
