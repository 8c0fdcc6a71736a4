"""Building blocks of validators: shapes of values, in MongoDB's dialect of JSON Schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
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
OBJECT: Document = {"bsonType": "object"}
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
