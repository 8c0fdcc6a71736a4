"""The player document: its fields, what is stored of it, and what is served. Pure."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from app.changes import SWAP_FIELDS, SubjectKind
from app.errors import Damaged, Invalid
from app.keys import NAME_LENGTH, NIL, is_visible, name_key, name_tails, parse_guid
from app.storage.schema.shapes import (
    ARRAY,
    COUNT,
    FLAG,
    GUID,
    INTEGER,
    MOMENT,
    MOMENT_OR_NULL,
    NAMED,
    NOTES,
    SLOT_NUMBER,
    TEXT,
    changeable,
    integers,
    map_of,
    object_shape,
)
from app.types import Document

SLOT: Document = {
    **object_shape(
        {"ItemId": GUID, "Quantity": {**COUNT, "minimum": 1, "maximum": 2**31 - 1}},
        {"BagId": GUID, "StatBuffs": integers(5)},
    ),
    "additionalProperties": False,
}
SLOTS = map_of(SLOT_NUMBER, SLOT)
VARIABLE: Document = {"bsonType": ["int", "long", "bool"]}


class Field(NamedTuple):
    """The shape of a stored field, and its default."""

    shape: Document
    default: Any


FIELDS = {
    "ClassId": Field(GUID, NIL),
    "ClassName": Field(TEXT, ""),
    "Gender": Field(INTEGER, 0),
    "Level": Field(COUNT, 1),
    "Exp": Field(COUNT, 0),
    "ExperienceToNextLevel": Field(INTEGER, 0),
    "StatPoints": Field(INTEGER, 0),
    "Vitals": Field(integers(), [0, 0]),
    "MaxVitals": Field(integers(), [0, 0]),
    "BaseStats": Field(integers(5), [0] * 5),
    "StatPointAllocations": Field(integers(5), [0] * 5),
    "Equipment": Field(ARRAY, []),
    "MapId": Field(GUID, NIL),
    "MapName": Field(TEXT, ""),
    "X": Field(INTEGER, 0),
    "Y": Field(INTEGER, 0),
    "Dir": Field(INTEGER, 0),
    "Sprite": Field(TEXT, ""),
    "Face": Field(TEXT, ""),
    "Online": Field(FLAG, False),
    "InBank": Field(FLAG, False),
    "LastOnline": Field(MOMENT_OR_NULL, None),
    "LastSeen": Field(MOMENT_OR_NULL, None),
    "PlayTimeSeconds": Field(COUNT, 0),
    "Inventory": Field(SLOTS, {}),
    "Bank": Field(SLOTS, {}),
    "Spells": Field(map_of(SLOT_NUMBER, GUID), {}),
    "Variables": Field(map_of(GUID["pattern"], VARIABLE), {}),
}
SHAPE = changeable(
    {
        **NAMED,
        "UserId": GUID,
        "CreationDate": MOMENT,
        **{name: field.shape for name, field in FIELDS.items()},
    },
    {"Notes": NOTES},
)
SUBJECT = SubjectKind("player", derived=("NameKey", "NameTails"), unquoted=("Notes",))
# Endpoints of their own serve these.
EMBEDDED = ("Inventory", "Bank", "Spells", "Variables", "Notes")
# Derived keys and bookkeeping, which are never served.
INTERNAL = ("NameKey", "NameTails", *SWAP_FIELDS)
# The projection of what is served as the record of a player: all but these.
RECORD = dict.fromkeys((*EMBEDDED, *INTERNAL), 0)


def check_name(name: str) -> None:
    """Raise Invalid for a name that could not be shown, or not be asked for in a path."""
    if not name.strip() or len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid(f"Must be 1 to {NAME_LENGTH} printable characters, not all blank.")
    if "/" in name or name in (".", ".."):
        raise Invalid("Must not be a dot, two dots, or hold a slash: no path can hold it.")
    if not is_visible(name):
        raise Invalid("Must hold a character that can be seen.")
    if parse_guid(name):
        raise Invalid("Must not look like a guid: it would be taken for an id.")


def defaults(now: datetime) -> Document:
    """Return the fields of a player of whom nothing but the name and the user is known."""
    values = {name: deepcopy(field.default) for name, field in FIELDS.items()}
    return {**values, "CreationDate": now}


def stored(record: Document, version: int = 0) -> Document:
    """Turn a complete record, embedded parts included, into a document."""
    fields = dict(record)
    key = name_key(record["Name"])
    return {
        "_id": fields.pop("Id"),
        "Name": fields.pop("Name"),
        "UserId": fields.pop("UserId"),
        **fields,
        "NameKey": key,
        "NameTails": name_tails(key),
        "Version": version,
        "Journal": [],
    }


def served(document: Document, online_since: datetime | None) -> Document:
    """Turn a document, read without its internal fields, into the record that callers see."""
    # Id comes first in the answer. It is set last, because a game may store a field named Id.
    record = {"Id": None, **document, "Online": is_online(document, online_since)}
    record["Id"] = record.pop("_id")
    return record


def with_maps(document: Document) -> Document:
    """Return a player for a reader: an embedded map that is missing or no map is empty."""
    maps = {name: document.get(name) for name in EMBEDDED}
    return {**document, **{name: m if isinstance(m, dict) else {} for name, m in maps.items()}}


def with_changeable_maps(document: Document) -> Document:
    """Return a player for a change, which must not overwrite what is no map."""
    if not all(isinstance(document.get(name), dict | None) for name in EMBEDDED):
        raise Damaged("player")
    return with_maps(document)


def is_online(document: Document, since: datetime | None) -> bool:
    """Tell whether the Online flag is fresh; a game server that died left stale ones."""
    flag = bool(document.get("Online"))
    if since is None or not flag:
        return flag
    seen = document.get("LastSeen")
    # A game may have stored something else.
    return isinstance(seen, datetime) and seen >= since
