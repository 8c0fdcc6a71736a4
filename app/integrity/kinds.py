"""What a sound document is: what its validator asks for, and the rules of app.integrity.rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.integrity import rules
from app.integrity.rules import Limits, Rule
from app.items.domain import BAG_SHAPE, is_empty
from app.keys import email_key, name_key, name_tails
from app.players import domain as players
from app.storage.schema.explain_validator import MISSING, Fault, faults
from app.types import Document
from app.users import domain as users


class Kind(NamedTuple):
    """What the documents of a collection are held to: a shape, and rules on fields that have it."""

    shape: Mapping[str, Any]
    rules: list[tuple[tuple[str, ...], Rule]]
    slot_maps: tuple[str, ...] = ()


def findings(
    kind: Kind, document: Document, limits: Limits, is_shaped: bool = False
) -> list[Fault]:
    """Return all that is wrong with a document as far as it alone can tell."""
    found = [] if is_shaped else _misshapen(kind, document)
    sound = _without(document, found) if found else document
    for needs, rule in kind.rules:
        if all(field in sound for field in needs):
            found += rule(sound, limits)
    return found


def _misshapen(kind: Kind, document: Document) -> list[Fault]:
    empty = [f"{field}.{slot}" for field in kind.slot_maps for slot in _empty(document, field)]
    found = [Fault(where, "is an empty slot, and those are not stored") for where in empty]
    for fault in faults(kind.shape, document):
        if not any(fault.where.startswith(f"{where}.") for where in empty):
            found.append(fault)
    return found


def _empty(document: Document, field: str) -> list[str]:
    held = document.get(field)
    return [slot for slot, item in held.items() if is_empty(item)] if isinstance(held, dict) else []


def _without(document: Document, found: list[Fault]) -> Document:
    """Return a document without what has not its shape, so that rules can look at the rest."""
    sound = {name: dict(v) if isinstance(v, dict) else v for name, v in document.items()}
    for fault in found:
        field, *inner = fault.where.split(".")
        entries = sound.get(field)
        if isinstance(entries, dict) and inner and inner[0] in document[field]:
            entries.pop(inner[0], None)
        elif fault.what != MISSING:
            sound.pop(field, None)
    return sound


_NAMED: list[tuple[tuple[str, ...], Rule]] = [
    (("_id",), rules.somebody("_id")),
    (("Name",), rules.named),
    (("Name", "NameKey"), rules.keyed("Name", "NameKey", name_key)),
    (
        ("Name", "NameTails"),
        rules.keyed("Name", "NameTails", lambda name: name_tails(name_key(name))),
    ),
    (("Journal",), rules.journal),
]


PLAYER = Kind(
    players.SHAPE,
    [
        *_NAMED,
        (("UserId",), rules.somebody("UserId")),
        (("Inventory",), rules.slots("Inventory", lambda _, limits: limits.inventory)),
        (("Bank",), rules.slots("Bank", lambda _, limits: limits.bank)),
        (("Spells",), rules.spells),
        (("Variables",), rules.variables),
        (("Equipment",), rules.worn),
        ((), rules.storable),
    ],
    ("Inventory", "Bank"),
)
USER = Kind(
    users.SHAPE,
    [
        *_NAMED,
        (("Email",), rules.addressed),
        (("Email", "EmailKey"), rules.keyed("Email", "EmailKey", email_key)),
        (("PasswordHash",), rules.hashed),
        (("Power",), rules.powers),
        ((), rules.known_fields(users.SHAPE)),
    ],
)
BAG = Kind(
    BAG_SHAPE,
    [
        (("_id",), rules.somebody("_id")),
        (("Journal",), rules.journal),
        (("SlotCount", "Slots"), rules.slots("Slots", lambda bag, _: int(bag["SlotCount"]))),
        ((), rules.known_fields(BAG_SHAPE)),
    ],
    ("Slots",),
)
