"""The rules of a sound document, beyond the shape that its validator asks for.

Each looks at fields that have their shape, and yields what else is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from app.errors import Invalid
from app.items.domain import bag_of
from app.keys import NIL
from app.players.domain import check_name
from app.storage.schema.explain_validator import Fault
from app.types import Document
from app.users import domain as users

JOURNAL_ENTRY = {"Operation", "Key", "Answer", "Fingerprint", "At"}
ARGON2 = "$argon2id$"


class Limits(NamedTuple):
    """How many slots there are, and how high an item stacks."""

    inventory: int
    bank: int
    spells: int
    stack_of: Callable[[str], int]


Rule = Callable[[Document, Limits], Iterator[Fault]]


def keyed(name: str, key: str, derive: Callable[[str], Any]) -> Rule:
    """Demand that a field is what is derived from another."""

    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        if document[key] != derive(document[name]):
            yield Fault(key, f"is not what the {name} makes it")

    return rule


def named(document: Document, _: Limits) -> Iterator[Fault]:
    try:
        check_name(document["Name"])
    except Invalid as error:
        fault = str(error)
        yield Fault("Name", fault[0].lower() + fault[1:].rstrip("."))


def somebody(field: str) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        if document[field] == NIL:
            yield Fault(field, "is the all-zero guid, which is nobody's")

    return rule


def slots(field: str, size: Callable[[Document, Limits], int]) -> Rule:
    """Demand that slots are within the size, and hold as much as stacks and no more."""

    def rule(document: Document, limits: Limits) -> Iterator[Fault]:
        last = size(document, limits) - 1
        for number, held in document[field].items():
            where = f"{field}.{number}"
            if int(number) > last:
                yield Fault(where, f"lies beyond the last slot, {last}")
            if held["ItemId"] == NIL:
                yield Fault(where, f"holds {held['Quantity']} of no item")
            elif held["Quantity"] > (most := limits.stack_of(held["ItemId"])):
                yield Fault(where, f"holds {held['Quantity']} of an item that stacks to {most}")
            if "_id" in document and bag_of(held) == document["_id"]:
                yield Fault(where, "holds the bag that it is in")

    return rule


def spells(player: Document, limits: Limits) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for number, spell in player["Spells"].items():
        if int(number) >= limits.spells:
            yield Fault(f"Spells.{number}", f"lies beyond the last slot, {limits.spells - 1}")
        if spell == NIL:
            yield Fault(f"Spells.{number}", "is the all-zero guid, which is no spell")
        if spell in seen:
            yield Fault(f"Spells.{number}", f"is the same as in slot {seen[spell]}")
        seen.setdefault(spell, number)


def variables(player: Document, _: Limits) -> Iterator[Fault]:
    if NIL in player["Variables"]:
        yield Fault(f"Variables.{NIL}", "is the all-zero guid, which is no variable")


def worn(player: Document, _: Limits) -> Iterator[Fault]:
    if any(type(slot) is bool or not isinstance(slot, int) for slot in player["Equipment"]):
        yield Fault("Equipment", "holds something that is not a whole number")


def storable(player: Document, _: Limits) -> Iterator[Fault]:
    """Demand names of further fields that an export can carry."""
    for name in player:
        if name in ("Id", "NameParts") or name.startswith("$") or "." in name or not name:
            yield Fault(name, "is a name that no field of a player may have")


def known_fields(shape: Mapping[str, Any]) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        for name in document.keys() - shape["properties"].keys():
            yield Fault(name, "is unknown")

    return rule


def journal(document: Document, _: Limits) -> Iterator[Fault]:
    keys = []
    for number, entry in enumerate(document["Journal"]):
        # A place in the ring that no change with a key has come to yet is null.
        if entry is not None and not (isinstance(entry, dict) and entry.keys() >= JOURNAL_ENTRY):
            yield Fault(f"Journal.{number}", "is no entry of a journal")
        elif entry:
            keys.append(entry["Key"])
    if len(set(map(str, keys))) < len(keys):
        yield Fault("Journal", "holds an Idempotency-Key twice")


def addressed(user: Document, _: Limits) -> Iterator[Fault]:
    if not users.is_email(user["Email"]):
        yield Fault("Email", "is not an email address")


def hashed(user: Document, _: Limits) -> Iterator[Fault]:
    if user["PasswordHash"] is not None and not user["PasswordHash"].startswith(ARGON2):
        yield Fault("PasswordHash", "is not an argon2id hash")


def powers(user: Document, _: Limits) -> Iterator[Fault]:
    for name in user["Power"].keys() - users.NO_POWER.keys():
        yield Fault(f"Power.{name}", "is unknown")
