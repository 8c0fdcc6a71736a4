"""quartermaster history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

import click
from flask.cli import with_appcontext

from app.batches.planning import QUERY
from app.batches.schemas import ChosenChangesArgs
from app.cli.intents import print_table
from app.core.changes import KINDS
from app.core.naming import Lookup, parse_guid
from app.core.operations import operation_names
from app.core.types import Document
from app.history.store import filters_of
from app.history.store import history as store
from app.http.json import encode
from app.players.store import players
from app.users.store import users

COLUMNS = ("TIME (UTC)", "BY", "CHANGED", "OPERATION", "ARGUMENTS", "REASON", "ID")


# Whose history is shown.
STORES: dict[str, Any] = {"player": players, "user": users}
Command = TypeVar("Command", bound=Callable[..., Any])


def moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return at.astimezone(timezone.utc) if at.tzinfo else at.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        fault = f"'{text}' is not a time like 2026-01-31 or 2026-01-31T19:00:00Z."
        raise click.BadParameter(fault) from None


def guid(text: str) -> str:
    if parsed := parse_guid(text):
        return parsed
    raise click.BadParameter(f"'{text}' is not a guid.")


TYPES: dict[str, Any] = {
    "Operation": click.Choice(operation_names(), case_sensitive=False),
    "Item": guid,
    "From": moment,
    "To": moment,
}


def filter_options(prefix: str = "") -> Callable[[Command], Command]:
    """Add the options that choose changes, with the names that they have in the undo of a batch."""

    def add(command: Command) -> Command:
        fields = ChosenChangesArgs().fields
        for name in reversed(QUERY):
            about, option = fields[name].metadata["description"], f"--{prefix}{name.lower()}"
            command = click.option(option, name, type=TYPES.get(name), help=about)(command)
        return command

    return add


@click.command()
@click.option("--player", help="Changes to this character (name or id).")
@click.option("--user", help="Changes to this account (username or id).")
@filter_options()
@click.option("--reason", default="", help="Words of the reason.")
@click.option("--limit", type=click.IntRange(1, 10**9), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one per entry.")
@with_appcontext
def history(
    player: str | None,
    user: str | None,
    reason: str,
    limit: int,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show who changed what, when and why, newest first.

    A time is like 2026-01-31 or 2026-01-31T19:00:00Z, and in UTC unless it names a zone.
    """
    if player is not None and user is not None:
        raise click.UsageError("--player and --user exclude each other.")
    args = {QUERY[name]: value for name, value in chosen.items()}
    filters = filters_of({**args, "reason": reason}, KINDS)
    for kind, text in (("player", player), ("user", user)):
        if text is not None:
            key = Lookup.parse(text)
            subject = key.id or STORES[kind].get_id_by_any_name(key)
            filters = filters_of({**args, "reason": reason}, (kind,), subject)
    entries = islice(store.serve_all(filters), limit)
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
