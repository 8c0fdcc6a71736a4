"""Reads what a request carries, by its schema. The one place where input becomes values."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import parse_qsl

import orjson
from flask import current_app, request
from marshmallow import Schema, ValidationError
from marshmallow.fields import Boolean, Field, Integer, String
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from app.errors import Invalid

UNKNOWN = "Unknown field."
ONCE = "Must be given once."
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 100
MOST_FAULTS = 20
REMEMBERED = 1024
USUAL_QUERY = 200
LONGEST_NAME = 100
# How lenient bodies spell numbers and flags.
DIGITS = re.compile(r"-?[0-9]{1,100}", re.ASCII)
WORDS = {"true": True, "false": False}
BITS = {"1": True, "0": False}

Unknown = Literal["raise", "exclude", "include"]


class RequestParser:
    """What flask-smorest's ``arguments`` decorator parses with."""

    DEFAULT_VALIDATION_STATUS = 400

    def use_args(self, schema: Schema, *, location: str) -> Callable[..., Any]:
        """Hand the view what its schema makes of a body, a form or a query string."""
        if location == "query":
            return _with_query(schema)
        read, unknown = READERS[location]

        def decorator(view: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(view)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if current_app.config["LENIENT_BODIES"]:
                    return view(*args, load(schema, respelled(schema, read_form(schema))), **kwargs)
                return view(*args, load(schema, read(), unknown), **kwargs)

            return wrapper

        return decorator


def _with_query(schema: Schema) -> Callable[..., Any]:
    """Hand the view what its schema makes of a query string; few differ, so they are remembered."""

    @functools.lru_cache(REMEMBERED)
    def remembered(_: str) -> dict[str, Any]:
        values: dict[str, Any] = load(schema, request.args.to_dict(), "exclude")
        return values

    def decorator(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def wrapper(**path: Any) -> Any:
            query = request.environ.get("QUERY_STRING", "")
            # What is too long to be usual is read without being remembered.
            read = remembered if len(query) <= USUAL_QUERY else remembered.__wrapped__
            return view(dict(read(query)), **path)

        return wrapper

    return decorator


def load(schema: Schema, values: Any, unknown: Unknown = "raise") -> Any:
    """Return the values that the schema makes of the input, or raise what is wrong with it."""
    try:
        return schema.load(values, unknown=unknown)
    except ValidationError as error:
        fields = _explained(schema, error.normalized_messages())
        raise Invalid(_sentence(fields), fields) from None


def respelled(schema: Schema, values: dict[str, Any]) -> dict[str, Any]:
    """Return a lenient body as a strict one: known fields alone, by their names, in their types."""
    fields = _named(schema)
    names = {name.lower(): name for name in fields}
    strict: dict[str, Any] = {}
    repeated = {}
    for spelling, value in values.items():
        name = names.get(spelling.lower())
        if name in strict:
            # Which of the two is meant, only the caller knows.
            repeated[name] = [ONCE]
        elif name:
            strict[name] = _typed(fields[name], value) if isinstance(value, str) else value
    if repeated:
        raise Invalid(_sentence(repeated), repeated)
    return strict


def _typed(field: Field[Any], text: str) -> Any:
    """Return the number or the flag that a text spells, where the field takes no text."""
    if isinstance(field, String):
        return text
    if isinstance(field, Boolean):
        return (WORDS | BITS).get(text.lower(), text)
    if DIGITS.fullmatch(text):
        return int(text)
    # A field that takes both numbers and flags has "1" for a number and "true" for a flag.
    return text if isinstance(field, Integer) else WORDS.get(text.lower(), text)


def _named(schema: Schema) -> dict[str, Field[Any]]:
    return {field.data_key or name: field for name, field in schema.load_fields.items()}


def read_body() -> bytes:
    """Return the whole body, or say why it cannot be had; part of one is never taken for all."""
    limit: int = current_app.config["MAX_CONTENT_LENGTH"]
    declared = request.content_length
    if declared is not None and declared > limit:
        raise RequestEntityTooLarge
    stream = request.environ["wsgi.input"]
    try:
        body: bytes = stream.read(limit + 1 if declared is None else declared)
    except Exception as error:  # each server raises its own where a client breaks off or misframes
        raise Invalid("The request body could not be read.") from error
    if len(body) > limit:
        raise RequestEntityTooLarge
    if declared is not None and len(body) < declared:
        raise Invalid("The request body is shorter than its Content-Length.")
    return body


def read_json() -> dict[str, Any]:
    """Return the body as an object; no body at all is an empty one."""
    body = read_body()
    if not body:
        return {}
    mimetype = request.mimetype
    if mimetype != "application/json" and not mimetype.endswith("+json"):
        raise UnsupportedMediaType
    try:
        value = orjson.loads(body)
    except ValueError as error:
        raise Invalid(f"The request body is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Invalid("The request body must be a JSON object.")
    if len(value) > MOST_FIELDS:
        # To look at each of a hundred thousand would cost us more than their sender.
        raise Invalid(f"The request body has more than {MOST_FIELDS} fields.")
    return value


def read_form(known: Schema | None = None) -> dict[str, Any]:
    """Return a form, or a JSON body where the caller prefers that.

    Each field must be given once; of fields that are known not to matter, any number may be.
    """
    if request.mimetype != FORM:
        return read_json()
    try:
        pairs = parse_qsl(read_body().decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Invalid("The request body is not a valid form.") from None
    if known:
        names = {name.lower() for name in _named(known)}
        pairs = [(name, value) for name, value in pairs if name.lower() in names]
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = {name: [ONCE] for name, count in counts.items() if count > 1}
        raise Invalid(_sentence(repeated), repeated)
    return fields


READERS: dict[str, tuple[Callable[[], dict[str, Any]], Unknown]] = {
    "json": (read_json, "raise"),
    # OAuth tells servers to ignore what they do not know.
    "form": (read_form, "exclude"),
}


def _explained(schema: Schema, errors: dict[str, Any]) -> dict[str, list[str]]:
    known = list(_named(schema))
    explained = {}
    # A few tell what is wrong with the rest; thousands would cost us more than their sender.
    for name, messages in itertools.islice(errors.items(), MOST_FAULTS):
        messages = messages if isinstance(messages, list) else [str(messages)]
        name = name[:LONGEST_NAME]
        explained[name] = [_unknown(name, known) if m == UNKNOWN else m for m in messages]
    return explained


def _unknown(name: str, known: list[str]) -> str:
    by_lower = {field.lower(): field for field in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"Is unknown; did you mean '{by_lower[near[0]]}'?" if near else "Is unknown."


def _sentence(fields: dict[str, list[str]]) -> str:
    """Tell all faults in one sentence: The field 'a' is required; the field 'b' must be true."""
    parts = [
        f"the field '{name}' {messages[0][:1].lower()}{messages[0][1:].rstrip('.')}"
        for name, messages in fields.items()
    ]
    text = "; ".join(parts)
    return f"T{text[1:]}{'' if text.endswith('?') else '.'}"
