"""Explains why a document fails its validator; MongoDB only reports that it does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

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
}
# By class name: a pure module does not import the driver.
DRIVER_KINDS = {"ObjectId": "objectId"}
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
    name, wanted = type(value).__name__, shape.get("bsonType", ())
    # The first type that fits: a bool is an int as well.
    fitting = (kind for type_, kind in KINDS.items() if isinstance(value, type_))
    kind = next(fitting, DRIVER_KINDS.get(name, name))
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
