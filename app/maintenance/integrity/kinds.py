"""What makes the documents of a collection valid, and repairs that need no guessing.

The shape is the collection's validator; rules yield the faults that a shape cannot express, in
fields whose shape is valid. In a repair, derived fields are computed again, missing fields get the
default that readers assume, and empty slots are removed. Nothing else changes: no item is ever lost
or created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.catalogue import domain as objects
from app.core.errors import Invalid
from app.core.naming import NAME_LENGTH, NIL, email_key, name_key, name_tails
from app.core.types import Document
from app.database import COLLECTIONS
from app.players import domain as players
from app.players.guilds import domain as guilds
from app.players.items.domain import BAG_SHAPE, LARGEST_BAG, bag_of, is_empty
from app.players.variables.domain import GLOBAL, is_global_value
from app.storage.schema.explain_validator import MISSING, Fault, faults
from app.users import domain as users
from app.users.notes.domain import MOST_NOTES
from app.users.notes.schemas import LONGEST_NOTE

ARGON2_PREFIX = "$argon2id$"
# Fields that are derived from others.
DERIVED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "NameKey": ("Name", name_key),
    "NameTails": ("Name", lambda name: name_tails(name_key(name))),
    "EmailKey": ("Email", email_key),
}

# PasswordVersion: without one, it is unknown which tokens are valid, and a new one revokes all.
COUNTS = ("Version", "PasswordVersion")


class Limits(NamedTuple):
    """The sizes of slot maps, and the stack limit of each item."""

    inventory: int
    bank: int
    spells: int
    stack_limit: Callable[[str], int]


Rule = Callable[[Document, Limits], Iterator[Fault]]


class Reference(NamedTuple):
    """A field that contains the id of another document."""

    collection: str
    id: str
    where: str


class Kind(NamedTuple):
    """How the documents of a collection are checked and repaired."""

    shape: Mapping[str, Any]
    rules: Sequence[Rule] = ()
    slot_maps: tuple[str, ...] = ()
    # The defaults that readers assume for missing fields.
    if_missing: Document = {}
    has_owner: bool = False

    def references(self, document: Document) -> Iterator[Reference]:
        """Yield the references of a document: to its owner, and to the bags in its slots."""
        if self.has_owner and isinstance(document.get("UserId"), str):
            yield Reference("users", document["UserId"], "UserId")
        for field in self.slot_maps:
            slots = document.get(field)
            for number, slot in slots.items() if isinstance(slots, dict) else ():
                if isinstance(slot, dict) and isinstance(bag := bag_of(slot), str):
                    yield Reference("bags", bag, f"{field}.{number}")

    def faults(
        self, document: Document, limits: Limits, is_shape_valid: bool = False
    ) -> list[Fault]:
        """Return the faults that are visible without reading other documents."""
        found = [] if is_shape_valid else self._shape_faults(document)
        valid = _without_faults(document, found) if found else document
        return [*found, *(fault for rule in self.rules for fault in rule(valid, limits))]

    def _shape_faults(self, document: Document) -> list[Fault]:
        maps = {name: document.get(name) for name in self.slot_maps}
        empty = [
            f"{name}.{number}"
            for name, slots in maps.items()
            for number, slot in (slots.items() if isinstance(slots, dict) else ())
            if is_empty(slot)
        ]
        within = tuple(f"{where}." for where in empty)
        found = [Fault(where, "is an empty slot, which must not be stored") for where in empty]
        return [
            *found,
            *(f for f in faults(self.shape, document) if not f.where.startswith(within)),
        ]

    def repaired(self, document: Document, version: int) -> Document:
        """Return a repaired copy; no document had this version before."""
        known = self.shape["properties"]
        after = {**self.if_missing, **document}
        for name in COUNTS:
            if name in known and not _is_count(after.get(name)):
                after[name] = version
        for name, (source, derive) in DERIVED.items():
            if name in known and isinstance(after.get(source), str):
                after[name] = derive(after[source])
        for name in self.slot_maps:
            if isinstance(slots := after[name], dict):
                filled = {number: slot for number, slot in slots.items() if not is_empty(slot)}
                after[name] = {number: _without_nulls(slot) for number, slot in filled.items()}
        if self is USER and isinstance(after.get("Power"), dict):
            after["Power"] = {**users.NO_POWER, **after["Power"]}
        return after


def _without_faults(document: Document, found: list[Fault]) -> Document:
    """Drop the fields that violate the shape, so that the rules can check the rest."""
    valid = {name: dict(v) if isinstance(v, dict) else v for name, v in document.items()}
    for fault in found:
        field, *inner = fault.where.split(".")
        entries = valid.get(field)
        if isinstance(entries, dict) and inner and inner[0] in document[field]:
            entries.pop(inner[0], None)
        elif fault.what != MISSING:
            valid.pop(field, None)
    return valid


def _is_count(value: Any) -> bool:
    # bool is a subclass of int.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _without_nulls(slot: Any) -> Any:
    """Drop optional fields that are null: the validator requires them to be absent."""
    if not isinstance(slot, dict):
        return slot
    return {n: v for n, v in slot.items() if v is not None or n not in ("BagId", "StatBuffs")}


def derived(document: Document, _: Limits) -> Iterator[Fault]:
    for field, (source, derive) in DERIVED.items():
        if field in document and source in document and document[field] != derive(document[source]):
            yield Fault(field, f"does not match the {source}")


def valid_name(document: Document, _: Limits) -> Iterator[Fault]:
    try:
        players.check_name(document.get("Name", "-"))
    except Invalid as error:
        sentence = str(error)
        yield Fault("Name", sentence[0].lower() + sentence[1:].rstrip("."))


def not_nil(document: Document, _: Limits) -> Iterator[Fault]:
    for field in ("_id", "UserId"):
        if document.get(field) == NIL:
            yield Fault(field, "is the all-zero guid")


def slots(*fields: str) -> Rule:
    def rule(document: Document, limits: Limits) -> Iterator[Fault]:
        size: int = document.get("SlotCount", LARGEST_BAG)
        sizes = {"Inventory": limits.inventory, "Bank": limits.bank, "Slots": size}
        for field in fields:
            last = sizes[field] - 1
            for number, slot in document.get(field, {}).items():
                where, quantity = f"{field}.{number}", slot["Quantity"]
                if int(number) > last:
                    yield Fault(where, f"is beyond the last slot, {last}")
                if slot["ItemId"] == NIL:
                    yield Fault(where, f"holds {quantity} of no item")
                elif quantity > (limit := limits.stack_limit(slot["ItemId"])):
                    yield Fault(where, f"holds {quantity} of an item that stacks to {limit}")
                if "_id" in document and bag_of(slot) == document["_id"]:
                    yield Fault(where, "contains its own bag")

    return rule


def spells(player: Document, limits: Limits) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for number, spell in player.get("Spells", {}).items():
        if int(number) >= limits.spells:
            yield Fault(f"Spells.{number}", f"is beyond the last slot, {limits.spells - 1}")
        if spell == NIL:
            yield Fault(f"Spells.{number}", "is the all-zero guid")
        if spell in seen:
            yield Fault(f"Spells.{number}", f"is the same as in slot {seen[spell]}")
        seen.setdefault(spell, number)


def variables(player: Document, _: Limits) -> Iterator[Fault]:
    if NIL in player.get("Variables", ()):
        yield Fault(f"Variables.{NIL}", "is the all-zero guid")


def notes(document: Document, _: Limits) -> Iterator[Fault]:
    """Check that an import can read the notes."""
    found = document.get("Notes", {})
    if len(found) > MOST_NOTES:
        yield Fault("Notes", f"holds more than {MOST_NOTES} notes")
    for id_, note in found.items():
        if NIL in (id_, note["UserId"]):
            yield Fault(f"Notes.{id_}", "has the all-zero guid")
        if len(note["Text"]) > LONGEST_NOTE:
            yield Fault(f"Notes.{id_}", f"is longer than {LONGEST_NOTE} characters")


def equipment(player: Document, _: Limits) -> Iterator[Fault]:
    if any(isinstance(i, bool) or not isinstance(i, int) for i in player.get("Equipment", ())):
        yield Fault("Equipment", "holds something that is not a whole number")


def object_fields(found: Document, _: Limits) -> Iterator[Fault]:
    """Check the fields that this program reads, as an import does."""
    kind, name, value = found.get("Type"), found.get("Name", ""), found.get("Value", 0)
    if len(name) > NAME_LENGTH or not name.isprintable():
        yield Fault("Name", f"is more than {NAME_LENGTH} characters, or not printable")
    if kind == "item" and not objects.is_stack_limit(found.get("StackLimit")):
        yield Fault("StackLimit", "is not a number of 1 or more")
    if kind == GLOBAL and not is_global_value(value):
        yield Fault("Value", "is neither a whole number nor true or false")


def exportable_field_names(document: Document, _: Limits) -> Iterator[Fault]:
    """Check that an export can write all field names, and an import can read them."""
    for name in document:
        if name in ("Id", "NameParts") or name.startswith("$") or "." in name or not name:
            yield Fault(name, "is not allowed as a field name")


def known_fields(shape: Mapping[str, Any]) -> Rule:
    def rule(document: Document, _: Limits) -> Iterator[Fault]:
        for name in document.keys() - shape["properties"].keys():
            yield Fault(name, "is unknown")

    return rule


def account(user: Document, _: Limits) -> Iterator[Fault]:
    if "Email" in user and not users.is_email(user["Email"]):
        yield Fault("Email", "is not an email address")
    password_hash = user.get("PasswordHash")
    if password_hash is not None and not password_hash.startswith(ARGON2_PREFIX):
        yield Fault("PasswordHash", "is not an argon2id hash")
    for name in user.get("Power", {}).keys() - users.NO_POWER.keys():
        yield Fault(f"Power.{name}", "is unknown")


NAMED = (not_nil, derived, valid_name, notes)
PLAYER = Kind(
    players.SHAPE,
    (
        *NAMED,
        slots("Inventory", "Bank"),
        spells,
        variables,
        equipment,
        exportable_field_names,
    ),
    ("Inventory", "Bank"),
    {
        **{"Inventory": {}, "Bank": {}, "Spells": {}, "Variables": {}},
        **{"Online": False, "LastOnline": None, "LastSeen": None},
    },
    has_owner=True,
)
USER = Kind(
    users.SHAPE,
    (*NAMED, account, known_fields(users.SHAPE)),
    if_missing={"PasswordHash": None, "MuteReason": None, "Reset": None},
)
BAG = Kind(
    BAG_SHAPE,
    (not_nil, slots("Slots"), known_fields(BAG_SHAPE)),
    ("Slots",),
    {"Slots": {}},
)
OBJECT = Kind(
    objects.SHAPE,
    (not_nil, derived, object_fields, exportable_field_names),
)
# By collection. For most, only the shape is checked.
KINDS = {
    **{plan.name: Kind(plan.shape) for plan in COLLECTIONS},
    "users": USER,
    "players": PLAYER,
    "objects": OBJECT,
    "bags": BAG,
    "guilds": Kind(guilds.SHAPE, slot_maps=("Bank",)),
}
