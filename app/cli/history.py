"""quartermaster history."""

from __future__ import annotations

from datetime import timezone
from itertools import islice
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli.intents import TIME_FORMAT, Guid, Time, print_table
from app.core.changes import KINDS
from app.core.naming import Lookup
from app.core.operations import operation_names
from app.core.types import Document
from app.history.store import filters_of
from app.history.store import history as store
from app.http.json import encode
from app.players.store import players
from app.users.store import users

COLUMNS = ("TIME (UTC)", "BY", "CHANGED", "OPERATION", "ARGUMENTS", "REASON", "ID")


@click.command()
@click.option("--player", help="Changes to this character (name or id).")
@click.option("--user", help="Changes to this account (username or id).")
@click.option("--by", help="Changes by this username, user id or system user.")
@click.option("--key", help="The API key that made the change.")
@click.option("--operation", type=click.Choice(operation_names(), case_sensitive=False))
@click.option("--item", type=Guid(), help="An item, spell or variable.")
@click.option("--reason", help="Words of the reason.")
@click.option("--from", "since", type=Time(), help=f"The earliest time, {TIME_FORMAT}")
@click.option("--to", "until", type=Time(), help="The latest time, exclusive, in the same format.")
@click.option("--limit", type=click.IntRange(1, 10**9), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one per entry.")
@with_appcontext
def history(player: str | None, user: str | None, limit: int, as_json: bool, **given: Any) -> None:
    """Show who changed what, when and why, newest first."""
    if player is not None and user is not None:
        raise click.UsageError("--player and --user exclude each other.")
    args = {name: value for name, value in given.items() if value is not None}
    entries = islice(store.serve_all(_filters(args, player, user)), limit)
    if as_json:
        for entry in entries:
            click.echo(encode(entry))
    else:
        print_table(COLUMNS, map(_row, entries))


def _filters(args: Document, player: str | None, user: str | None) -> Document:
    key = Lookup.parse(player or user or "")
    if player is not None:
        return filters_of(args, ("player",), key.id or players.get_id(key))
    if user is not None:
        return filters_of(args, ("user",), key.id or users.get(key, "_id")["_id"])
    return filters_of(args, KINDS)


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
