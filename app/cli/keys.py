"""quartermaster key: the keys by which tools authenticate."""

from __future__ import annotations

from datetime import timedelta

import click
from flask.cli import AppGroup

from app.api_keys.domain import LIFETIME
from app.api_keys.management import (
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
    terms_of,
    told,
)
from app.api_keys.operations import CREATE_KEY, REVOKE_KEY, ROTATE_KEY
from app.api_keys.schemas import LONGEST_OVERLAP_HOURS, OVERLAP_HOURS, KeyArgs
from app.auth.scopes import ABOUT, Scope
from app.cli.accounts import audit_log, shown
from app.cli.intents import intent, move_entries, reason_option
from app.errors import Invalid
from app.http.context import current
from app.http.parser import load
from app.naming import Lookup, parse_guid, printable
from app.storage.client import Storage
from app.types import Document
from app.users.store import Users

users = current(Users)
storage = current(Storage)

key = AppGroup("key", help="Manage the keys by which tools authenticate.")

user_argument = click.argument("user", metavar="USER")
id_argument = click.argument("key_id", metavar="KEY")
DAYS = click.IntRange(1, 36500)


class CommandWithScopes(click.Command):
    """A command whose help lists the scopes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Scopes"):
            formatter.write_dl([(scope.value, ABOUT[scope]) for scope in Scope])


@key.command("create", cls=CommandWithScopes)
@user_argument
@click.argument("name")
@click.argument("scopes", nargs=-1, required=True, metavar="SCOPE...")
@click.option("--days", type=DAYS, default=LIFETIME.days, show_default=True, help="It works for.")
@click.option("--address", "addresses", multiple=True, help="A network it may be used from.")
@click.option("--largest-quantity", type=click.IntRange(1), help="Of an item in one request.")
@click.option("--items-per-day", type=click.IntRange(1), help="Of all items together.")
@click.option("--item", "items", multiple=True, help="The id of an item that it may move.")
@reason_option
def create(
    user: str,
    name: str,
    scopes: tuple[str, ...],
    days: int,
    addresses: tuple[str, ...],
    largest_quantity: int | None,
    items_per_day: int | None,
    items: tuple[str, ...],
    reason: str | None,
) -> None:
    """Make a key NAME for USER, and print it; it is shown this once."""
    owner = account(user)
    limits = (largest_quantity, items_per_day, list(items) or None)
    names = ("LargestQuantity", "ItemsPerDay", "Items")
    budget = dict(zip(names, limits, strict=True)) if any(limits) else None
    fields = load(
        KeyArgs(),
        {
            "Name": name,
            "Scopes": list(scopes),
            "Addresses": list(addresses) or None,
            "Budget": budget,
        },
    )
    now = users.now()
    terms = terms_of({**fields, "ExpiresAt": now + timedelta(days=days)}, now)
    meant = intent(CREATE_KEY, reason, **told(terms))
    made = create_key(owner["_id"], terms, meant)
    audit_log("made the key %s of %s", printable(terms.name), owner["Name"])
    click.echo(made.secret)
    move_entries(storage)


@key.command("list")
@user_argument
def list_command(user: str) -> None:
    """Print the keys of USER: id, name, scopes, end, last use, addresses, budget."""
    for record in list_keys(account(user)["_id"]):
        click.echo(line_of(record))


@key.command("rotate")
@user_argument
@id_argument
@click.option(
    "--overlap",
    type=click.IntRange(0, LONGEST_OVERLAP_HOURS),
    default=OVERLAP_HOURS,
    show_default=True,
    help="For how many hours the former text works as well.",
)
@click.option("--days", type=DAYS, help="It works for; as long as before where this is left out.")
@reason_option
def rotate(user: str, key_id: str, overlap: int, days: int | None, reason: str | None) -> None:
    """Give a key of USER another text, and print it; KEY is its id or its name."""
    owner = account(user)
    id_ = id_of(owner, key_id)
    ends = users.now() + timedelta(days=days) if days else None
    meant = intent(ROTATE_KEY, reason, Id=id_, OverlapHours=overlap)
    made = rotate_key(owner, id_, timedelta(hours=overlap), ends, meant)
    audit_log("rotated the key %s of %s", printable(made.record["Name"]), owner["Name"])
    click.echo(made.secret)
    move_entries(storage)


@key.command("revoke")
@user_argument
@id_argument
@reason_option
def revoke(user: str, key_id: str, reason: str | None) -> None:
    """Revoke a key of USER for good; KEY is its id or its name."""
    owner = account(user)
    id_ = id_of(owner, key_id)
    revoke_key(owner, id_, intent(REVOKE_KEY, reason, Id=id_))
    audit_log("revoked the key %s of %s", id_, owner["Name"])
    click.echo(f"Revoked the key {id_} of {owner['Name']}.")
    move_entries(storage)


def account(name: str) -> Document:
    return users.get(Lookup.parse(name), "Name")


def id_of(owner: Document, text: str) -> str:
    """Return the id of a key that is named by its id or its name."""
    records = list_keys(owner["_id"])
    named = [record["Id"] for record in records if record["Name"] == text]
    # An id is an id, whatever another key is called.
    id_ = parse_guid(text) or next(iter(named), None)
    if id_ is None:
        raise Invalid(f"{owner['Name']} has no key '{printable(text)}'.")
    return id_


def line_of(record: Document) -> str:
    used = record["LastUsedAt"]
    last = f"used {shown(used)}" if used else "never used"
    scopes = " ".join(record["Scopes"])
    name = printable(record["Name"])
    parts = [record["Id"], name, scopes, f"ends {shown(record['ExpiresAt'])}", last]
    if record["Addresses"]:
        parts.append(f"from {' '.join(record['Addresses'])}")
    if record["Budget"]:
        parts.append(budget_text(record["Budget"], record["UsedToday"]))
    return "  ".join(parts)


def budget_text(budget: Document, used_today: int) -> str:
    texts = []
    if budget["LargestQuantity"] is not None:
        texts.append(f"up to {budget['LargestQuantity']} at once")
    if budget["ItemsPerDay"] is not None:
        texts.append(f"{used_today} of {budget['ItemsPerDay']} used today")
    if budget["Items"]:
        texts.append(f"only {' '.join(budget['Items'])}")
    return ", ".join(texts)
