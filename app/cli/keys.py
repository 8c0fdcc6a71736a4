"""quartermaster key: the keys by which tools authenticate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click
from flask.cli import AppGroup

from app.cli.accounts import minute
from app.cli.intents import intent, reason_option, report
from app.core.errors import Invalid
from app.core.naming import Lookup, parse_guid, printable
from app.core.permissions import scope_texts
from app.core.types import Document
from app.http.parser import load
from app.users.api_keys.domain import LIFETIME
from app.users.api_keys.management import (
    CREATE_KEY,
    REVOKE_KEY,
    ROTATE_KEY,
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
)
from app.users.api_keys.schemas import LONGEST_OVERLAP_HOURS, OVERLAP_HOURS, KeyArgs
from app.users.store import users

key = AppGroup("key", help="Manage the keys by which tools authenticate.")

user_argument = click.argument("user", metavar="USER", type=Lookup.parse)
id_argument = click.argument("key_id", metavar="KEY")
DAYS = click.IntRange(1, 36500)


class CommandWithScopes(click.Command):
    """A command whose help lists the scopes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Scopes"):
            formatter.write_dl(list(scope_texts().items()))


@key.command("create", cls=CommandWithScopes)
@user_argument
@click.argument("name")
@click.argument("scopes", nargs=-1, required=True, metavar="SCOPE...")
@click.option(
    "--days", type=DAYS, default=LIFETIME.days, show_default=True, help="Days until it expires."
)
@click.option(
    "--address", "addresses", multiple=True, help="A network that may use it; repeatable."
)
@click.option(
    "--largest-quantity",
    type=click.IntRange(1),
    help="The largest quantity of an item per request.",
)
@click.option("--items-per-day", type=click.IntRange(1), help="The limit for all items per day.")
@click.option(
    "--item", "items", multiple=True, help="The id of an item that it may move; repeatable."
)
@reason_option
def create(
    user: Lookup,
    name: str,
    scopes: tuple[str, ...],
    days: int,
    addresses: tuple[str, ...],
    reason: str | None,
    **limits: Any,
) -> None:
    """Create a key NAME for USER, and print it. It is shown only once."""
    budget = {
        "LargestQuantity": limits["largest_quantity"],
        "ItemsPerDay": limits["items_per_day"],
        "Items": list(limits["items"]) or None,
    }
    given = {"Name": name, "Scopes": list(scopes), "Addresses": list(addresses) or None}
    fields = load(KeyArgs(), {**given, "Budget": budget if any(budget.values()) else None})
    fields["ExpiresAt"] = users.now() + timedelta(days=days)
    made = create_key(user, fields, intent(CREATE_KEY, reason)).answer
    report(made["Key"], f"made the key {printable(made['Name'])} of {user}")


@key.command("list")
@user_argument
def list_command(user: Lookup) -> None:
    """Print the keys of USER: id, name, permissions, expiry, last use, addresses, budget."""
    for record in list_keys(account(user)["_id"]):
        click.echo("  ".join(filter(None, line_parts(record))))


@key.command("rotate")
@user_argument
@id_argument
@click.option(
    "--overlap",
    type=click.IntRange(0, LONGEST_OVERLAP_HOURS),
    default=OVERLAP_HOURS,
    show_default=True,
    help="Hours until the former secret expires.",
)
@click.option("--days", type=DAYS, help="Days until it expires; default: as long as before.")
@reason_option
def rotate(user: Lookup, key_id: str, overlap: int, days: int | None, reason: str | None) -> None:
    """Give a key of USER a new secret, and print it. KEY is its id or name."""
    owner = account(user)
    id_ = id_of(owner, key_id)
    ends = users.now() + timedelta(days=days) if days else None
    args = {"Id": id_, "OverlapHours": overlap}
    meant = intent(ROTATE_KEY, reason, **args)
    made = rotate_key(user, {**args, "ExpiresAt": ends}, meant).answer
    report(made["Key"], f"rotated the key {printable(made['Name'])} of {owner['Name']}")


@key.command("revoke")
@user_argument
@id_argument
@reason_option
def revoke(user: Lookup, key_id: str, reason: str | None) -> None:
    """Revoke a key of USER permanently. KEY is its id or name."""
    owner = account(user)
    id_ = id_of(owner, key_id)
    revoke_key(user, {"Id": id_}, intent(REVOKE_KEY, reason, Id=id_))
    report(f"Revoked the key {id_} of {owner['Name']}.")


def account(key: Lookup) -> Document:
    return users.get(key, "Name")


def id_of(owner: Document, text: str) -> str:
    named = [record["Id"] for record in list_keys(owner["_id"]) if record["Name"] == text]
    # An id takes precedence over another key of the same name.
    id_ = parse_guid(text) or next(iter(named), None)
    if id_ is None:
        raise Invalid(f"{owner['Name']} has no key '{printable(text)}'.")
    return id_


def line_parts(record: Document) -> Iterator[str]:
    used, budget = record["LastUsedAt"], record["Budget"] or {}
    yield from (record["Id"], printable(record["Name"]), " ".join(record["Scopes"]))
    yield f"expires {minute(record['ExpiresAt'])}"
    yield f"used {minute(used)}" if used else "never used"
    yield f"from {' '.join(record['Addresses'])}" if record["Addresses"] else ""
    limits = []
    if budget.get("LargestQuantity") is not None:
        limits.append(f"up to {budget['LargestQuantity']} at once")
    if budget.get("ItemsPerDay") is not None:
        limits.append(f"{record['UsedToday']} of {budget['ItemsPerDay']} used today")
    if budget.get("Items"):
        limits.append(f"only {' '.join(budget['Items'])}")
    yield ", ".join(limits)
