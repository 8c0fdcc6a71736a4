"""Explains why a document fails its validator, and reads it as the validator describes it.

MongoDB only reports that it fails. Documents of before their validator, and those that were written
past it, are stored nevertheless.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from bson import ObjectId

from app.core.types import whole

Shape = Mapping[str, Any]

# MongoDB's names for the Python types.
KINDS: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "double",
    type(None): "null",
    datetime: "date",
    dict: "object",
    list: "array",
    ObjectId: "objectId",
}
WORDS = {
    "string": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "null": "null",
    "double": "a fraction",
    "date": "a time",
    "objectId": "an ObjectId",
    "object": "a map",
    "array": "a list",
}
MISSING = "is missing"


class Fault(NamedTuple):
    """A path in a document, and what is wrong there."""

    where: str
    what: str


def faults(shape: Shape, value: Any, where: str = "") -> Iterator[Fault]:
    """Yield the faults of a value."""
    wanted = shape.get("bsonType", ())
    # The first type that fits: a bool is an int as well.
    fitting = (kind for type_, kind in KINDS.items() if isinstance(value, type_))
    kind = next(fitting, type(value).__name__)
    # int and long are not distinguished.
    kinds = [wanted] if isinstance(wanted, str) else [name for name in wanted if name != "long"]
    if kinds and kind not in kinds:
        wanted_words = " or ".join(WORDS[name] for name in kinds)
        yield Fault(where, f"is {WORDS.get(kind, kind)}, not {wanted_words}")
    elif kind == "object":
        yield from _in_map(shape, value, f"{where}." if where else "")
    elif kind == "array":
        least, most = shape.get("minItems", 0), shape.get("maxItems", len(value))
        if not least <= len(value) <= most:
            yield Fault(where, f"has {len(value)} entries, not {least} to {most}")
        for number, inner in enumerate(value):
            yield from faults(shape.get("items", {}), inner, f"{where}.{number}")
    elif kind == "string":
        if "pattern" in shape and not re.search(shape["pattern"], value):
            yield Fault(where, "is not a lower-case guid")
    elif value is not None:
        if "minimum" in shape and value < shape["minimum"]:
            yield Fault(where, f"is below {shape['minimum']}")
        if "maximum" in shape and value > shape["maximum"]:
            yield Fault(where, f"is above {shape['maximum']}")


def _in_map(shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[Fault]:
    for name in shape.get("required", ()):
        if name not in value:
            yield Fault(path + name, MISSING)
    properties, patterns = shape.get("properties", {}), shape.get("patternProperties", {})
    is_closed = shape.get("additionalProperties") is False
    for name, inner in value.items():
        fitting = (known for pattern, known in patterns.items() if re.search(pattern, name))
        known = properties.get(name) or next(fitting, None)
        if known is not None:
            yield from faults(known, inner, path + name)
        elif is_closed:
            yield Fault(path + name, "is not allowed there")


# A larger number cannot result from counting, and would soon overflow an int64.
LARGEST_COUNT = 2**62
# By MongoDB's name of a type, what is read instead of a value of another type.
EMPTY: dict[str, Any] = {
    "string": "",
    "int": 0,
    "array": [],
    "object": {},
    "date": datetime.fromtimestamp(0, timezone.utc),
}


def readable(shape: Shape, value: Any, fields: Iterable[str] | None = None) -> Any:
    """Return a value as its shape describes it, whatever is stored.

    What is of another type is read as empty, and a count as higher than all before; items of a list
    and values of a map are left out. Flags are read as they are stored. With fields, only these of
    the required ones are added where they are missing.
    """
    types = shape.get("bsonType", "")
    first, may_be_null = (types, False) if isinstance(types, str) else (types[0], "null" in types)
    if first not in EMPTY or (value is None and may_be_null):
        return value
    if first == "int":
        number = whole(value)
        if "minimum" in shape and (number is None or not 0 <= number < LARGEST_COUNT):
            return time.time_ns()
        return number or 0
    if not isinstance(value, type(EMPTY[first])):
        # An object without its parts allows nothing; that there is none might allow everything.
        value = None if may_be_null and first != "object" else EMPTY[first]
    if isinstance(value, list):
        return [item for item in value if not any(faults(shape.get("items", {}), item))]
    if not isinstance(value, dict):
        return value
    required = set(shape.get("required", ()))
    if fields is not None:
        required.intersection_update(fields)
    found = dict(value)
    for name, part in shape.get("properties", {}).items():
        if name in value or name in required:
            found[name] = readable(part, value.get(name))
    patterns = shape.get("patternProperties", {})
    is_closed = shape.get("additionalProperties") is False
    others = value.keys() - shape.get("properties", {}).keys() if patterns or is_closed else ()
    for name in others:
        fitting = [part for pattern, part in patterns.items() if re.search(pattern, name)]
        if (is_closed and not fitting) or any(
            fault for part in fitting for fault in faults(part, value[name])
        ):
            del found[name]
    return found
