"""The objects of a game's catalogue: items, spells, maps and so on. Pure.

An object is what the game says of it: all of its fields are kept and served.
"""

from __future__ import annotations

import math
from typing import Any

from app.changes import SWAP_FIELDS, SubjectKind
from app.errors import Conflict, NotFound
from app.naming import name_fields
from app.storage.schema.shapes import NAMED, changeable
from app.types import Document

TYPES = (
    "animation",
    "class",
    "item",
    "npc",
    "projectile",
    "quest",
    "resource",
    "shop",
    "spell",
    "crafttables",
    "crafts",
    "map",
    "event",
    "playervariable",
    "servervariable",
    "tileset",
)
# The game's clock: an object of a type of its own, of which there is one at most.
TIME = "time"
SHAPE = changeable({**NAMED, "Type": {"enum": [*TYPES, TIME]}})
SUBJECT = SubjectKind("object", derived=("NameKey", "NameTails"))
# Derived keys and bookkeeping, which are never served.
INTERNAL = ("NameKey", "NameTails", *SWAP_FIELDS)
# The projection of what is served.
RECORD = dict.fromkeys(INTERNAL, 0)


class UnknownType(NotFound):
    def __init__(self, name: str) -> None:
        types = ", ".join(TYPES)
        message = f"There is no object type '{name}'; the types are {types}."
        super().__init__("object type", name, message)


class NoTime(NotFound):
    def __init__(self) -> None:
        super().__init__(TIME, "", "The catalogue holds no time object.")


class NotInCatalogue(Conflict):
    """Something is given that the catalogue does not hold: a typing error, most likely."""

    def __init__(self, type_: str, id_: str) -> None:
        super().__init__(f"The catalogue holds no {type_} with the id '{id_}'.")
        self.type, self.id = type_, id_


def parse_type(text: str) -> str:
    """Return the type of a name, in any case, or raise UnknownType."""
    if text.lower() not in TYPES:
        raise UnknownType(text)
    return text.lower()


def is_stack_limit(value: Any) -> bool:
    """Tell whether a value is a stack limit, or null, which is none. Many languages store 20.0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and 1 <= value < math.inf)


def object_document(record: Document, version: int = 0) -> Document:
    fields = dict(record)
    return {
        "_id": fields.pop("Id"),
        "Type": fields.pop("Type"),
        "Name": fields.pop("Name"),
        **fields,
        **name_fields(record["Name"]),
        "Version": version,
        "Journal": [],
    }


def public_object(document: Document) -> Document:
    """Turn a document, read without its internal fields, into the record that callers see."""
    # Id comes first in the answer. It is set last, because a game may store a field named Id.
    record = {"Id": None, **document}
    record["Id"] = record.pop("_id")
    return record


def entry(record: Document) -> Document:
    """Return a record as an entry of the former envelope."""
    return {"Key": record["Id"], "Value": record}
