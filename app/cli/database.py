"""quartermaster db."""

from __future__ import annotations

import click
from flask import current_app
from flask.cli import AppGroup

import config
from app.changes import Intent
from app.cli.intents import intent, reason_option
from app.database import COLLECTIONS, SUBJECTS
from app.http.context import current
from app.integrity.deletions import lost_players
from app.integrity.kinds import KINDS
from app.integrity.operations import REPAIR
from app.integrity.report import Report
from app.integrity.rules import Limits
from app.integrity.scan import Scan
from app.items.store import Catalogue
from app.privacy.operations import ERASE_USER
from app.privacy.store import Erasures
from app.progress import progress
from app.storage.client import Storage, database_uri
from app.storage.events import Feed
from app.storage.schema import migrations
from app.storage.schema.collections import (
    differences,
    init_database,
    init_despite_duplicates,
)
from app.storage.unfinished import UnfinishedWork

storage = current(Storage)
catalogue = current(Catalogue)
erasures = current(Erasures)
work = current(UnfinishedWork)

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
        report.add_collection_fault(name, fault)
    version = migrations.version_of(storage.db)
    # With an older schema, every document would be reported: db init must run first.
    if version == migrations.CURRENT:
        _check_documents(report, intent(REPAIR, reason) if repair else None)
        _check_unfinished(report, repair)
        _check_erasures(report, repair, intent(ERASE_USER, reason))
        for last in lost_players(storage):
            report.add_lost_player(last)
    if repair:
        for kind in SUBJECTS.values():
            storage.journals.move_all(kind, storage.clock.now())
    click.echo(report.summary(f"The database '{storage.db.name}' ({_version(version)})"))
    ctx.exit(1 if report.unrepaired else 0)


def _check_documents(report: Report, repair: Intent | None) -> None:
    sizes = current_app.config
    slots = sizes["INVENTORY_SIZE"], sizes["BANK_SIZE"], sizes["SPELLS_SIZE"]
    limits = Limits(*slots, lambda item: catalogue.limits(item).stack)
    scan = Scan(storage, limits, repair)
    for name in KINDS:
        with progress(f"Checking {name}", storage.db[name].estimated_document_count()) as advance:
            for count, findings in scan.run(name):
                report.add_findings(name, count, findings)
                advance(count)


def _check_unfinished(report: Report, repair: bool) -> None:
    """Report unfinished changes of several documents; with --repair, finish them."""
    for kind, id_ in list(work.find_all()):
        is_finished = repair and work.finish(kind, id_)
        report.add_unfinished(kind.name, id_, is_finished)


def _check_erasures(report: Report, repair: bool, meant: Intent) -> None:
    """Report erased people who are stored or named again; with --repair, erase them again."""
    traces = list(dict.fromkeys(erasures.find_returned()))
    failed = erasures.erase_again(traces, meant) if repair else set()
    for trace in traces:
        is_repaired = repair and trace.user_id not in failed
        report.add_returned(trace.collection, trace.id, bool(trace.names), is_repaired)


def _version(number: int) -> str:
    return f"SchemaVersion {number}"
