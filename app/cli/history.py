"""quartermaster history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone
from itertools import islice
from typing import Any, TypeVar

import click
from flask.cli import with_appcontext

from app.cli.intents import print_table
from app.console.frame.times import as_utc
from app.core.changes import KINDS
from app.core.types import Document
from app.history.access import query_of
from app.history.schemas import HistoryArgs
from app.history.store import history as store
from app.http.api import Schema
from app.http.fields import Flag, Moment
from app.http.json import encode
from app.http.lenient import fields_by_name
from app.http.parser import load

COLUMNS = ("TIME (UTC)", "BY", "CHANGED", "OPERATION", "ARGUMENTS", "REASON", "ID")


# The options of the command.
ARGUMENTS = HistoryArgs(exclude=("pageSize", "after"))
Command = TypeVar("Command", bound=Callable[..., Any])


def schema_options(schema: Schema, prefix: str = "") -> Callable[[Command], Command]:
    """Add an option for each field of a schema, with its text in the API; UTC need not be typed."""

    def add(command: Command) -> Command:
        for name, field in reversed(fields_by_name(schema).items()):
            option, about = f"--{prefix}{name.lower()}", field.metadata["description"]
            type_ = as_utc if isinstance(field, Moment) else None
            is_flag = isinstance(field, Flag)
            command = click.option(option, name, type=type_, is_flag=is_flag, help=about)(command)
        return command

    return add


def given_options(options: Document) -> Document:
    return {name: value for name, value in options.items() if value not in (None, False)}


@click.command()
@schema_options(ARGUMENTS)
@click.option("--limit", type=click.IntRange(1, 10**9), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one per entry.")
@with_appcontext
def history(limit: int, as_json: bool, **chosen: Any) -> None:
    """Show who changed what, when and why, newest first.

    A time is like 2026-01-31 or 2026-01-31T19:00:00Z, and in UTC unless it names a zone.
    """
    args = load(ARGUMENTS, given_options(chosen))
    entries = islice(store.present_all(query_of(args, KINDS)), limit)
    if as_json:
        for entry in entries:
            click.echo(encode(entry))
    else:
        print_table(COLUMNS, map(_row, entries))


def _row(entry: Document) -> tuple[str, ...]:
    subject, by = entry["Subject"], entry["By"]
    return (
        entry["At"].astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
        f"{by['Name'] or '?'} ({entry['Via']})",
        f"{subject['Kind']} {subject['Name'] or subject['Id']}",
        entry["Operation"],
        " ".join(f"{name}={value}" for name, value in entry["Arguments"].items()),
        entry["Reason"] or "",
        entry["Id"],
    )
