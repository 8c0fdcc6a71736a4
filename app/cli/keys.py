"""quartermaster key: the keys by which tools authenticate."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
from flask.cli import AppGroup

from app.cli.intents import make, print_records, reason_option
from app.core.errors import Invalid
from app.core.naming import Lookup, parse_guid, printable
from app.core.permissions import scope_texts
from app.core.types import Document
from app.users.api_keys.domain import LIFETIME
from app.users.api_keys.management import CREATE_KEY, REVOKE_KEY, ROTATE_KEY, list_keys
from app.users.api_keys.schemas import OVERLAP_HOURS
from app.users.store import users

key = AppGroup("key", help="Manage the keys by which tools authenticate.")

user_argument = click.argument("user", metavar="USER", type=Lookup.parse)
id_argument = click.argument("key_id", metavar="KEY")
DAYS = click.IntRange(1, 36500)
SHOWN = ("Id", "Name", "Scopes", "ExpiresAt", "LastUsedAt", "Addresses", "Budget", "UsedToday")


def ends_in(days: int | None) -> str | None:
    return (users.now() + timedelta(days)).isoformat() if days else None


@key.command(
    "create",
    epilog="\b\nScopes:\n" + "\n".join(f"{name}: {text}" for name, text in scope_texts().items()),
)
@user_argument
@click.argument("name")
@click.argument("scopes", nargs=-1, required=True, metavar="SCOPE...")
@click.option("--days", type=DAYS, help=f"Days until it expires; default: {LIFETIME.days}.")
@click.option(
    "--address", "addresses", multiple=True, help="A network that may use it; repeatable."
)
@click.option(
    "--largest-quantity",
    "LargestQuantity",
    type=int,
    help="The largest quantity of an item per request.",
)
@click.option("--items-per-day", "ItemsPerDay", type=int, help="The limit for all items per day.")
@click.option(
    "--item", "Items", multiple=True, help="The id of an item that it may move; repeatable."
)
@reason_option
def create(
    user: Lookup,
    name: str,
    scopes: tuple[str, ...],
    days: int | None,
    addresses: tuple[str, ...],
    reason: str | None,
    **limits: Any,
) -> None:
    """Create a key NAME for USER, and print it. It is shown only once."""
    given: Document = {"Name": name, "Scopes": [*scopes], "ExpiresAt": ends_in(days)}
    budget = {limit: value for limit, value in limits.items() if value}
    given |= {"Addresses": [*addresses] or None, "Budget": budget or None}
    click.echo(make(CREATE_KEY, user, given, reason).answer["Key"])


@key.command("list")
@user_argument
def list_command(user: Lookup) -> None:
    """Print the keys of USER."""
    print_records(list_keys(users.get_id(user)), SHOWN)


@key.command("rotate")
@user_argument
@id_argument
@click.option(
    "--overlap",
    type=int,
    default=OVERLAP_HOURS,
    show_default=True,
    help="Hours until the former secret expires.",
)
@click.option("--days", type=DAYS, help="Days until it expires; default: as long as before.")
@reason_option
def rotate(user: Lookup, key_id: str, overlap: int, days: int | None, reason: str | None) -> None:
    """Give a key of USER a new secret, and print it. KEY is its id or name."""
    given = {"Id": id_of(user, key_id), "OverlapHours": overlap, "ExpiresAt": ends_in(days)}
    click.echo(make(ROTATE_KEY, user, given, reason).answer["Key"])


@key.command("revoke")
@user_argument
@id_argument
@reason_option
def revoke(user: Lookup, key_id: str, reason: str | None) -> None:
    """Revoke a key of USER permanently. KEY is its id or name."""
    id_ = id_of(user, key_id)
    make(REVOKE_KEY, user, {"Id": id_}, reason)
    click.echo(f"Revoked the key {id_} of {user}.")


def id_of(user: Lookup, text: str) -> str:
    keys = list_keys(users.get_id(user))
    named = {record["Name"]: str(record["Id"]) for record in reversed(keys)}
    # An id takes precedence over another key of the same name.
    if id_ := parse_guid(text) or named.get(text):
        return id_
    raise Invalid(f"{user} has no key '{printable(text)}'.")
