"""quartermaster seed, import, export, backup and restore."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import IO

import click
from flask import current_app
from flask.cli import with_appcontext

from app.cli.intents import intent, reason_option
from app.core.errors import Conflict
from app.core.texts import count_text
from app.maintenance.backup import write_backup
from app.maintenance.demo.world import seed_world
from app.maintenance.operations import IMPORT
from app.maintenance.restore import restore_backup
from app.maintenance.transfer.records import RECORDS
from app.maintenance.transfer.store import export_documents, open_output, write_documents
from app.maintenance.transfer.validate import validate_file
from app.privacy.operations import ERASE_USER
from app.privacy.store import erasures
from app.storage import bulk
from app.storage.client import storage
from app.users.hashing import passwords

FAULTS_SHOWN = 20

kind_argument = click.argument("kind", type=click.Choice(list(RECORDS)))
path_argument = partial(click.argument, "path", type=click.Path(dir_okay=False, allow_dash=True))


@click.command()
@click.option("--players", type=click.IntRange(0), default=500, show_default=True)
@click.option("--users", type=click.IntRange(1), default=100, show_default=True)
@click.option("--into-production", is_flag=True, help="Allow it in production.")
@with_appcontext
def seed(players: int, users: int, into_production: bool) -> None:
    """Fill the database with a demo world.

    The same numbers create the same players, users, bags and catalogue. Seeding again adds only
    what is missing. All its accounts share one public password.
    """
    if current_app.config["ENV"] == "production" and not into_production:
        raise Conflict(
            "seed is not for production: the password of its accounts is public. To seed anyway, "
            "use --into-production."
        )
    seed_world(storage, passwords, players, users)
    click.echo(f"Seeded {players} players and {users} users.")


@click.command("import")
@kind_argument
@click.argument("file", type=click.File("rb"))
@reason_option
@with_appcontext
def import_records(kind: str, file: IO[bytes], reason: str | None) -> None:
    """Add or replace records from FILE, JSON lines; - is standard input.

    Every line is checked before anything is written. A record replaces the stored one with the same
    Id; an identical record changes nothing.
    """
    with closing(bulk.Spool()) as spool:
        faults = list(validate_file(kind, file, spool))
        for fault in faults[:FAULTS_SHOWN]:
            click.echo(fault, err=True)
        if faults:
            more = f", of which {FAULTS_SHOWN} are shown" if len(faults) > FAULTS_SHOWN else ""
            count = count_text(len(faults), "fault")
            raise click.ClickException(f"{count}{more}; nothing was written.")
        write_documents(storage, kind, spool, intent(IMPORT, reason))
        click.echo(f"Imported {len(spool)} {kind}.")
    _tell_omissions(kind)


@click.command()
@path_argument(metavar="FILE")
@with_appcontext
def backup(path: str) -> None:
    """Write all collections of the database, also those of the game, to FILE, at one moment.

    FILE is a zip file, which only its owner can read: it contains password hashes and addresses. It
    appears when it is complete. The service and the game may keep running. - is standard output.
    """
    with open_output(path, is_secret=True) as file:
        count = write_backup(storage, file)
    click.echo(f"Backed up {count:,} documents of '{storage.db.name}'.", err=True)


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option(
    "--replace",
    metavar="DATABASE",
    help="Delete all collections of the database with this name first, also those of the game.",
)
@reason_option
@with_appcontext
def restore(file: IO[bytes], replace: str | None, reason: str | None) -> None:
    """Restore the backup FILE into the database of the service, which must be empty.

    Stop the service and the game before. The whole file is checked before anything is written. A
    restore that was interrupted can be repeated; until it has finished, the service does not start.
    Whoever was erased since the backup, as far as the database to replace knows, is erased again.
    """
    done = restore_backup(storage, erasures, file, replace, intent(ERASE_USER, reason))
    origin = f"made at {done.manifest['At']} by Quartermaster {done.manifest['Release']}"
    click.echo(f"Restored {done.documents:,} documents of a backup {origin}.")
    if done.erased:
        click.echo(f"Erased {len(done.erased)} people again who were erased since.")
    elif not replace:
        click.echo(
            "This database knew of nobody who was erased since the backup. If anybody was, they "
            "are back: quartermaster import erasures, and then quartermaster db check --repair, "
            "erase them again."
        )


@click.command()
@kind_argument
@path_argument(metavar="[FILE]", default="-")
@with_appcontext
def export(kind: str, path: str) -> None:
    """Write all records to FILE, JSON lines; without FILE, to standard output.

    A file appears when it is complete. Users are exported with their password hashes: only the
    owner can read their file; keep it as safe as the database. They are not written to standard
    output if it is a file that others can read.
    """
    with open_output(path, is_secret=kind == "users") as file:
        export_documents(storage, kind, current_app.config, file)
    _tell_omissions(kind)


def _tell_omissions(kind: str) -> None:
    if omits := RECORDS[kind].omits:
        sentence = f"A file of {kind} does not contain {omits}: quartermaster backup does."
        click.echo(sentence, err=True)
