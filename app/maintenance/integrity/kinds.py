"""What makes the documents of a collection valid, and repairs that need no guessing.

The shape is the collection's validator. A user, a player, a bag or an object must also have the
lookup keys of its name, and be a record that an import accepts. In a repair, lookup keys are
computed again, missing fields whose default is empty get it, and empty slots are removed. Nothing
else changes: no item is ever lost or created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from app.core.errors import Invalid
from app.core.naming import email_key, name_key, name_tails
from app.core.types import Document
from app.database import COLLECTIONS
from app.http.json import encode
from app.maintenance.transfer.validate import parse_line
from app.players.items.domain import bag_of, is_empty
from app.players.items.store import HOLDERS
from app.players.records import Record
from app.storage.schema import explain_validator
from app.storage.schema.explain_validator import Fault

SHAPES = {plan.name: plan.shape for plan in COLLECTIONS}
# Fields that are derived from others.
DERIVED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "NameKey": ("Name", name_key),
    "NameTails": ("Name", lambda name: name_tails(name_key(name))),
    "EmailKey": ("Email", email_key),
}
# By collection, the defaults that readers assume for missing fields.
IF_MISSING: dict[str, Document] = {
    "users": {"PasswordHash": None, "MuteReason": None, "Reset": None},
    "players": {
        **{"Inventory": {}, "Bank": {}, "Spells": {}, "Variables": {}},
        **{"Online": False, "LastOnline": None, "LastSeen": None},
    },
    "bags": {"Slots": {}},
}


class Reference(NamedTuple):
    """A field that contains the id of another document."""

    collection: str
    id: str
    where: str


def references(name: str, document: Document) -> Iterator[Reference]:
    """Yield the references of a document: to its owner, and to the bags in its slots."""
    if name == "players" and isinstance(document.get("UserId"), str):
        yield Reference("users", document["UserId"], "UserId")
    for field in HOLDERS.get(name, ()):
        slots = document.get(field)
        for number, slot in slots.items() if isinstance(slots, dict) else ():
            if isinstance(slot, dict) and isinstance(bag := bag_of(slot), str):
                yield Reference("bags", bag, f"{field}.{number}")


def faults(name: str, document: Document, record: Record | None) -> list[Fault]:
    """Return the faults that are visible without reading other documents.

    Only a document with a valid shape is checked as a record.
    """
    found = list(explain_validator.faults(SHAPES[name], document))
    if record and not found:
        found = [*_wrong_keys(document), *_import_faults(record, document)]
    return found


def _wrong_keys(document: Document) -> Iterator[Fault]:
    for field, (source, derive) in DERIVED.items():
        if field in document and document[field] != derive(document[source]):
            yield Fault(field, f"does not match the {source}")


def _import_faults(record: Record, document: Document) -> Iterator[Fault]:
    """Yield why an import would refuse what an export writes."""
    try:
        parse_line(encode(record.record(document)), record)
    except Invalid as error:
        for field, messages in (error.fields or {"": [str(error)]}).items():
            yield Fault(field, messages[0][:1].lower() + messages[0][1:].rstrip("."))


def repair_document(name: str, document: Document) -> Document:
    """Return a repaired copy of a document."""
    after = {**IF_MISSING.get(name, {}), **document}
    for field, (source, derive) in DERIVED.items():
        if field in SHAPES[name]["properties"] and isinstance(after.get(source), str):
            after[field] = derive(after[source])
    for field in HOLDERS.get(name, ()):
        if isinstance(slots := after.get(field), dict):
            after[field] = {n: slot for n, slot in slots.items() if not is_empty(slot)}
    return after
