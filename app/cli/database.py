"""quartermaster db."""

from __future__ import annotations

import click
from flask import current_app
from flask.cli import AppGroup

import config
from app.cli.intents import intent, reason_option
from app.core.naming import printable
from app.database import COLLECTIONS
from app.maintenance.integrity.report import Report
from app.maintenance.integrity.scan import Scan
from app.maintenance.operations import REPAIR
from app.privacy.operations import ERASE_USER
from app.privacy.store import erasures
from app.storage.client import database_uri, storage
from app.storage.events import Feed
from app.storage.schema import migrations
from app.storage.schema.collections import (
    differences,
    init_database,
    init_despite_duplicates,
)

db = AppGroup("db", help="Prepare and check the database.")


@db.command("init")
def init_command() -> None:
    """Create collections, validators and indexes, and bring older documents up to date.

    You can repeat it at any time.
    """
    init_database(storage.db, COLLECTIONS)
    # After a restore, what was the end of the log may mean nothing to this server.
    Feed(storage).catch_up()
    click.echo(f"The database '{storage.db.name}' is ready, at {_version(migrations.CURRENT)}.")


@db.command("version")
def show_version() -> None:
    """Show the schema version of the database, and whether this program supports it."""
    version = migrations.refuse_newer(storage.db)
    needed = ", which this program needs."
    if version < migrations.CURRENT:
        needed = f"; this program needs {migrations.CURRENT}: run quartermaster db init."
    click.echo(f"The database '{storage.db.name}' is at {_version(version)}{needed}")


@db.command("uri", with_appcontext=False)
def show_uri() -> None:
    """Print the URI of the database, for other programs such as a game.

    The URI contains the name of the database, and the password if there is one. Without
    QM_MONGODB_URI, it is the URI of the embedded MongoDB, which must be running.
    """
    click.echo(database_uri(config.load()))


@db.command("check")
@click.option("--repair", is_flag=True, help="Make safe repairs.")
@reason_option
@click.pass_context
def check_database(ctx: click.Context, repair: bool, reason: str | None) -> None:
    """Check every document, and print one line for each fault.

    The service may keep running. A repair sets derived or missing fields. It loses no change, and
    never loses or creates an item. Exits with 1 if a fault remains.
    """
    migrations.refuse_newer(storage.db)
    if repair:
        init_despite_duplicates(storage.db, COLLECTIONS)
    report = Report(repair)
    for name, fault in differences(storage.db, COLLECTIONS):
        report.add(f"{name}: {fault}", is_repairable=not repair)
    version = migrations.version_of(storage.db)
    # With an older schema, every document would be reported: db init must run first.
    if version == migrations.CURRENT:
        # First: what belongs to somebody who is being erased cannot be repaired.
        _check_erasures(report, repair, reason)
        meant = intent(REPAIR, reason) if repair else None
        Scan(storage, current_app.config, report, meant).check()
    report.print_notes()
    click.echo(report.summary(f"The database '{storage.db.name}' ({_version(version)})"))
    ctx.exit(1 if report.unrepaired else 0)


def _check_erasures(report: Report, repair: bool, reason: str | None) -> None:
    """Report erasures to finish, and erased people who are back; with --repair, erase them."""
    for user_id in erasures.unfinished():
        if repair:
            erasures.finish(user_id)
        report.add(f"erasure {printable(user_id)}: is not finished", True, repair)
    returned = list(dict.fromkeys(erasures.find_returned()))
    if repair:
        erasures.erase_again(returned, intent(ERASE_USER, reason))
    for found in returned:
        fault = f"{found.collection} {printable(found.id)}: was erased, but exists again"
        report.add(fault, True, repair)


def _version(number: int) -> str:
    return f"SchemaVersion {number}"
