"""The objects of a game's catalogue: items, spells, maps and so on. Pure.

The game defines the fields of an object: all of them are stored and served.
"""

from __future__ import annotations

import math
from typing import Any

from app.core.changes import SubjectKind
from app.core.errors import Conflict, NotFound
from app.core.types import Document
from app.storage.schema.shapes import NAMED, changeable

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
    "uservariable",
    "guildvariable",
    "tileset",
)
# The game's clock: a separate type with at most one object.
TIME = "time"
SHAPE = changeable({**NAMED, "Type": {"enum": [*TYPES, TIME]}})
SUBJECT = SubjectKind("object", derived=("NameKey", "NameTails"))
# Derived keys and bookkeeping, which are never served.
INTERNAL = SUBJECT.unrecorded
# The projection of the served fields.
RECORD = dict.fromkeys(INTERNAL, 0)


class UnknownType(NotFound):
    """There is no such type of objects; the message lists them."""

    def __init__(self, name: str) -> None:
        types = ", ".join(TYPES)
        message = f"There is no object type '{name}'; the types are {types}."
        super().__init__("object type", name, message)


class NoTime(NotFound):
    """The catalogue holds no object of the type time."""

    code = "NOT_FOUND"

    def __init__(self) -> None:
        super().__init__(TIME, "", "The catalogue holds no time object.")


class NotInCatalogue(Conflict):
    """The catalogue lacks the object that is to be given: probably a typing error."""

    sentence = "The catalogue holds no {type} with the id '{id}'."
    type: str


def parse_type(text: str) -> str:
    """Return the type with a name, case-insensitively, or raise UnknownType."""
    if text.lower() not in TYPES:
        raise UnknownType(text)
    return text.lower()


def is_stack_limit(value: Any) -> bool:
    """Tell whether a value is a stack limit, or null for none; 20.0 is valid, too."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and 1 <= value < math.inf)


def public_object(document: Document) -> Document:
    """Turn a document, read without its internal fields, into the public record."""
    # Id comes first in the answer. It is set last, because a game may store a field named Id.
    record = {"Id": None, **document}
    record["Id"] = record.pop("_id")
    return record


def entry(record: Document) -> Document:
    """Return a record as an entry of the former envelope."""
    return {"Key": record["Id"], "Value": record}
