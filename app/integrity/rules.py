"""The rules for valid documents that a JSON schema cannot express.

Each rule reads fields whose shape is valid, and yields the faults of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from app.errors import Invalid
from app.items.domain import bag_of
from app.naming import NAME_LENGTH, NIL
from app.notes.domain import MOST_NOTES
from app.notes.schemas import LONGEST_NOTE
from app.objects import domain as objects
from app.players.domain import check_name
from app.storage.history_entries import is_entry
from app.storage.schema.explain_validator import Fault
from app.types import Document
from app.users import domain as users
from app.variables.domain import GLOBAL, is_global_value

ARGON2_PREFIX = "$argon2id$"


class Limits(NamedTuple):
    """The sizes of slot maps, and the stack limit of each item."""

    inventory: int
    bank: int
    spells: int
    stack_limit: Callable[[str], int]


Rule = Callable[[Document, Limits], Iterator[Fault]]


def derived(source: str, field: str, derive: Callable[[str], Any]) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        if document[field] != derive(document[source]):
            yield Fault(field, f"does not match the {source}")

    return rule


def valid_name(document: Document, _: Limits) -> Iterator[Fault]:
    try:
        check_name(document["Name"])
    except Invalid as error:
        sentence = str(error)
        yield Fault("Name", sentence[0].lower() + sentence[1:].rstrip("."))


def not_nil(field: str) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        if document[field] == NIL:
            yield Fault(field, "is the all-zero guid")

    return rule


def slots(field: str, size: Callable[[Document, Limits], int]) -> Rule:
    def rule(document: Document, limits: Limits) -> Iterator[Fault]:
        last = size(document, limits) - 1
        for number, slot in document[field].items():
            where = f"{field}.{number}"
            if int(number) > last:
                yield Fault(where, f"is beyond the last slot, {last}")
            if slot["ItemId"] == NIL:
                yield Fault(where, f"holds {slot['Quantity']} of no item")
            elif slot["Quantity"] > (limit := limits.stack_limit(slot["ItemId"])):
                yield Fault(where, f"holds {slot['Quantity']} of an item that stacks to {limit}")
            if "_id" in document and bag_of(slot) == document["_id"]:
                yield Fault(where, "contains its own bag")

    return rule


def spells(player: Document, limits: Limits) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for number, spell in player["Spells"].items():
        if int(number) >= limits.spells:
            yield Fault(f"Spells.{number}", f"is beyond the last slot, {limits.spells - 1}")
        if spell == NIL:
            yield Fault(f"Spells.{number}", "is the all-zero guid")
        if spell in seen:
            yield Fault(f"Spells.{number}", f"is the same as in slot {seen[spell]}")
        seen.setdefault(spell, number)


def variables(player: Document, _: Limits) -> Iterator[Fault]:
    if NIL in player["Variables"]:
        yield Fault(f"Variables.{NIL}", "is the all-zero guid")


def notes(document: Document, _: Limits) -> Iterator[Fault]:
    """Check that an import can read the notes."""
    if len(document["Notes"]) > MOST_NOTES:
        yield Fault("Notes", f"holds more than {MOST_NOTES} notes")
    for id_, note in document["Notes"].items():
        if NIL in (id_, note["UserId"]):
            yield Fault(f"Notes.{id_}", "has the all-zero guid")
        if len(note["Text"]) > LONGEST_NOTE:
            yield Fault(f"Notes.{id_}", f"is longer than {LONGEST_NOTE} characters")


def equipment(player: Document, _: Limits) -> Iterator[Fault]:
    if any(type(item) is bool or not isinstance(item, int) for item in player["Equipment"]):
        yield Fault("Equipment", "holds something that is not a whole number")


def object_fields(found: Document, _: Limits) -> Iterator[Fault]:
    """Check the fields that this program reads, as an import does."""
    if found["Type"] == "item" and not objects.is_stack_limit(found.get("StackLimit")):
        yield Fault("StackLimit", "is not a number of 1 or more")
    value = found.get("Value", 0)
    if found["Type"] == GLOBAL and not is_global_value(value):
        yield Fault("Value", "is neither a whole number nor true or false")


def object_name(found: Document, _: Limits) -> Iterator[Fault]:
    if len(found["Name"]) > NAME_LENGTH or not found["Name"].isprintable():
        yield Fault("Name", f"is more than {NAME_LENGTH} characters, or not printable")


def exportable_field_names(player: Document, _: Limits) -> Iterator[Fault]:
    """Check that an export can write all field names, and an import can read them."""
    for name in player:
        if name in ("Id", "NameParts") or name.startswith("$") or "." in name or not name:
            yield Fault(name, "is not allowed as a field name")


def known_fields(shape: Mapping[str, Any]) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        for name in document.keys() - shape["properties"].keys():
            yield Fault(name, "is unknown")

    return rule


def journal(document: Document, _: Limits) -> Iterator[Fault]:
    keys = []
    for number, entry in enumerate(document["Journal"]):
        if not is_entry(entry):
            yield Fault(f"Journal.{number}", "is not a journal entry")
        elif "IdempotencyKey" in entry:
            keys.append(entry["IdempotencyKey"])
    if len(set(keys)) < len(keys):
        yield Fault("Journal", "holds an Idempotency-Key twice")


def valid_email(user: Document, _: Limits) -> Iterator[Fault]:
    if not users.is_email(user["Email"]):
        yield Fault("Email", "is not an email address")


def argon2_hash(user: Document, _: Limits) -> Iterator[Fault]:
    if user["PasswordHash"] is not None and not user["PasswordHash"].startswith(ARGON2_PREFIX):
        yield Fault("PasswordHash", "is not an argon2id hash")


def known_powers(user: Document, _: Limits) -> Iterator[Fault]:
    for name in user["Power"].keys() - users.NO_POWER.keys():
        yield Fault(f"Power.{name}", "is unknown")
