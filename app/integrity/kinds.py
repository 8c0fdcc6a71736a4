"""What makes a document valid: the shape in its validator, and the rules in app.integrity.rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.database import COLLECTIONS
from app.guilds import domain as guilds
from app.integrity import repairs, rules
from app.integrity.repairs import Repair
from app.integrity.rules import Limits, Rule
from app.items.domain import BAG_SHAPE, bag_of, is_empty
from app.naming import email_key, name_key, name_tails
from app.objects import domain as objects
from app.players import domain as players
from app.storage.schema.explain_validator import MISSING, Fault, faults
from app.types import Document
from app.users import domain as users


class Reference(NamedTuple):
    """A field that contains the id of another document."""

    collection: str
    id: str
    where: str


class Kind(NamedTuple):
    """How the documents of a collection are checked and repaired."""

    shape: Mapping[str, Any]
    # Each rule with the fields that it reads.
    rules: list[tuple[tuple[str, ...], Rule]] = []
    repair: Repair = lambda document, _: document
    slot_maps: tuple[str, ...] = ()
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


def document_faults(
    kind: Kind, document: Document, limits: Limits, is_shape_valid: bool = False
) -> list[Fault]:
    """Return the faults that are visible without reading other documents."""
    found = [] if is_shape_valid else _shape_faults(kind, document)
    valid = _without_faults(document, found) if found else document
    for needs, rule in kind.rules:
        if all(field in valid for field in needs):
            found += rule(valid, limits)
    return found


def _shape_faults(kind: Kind, document: Document) -> list[Fault]:
    maps = {name: document.get(name) for name in kind.slot_maps}
    empty = [
        f"{name}.{number}"
        for name, slots in maps.items()
        for number, slot in (slots.items() if isinstance(slots, dict) else ())
        if is_empty(slot)
    ]
    within = tuple(f"{where}." for where in empty)
    found = [Fault(where, "is an empty slot, which must not be stored") for where in empty]
    found += [f for f in faults(kind.shape, document) if not f.where.startswith(within)]
    return found


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


_KEYED: list[tuple[tuple[str, ...], Rule]] = [
    (("_id",), rules.not_nil("_id")),
    (("Name", "NameKey"), rules.derived("Name", "NameKey", name_key)),
    (
        ("Name", "NameTails"),
        rules.derived("Name", "NameTails", lambda name: name_tails(name_key(name))),
    ),
    (("Journal",), rules.journal),
]
_NAMED = [*_KEYED, (("Name",), rules.valid_name)]
_NOTED = [*_NAMED, (("Notes",), rules.notes)]


PLAYER = Kind(
    players.SHAPE,
    [
        *_NOTED,
        (("UserId",), rules.not_nil("UserId")),
        (("Inventory",), rules.slots("Inventory", lambda _, limits: limits.inventory)),
        (("Bank",), rules.slots("Bank", lambda _, limits: limits.bank)),
        (("Spells",), rules.spells),
        (("Variables",), rules.variables),
        (("Equipment",), rules.equipment),
        ((), rules.exportable_field_names),
    ],
    repairs.repair_player,
    ("Inventory", "Bank"),
    has_owner=True,
)
USER = Kind(
    users.SHAPE,
    [
        *_NOTED,
        (("Email",), rules.valid_email),
        (("Email", "EmailKey"), rules.derived("Email", "EmailKey", email_key)),
        (("PasswordHash",), rules.argon2_hash),
        (("Power",), rules.known_powers),
        ((), rules.known_fields(users.SHAPE)),
    ],
    repairs.repair_user,
)
BAG = Kind(
    BAG_SHAPE,
    [
        (("_id",), rules.not_nil("_id")),
        (("Journal",), rules.journal),
        (("SlotCount", "Slots"), rules.slots("Slots", lambda bag, _: int(bag["SlotCount"]))),
        ((), rules.known_fields(BAG_SHAPE)),
    ],
    repairs.repair_bag,
    ("Slots",),
)
OBJECT = Kind(
    objects.SHAPE,
    [
        *_KEYED,
        (("Name",), rules.object_name),
        (("Type",), rules.object_fields),
        ((), rules.exportable_field_names),
    ],
    repairs.repair_object,
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
