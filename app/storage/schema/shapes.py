"""Building blocks of validators: shapes of values, in MongoDB's dialect of JSON Schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.changes import JOURNAL_LENGTH, SWAP_FIELDS
from app.types import Document

Shape = Mapping[str, Any]

GUID: Document = {"bsonType": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
INTEGER: Document = {"bsonType": ["int", "long"]}
COUNT: Document = {"bsonType": ["int", "long"], "minimum": 0}
TEXT: Document = {"bsonType": "string"}
FLAG: Document = {"bsonType": "bool"}
MOMENT: Document = {"bsonType": "date"}
ARRAY: Document = {"bsonType": "array"}
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


def changeable(
    required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Document:
    """Return the shape of a document that the compare-and-swap changes.

    Some of its fields are added by the first change. Their types are not restricted: the next
    change overwrites any value.
    """
    kept = {"Version": COUNT, "Journal": {"bsonType": "array", "maxItems": JOURNAL_LENGTH}}
    appearing: Document = {name: {} for name in SWAP_FIELDS if name not in kept}
    return object_shape({**required, **kept}, {**appearing, **(optional or {})})


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
