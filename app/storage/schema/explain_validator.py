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
    kind, wanted = kind_of(value), shape.get("bsonType", ())
    # int and long are not distinguished.
    kinds = [wanted] if isinstance(wanted, str) else [name for name in wanted if name != "long"]
    if kinds and kind not in kinds:
        wanted_words = " or ".join(WORDS[name] for name in kinds)
        yield Fault(where, f"is {WORDS.get(kind, kind)}, not {wanted_words}")
    elif kind == "object":
        yield from _in_map(shape, value, f"{where}." if where else "")
    elif kind == "array":
        yield from _in_list(shape, value, where)
    elif kind == "string":
        if "pattern" in shape and not re.search(shape["pattern"], value):
            yield Fault(where, "is not a lower-case guid")
    elif value is not None:
        yield from _in_range(shape, value, where)


def kind_of(value: Any) -> str:
    """Return MongoDB's name for a value's type; for other types, the name of the class."""
    name = type(value).__name__
    # The first type that fits: a bool is an int as well.
    found = (kind for type_, kind in KINDS.items() if isinstance(value, type_))
    return next(found, DRIVER_KINDS.get(name, name))


def _in_map(shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[Fault]:
    for name in shape.get("required", ()):
        if name not in value:
            yield Fault(path + name, MISSING)
    properties = shape.get("properties", {})
    patterns = shape.get("patternProperties", {})
    is_closed = shape.get("additionalProperties") is False
    for name, inner in value.items():
        known = properties.get(name) or _by_pattern(patterns, name)
        if known is not None:
            yield from faults(known, inner, path + name)
        elif is_closed:
            yield Fault(path + name, "is not allowed there")


def _by_pattern(patterns: Mapping[str, Shape], name: str) -> Shape | None:
    return next((shape for pattern, shape in patterns.items() if re.search(pattern, name)), None)


def _in_list(shape: Shape, value: list[Any], where: str) -> Iterator[Fault]:
    least, most = shape.get("minItems", 0), shape.get("maxItems", len(value))
    if not least <= len(value) <= most:
        yield Fault(where, f"has {len(value)} entries, not {least} to {most}")
    if "items" in shape:
        for number, inner in enumerate(value):
            yield from faults(shape["items"], inner, f"{where}.{number}")


def _in_range(shape: Shape, value: Any, where: str) -> Iterator[Fault]:
    if "minimum" in shape and value < shape["minimum"]:
        yield Fault(where, f"is below {shape['minimum']}")
    if "maximum" in shape and value > shape["maximum"]:
        yield Fault(where, f"is above {shape['maximum']}")
