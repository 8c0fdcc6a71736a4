"""quartermaster db."""

from __future__ import annotations

import click
from flask.cli import AppGroup

from app.http.stores import current
from app.storage import migrations, schema
from app.storage.client import Storage

storage = current(Storage)

db = AppGroup("db", help="Prepare and check the database.")


@db.command("init")
def init_database() -> None:
    """Create collections, validators and indexes, and bring older documents up to date.

    Safe to repeat, at any time: what is there already is left or brought up to date.
    """
    schema.init(storage.db)
    click.echo(f"The database '{storage.db.name}' is ready, at {_version(migrations.CURRENT)}.")


@db.command("version")
def show_version() -> None:
    """Show how far the database is, and whether that suits this program."""
    version = migrations.refuse_newer(storage.db)
    known = f"The database '{storage.db.name}' is at {_version(version)}"
    if version < migrations.CURRENT:
        needed = f"this program needs {migrations.CURRENT}: quartermaster db init brings it there."
        click.echo(f"{known}; {needed}")
    else:
        click.echo(f"{known}, as this program needs it.")


def _version(number: int) -> str:
    return f"SchemaVersion {number}"
