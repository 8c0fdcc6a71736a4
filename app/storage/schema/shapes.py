"""Building blocks of validators: shapes of values, in MongoDB's dialect of JSON Schema. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from app.core.types import Document

Shape = Mapping[str, Any]

GUID: Document = {"bsonType": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
INTEGER: Document = {"bsonType": ["int", "long"]}
COUNT: Document = {"bsonType": ["int", "long"], "minimum": 0}
TEXT: Document = {"bsonType": "string"}
FLAG: Document = {"bsonType": "bool"}
MOMENT: Document = {"bsonType": "date"}
ARRAY: Document = {"bsonType": "array"}
TEXTS: Document = {"bsonType": "array", "items": TEXT}
STAMP: Document = {"bsonType": "objectId"}
TEXT_OR_NULL: Document = {"bsonType": ["string", "null"]}
MOMENT_OR_NULL: Document = {"bsonType": ["date", "null"]}
SLOT_NUMBER = "^(0|[1-9][0-9]{0,3})$"


def integers(length: int | None = None) -> Document:
    size = {} if length is None else {"minItems": length, "maxItems": length}
    return {"bsonType": "array", "items": INTEGER, **size}


def map_of(key_pattern: str, value: Shape) -> Document:
    return {
        "bsonType": "object",
        "patternProperties": {key_pattern: value},
        "additionalProperties": False,
    }


def object_shape(
    required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Document:
    """Return the shape of an object; it may have further fields, such as a game's own."""
    properties = {**required, **(optional or {})}
    return {"bsonType": "object", "required": list(required), "properties": properties}


# A worker of an older release, which nobody stopped at the upgrade, would write entries there, and
# nobody would look for them.
NO_ENTRIES: Document = {"bsonType": "array", "maxItems": 0}


def changeable(
    required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Document:
    """Return the shape of a document with a history.

    Not all have a ChangedAt, and of any type: the next change overwrites it.
    """
    shape = object_shape({**required, "Version": COUNT}, {"ChangedAt": {}, **(optional or {})})
    return {**shape, "patternProperties": {"^Journal$": NO_ENTRIES}}


# Notes of staff about a player or a user, by note id (app/notes).
NOTES = map_of(
    GUID["pattern"],
    {
        **object_shape(
            {"At": MOMENT, "UserId": GUID, "Name": TEXT, "Text": TEXT}, {"IsHidden": FLAG}
        ),
        "additionalProperties": False,
    },
)
# The fields of a document that can be found by name.
NAMED: Document = {"_id": GUID, "Name": TEXT, "NameKey": TEXT, "NameTails": ARRAY}

# By BSON type, what is read instead of a value of another type. Numbers and flags are read as they
# are stored.
EMPTY: Document = {
    "string": "",
    "array": [],
    "object": {},
    "date": datetime.fromtimestamp(0, timezone.utc),
}


def readable(stored: Any, shape: Shape, fields: Iterable[str] | None = None) -> Any:
    """Return a stored value as its shape describes it, whatever is stored.

    Documents of before their validator, and those that were written past it, may break it. What
    breaks it is read as empty; items of a list and values of a map are left out. With fields, only
    these of the required ones are added where they are missing.
    """
    types = shape.get("bsonType", "")
    first, may_be_null = (types, False) if isinstance(types, str) else (types[0], "null" in types)
    if first not in EMPTY or (stored is None and may_be_null):
        return stored
    empty = EMPTY[first]
    if not isinstance(stored, type(empty)):
        # An object without its parts allows nothing; that there is none might allow everything.
        stored = None if may_be_null and first != "object" else empty
    if isinstance(stored, list):
        return [item for item in stored if _is_whole(item, shape.get("items", {}))]
    if not isinstance(stored, dict):
        return stored
    required = set(shape.get("required", ()))
    if fields is not None:
        required.intersection_update(fields)
    parts = shape.get("properties", {})
    found = stored | {
        name: readable(stored.get(name), part)
        for name, part in parts.items()
        if name in stored or name in required
    }
    for pattern, part in shape.get("patternProperties", {}).items():
        for name in stored:
            if re.search(pattern, name) and not _is_whole(stored[name], part):
                del found[name]
    return found


def _is_whole(stored: Any, shape: Shape) -> bool:
    return bool(readable(stored, shape) == stored)
