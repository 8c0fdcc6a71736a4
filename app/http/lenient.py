"""Reads lenient bodies, and what public clients send in place of defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow import INCLUDE, Schema, ValidationError
from marshmallow.fields import Boolean, Field, Integer, Nested, String

from app.core.errors import Invalid
from app.core.naming import with_hyphens
from app.http.fields import DIGITS, Guid

ONCE = "Must be given once."
# How lenient bodies write booleans.
WORDS = {"true": True, "false": False}
BITS = {"1": True, "0": False}
# For public clients: arguments of lists that are ignored if they are invalid, and defaults of
# required fields. A ban without a duration lasts for the shortest time, a day.
LIST_ARGUMENTS = ("page", "pageSize", "limit", "count", "search", "sortBy", "sortDirection")
DEFAULTS = {"duration": 1}


def respell(schema: Schema, values: dict[str, Any], is_compatible: bool = False) -> dict[str, Any]:
    """Convert a lenient body to a strict one, with the names and types of the schema's fields.

    Unknown fields are dropped, unless the schema accepts them. For public clients, null for a field
    that may be missing is dropped too, and guids need no hyphens. Raise Invalid for a field that is
    sent in two spellings.
    """
    fields = fields_by_name(schema)
    names = {name.lower(): name for name in fields}
    strict: dict[str, Any] = {}
    repeated = []
    for spelling, value in values.items():
        name = names.get(spelling.lower())
        if name in strict:
            repeated.append(name)
        elif name:
            field = fields[name]
            may_be_missing = is_compatible and not field.required and not field.allow_none
            if value is not None or not may_be_missing:
                strict[name] = _convert(field, value, is_compatible)
        elif schema.unknown == INCLUDE:
            strict[spelling] = value
    refuse_repeated(repeated)
    return strict


def _convert(field: Field[Any], text: Any, is_compatible: bool) -> Any:
    """Return the number or boolean that a text represents, unless the field is a string."""
    if isinstance(field, Nested) and isinstance(text, dict):
        return respell(field.schema, text, is_compatible)
    if not isinstance(text, str):
        return text
    if isinstance(field, Guid) and is_compatible:
        return with_hyphens(text)
    if isinstance(field, String):
        return text
    if isinstance(field, Boolean):
        return (WORDS | BITS).get(text.lower(), text)
    if DIGITS.fullmatch(text):
        return int(text)
    # A field for both numbers and booleans reads "1" as a number and "true" as a boolean.
    return text if isinstance(field, Integer) else WORDS.get(text.lower(), text)


def without_unusable(
    schema: Schema, values: dict[str, Any], is_query: bool = False
) -> dict[str, Any]:
    """Return the arguments of a list without invalid ones, which public clients send for defaults.

    Numbers below the minimum, short searches and unknown orders are dropped. In a query, so is
    text for a number: clients send pageSize=undefined, and forget an ampersand.
    """
    fields = fields_by_name(schema)
    return {
        name: value
        for name, value in values.items()
        if name not in LIST_ARGUMENTS
        or name not in fields
        or _is_usable(fields[name], value, is_query)
    }


def _is_usable(field: Field[Any], value: Any, is_query: bool) -> bool:
    if isinstance(field, Integer) and not DIGITS.fullmatch(str(value)):
        return not is_query
    try:
        field.deserialize(value)
    except ValidationError:
        return False
    return True


def with_objects(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of a form, where ``Color[A]=255`` is the field A of the object Color."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        outer, bracket, inner = name.partition("[")
        held = values.setdefault(outer, {}) if bracket else None
        if isinstance(held, dict):
            held[inner.removesuffix("]")] = value
        else:
            refuse_repeated([outer] if outer in values else [])
            values[outer] = value
    return values


def refuse_repeated(names: Iterable[str]) -> None:
    if fields := {name: [ONCE] for name in names}:
        raise Invalid(fault_sentence(fields), fields)


def fault_sentence(fields: dict[str, list[str]]) -> str:
    """Join all errors into one sentence: The field 'a' is required; the field 'b' must be true."""
    parts = [
        f"the field '{name}' {messages[0][:1].lower()}{messages[0][1:].rstrip('.')}"
        for name, messages in fields.items()
    ]
    text = "; ".join(parts)
    return f"T{text[1:]}{'' if text.endswith('?') else '.'}"


def fields_by_name(schema: Schema) -> dict[str, Field[Any]]:
    return {field.data_key or name: field for name, field in schema.load_fields.items()}
