"""Parses bodies, forms and query strings with their schemas. No other module reads input."""

from __future__ import annotations

import difflib
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NoReturn
from urllib.parse import parse_qsl

import orjson
from flask import Request, current_app, request
from marshmallow import EXCLUDE, INCLUDE, Schema, ValidationError
from marshmallow.fields import Boolean, Field, Integer, Nested, String
from webargs.flaskparser import FlaskParser
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from app.errors import Invalid
from app.http.fields import DIGITS

# marshmallow's message.
UNKNOWN = "Unknown field."
ONCE = "Must be given once."
FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 100
MAX_ERRORS = 20
MAX_NAME_LENGTH = 100
PIECE_BYTES = 64 * 1024
CACHED_QUERIES = 4096
CACHED_QUERY_LENGTH = 200
# How lenient bodies write booleans.
WORDS = {"true": True, "false": False}
BITS = {"1": True, "0": False}

Unknown = Literal["raise", "exclude", "include"]


class RequestParser(FlaskParser):
    """webargs' parser with our limits, lenient bodies and error messages."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION = {
        **FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION,
        # RFC 6749 tells servers to ignore unknown parameters.
        "form": EXCLUDE,
    }

    def parse(self, argmap: Any, req: Any = None, *, location: Any = None, **options: Any) -> Any:
        if location != "query":
            return super().parse(argmap, req, location=location, **options)
        query = request.environ.get("QUERY_STRING", "")
        # Longer query strings are rarely repeated, and would fill the cache.
        is_cached = len(query) <= CACHED_QUERY_LENGTH
        read = _parse_query if is_cached else _parse_query.__wrapped__
        return dict(read(self, argmap, query, **options))

    def load_json(self, req: Request, schema: Schema) -> dict[str, Any]:
        return _lenient_body(schema) if _is_lenient() else read_json()

    def load_form(self, req: Request, schema: Schema) -> dict[str, Any]:
        return _lenient_body(schema) if _is_lenient() else read_form()

    def load_querystring(self, req: Request, schema: Schema) -> dict[str, Any]:
        return req.args.to_dict()

    def handle_error(self, error: ValidationError, req: Any, schema: Schema, **_: Any) -> NoReturn:
        (messages,) = error.messages.values()  # type: ignore[union-attr] # by location
        raise _invalid(schema, messages) from None


@functools.lru_cache(CACHED_QUERIES)
def _parse_query(parser: RequestParser, schema: Schema, query: str, **options: Any) -> Any:
    """Parse the query string of the current request; query is only the cache key."""
    return FlaskParser.parse(parser, schema, location="query", **options)


def _is_lenient() -> bool:
    return bool(current_app.config["LENIENT_BODIES"] or current_app.config["COMPATIBILITY"])


def _lenient_body(schema: Schema) -> dict[str, Any]:
    values = respell(schema, read_form(schema))
    count = values.get("count")
    if current_app.config["COMPATIBILITY"] and type(count) is int and count == 0:
        # Public clients send it to request the default.
        del values["count"]
    return values


def load(
    schema: Schema, values: Any, unknown: Unknown = "raise", partial: bool | None = None
) -> Any:
    """Deserialise values with a schema, or raise Invalid; with partial, no field is required."""
    try:
        return schema.load(values, unknown=unknown, partial=partial)
    except ValidationError as error:
        raise _invalid(schema, error.normalized_messages()) from None


def _invalid(schema: Schema, messages: dict[str, Any]) -> Invalid:
    fields = {}
    # Formatting thousands of messages would cost the server more than the sender.
    for name, faults in itertools.islice(_flatten(messages), MAX_ERRORS):
        name = name[:MAX_NAME_LENGTH]
        fields[name] = [_unknown_message(name, schema) if m == UNKNOWN else m for m in faults]
    return Invalid(_sentence(fields), fields)


def respell(schema: Schema, values: dict[str, Any]) -> dict[str, Any]:
    """Convert a lenient body to a strict one, with the names and types of the schema's fields.

    Unknown fields are dropped, unless the schema accepts them. Raise Invalid for a field that is
    sent in two spellings.
    """
    fields = _fields_by_name(schema)
    names = {name.lower(): name for name in fields}
    strict: dict[str, Any] = {}
    repeated = []
    for spelling, value in values.items():
        name = names.get(spelling.lower())
        if name in strict:
            repeated.append(name)
        elif name:
            strict[name] = _convert(fields[name], value) if isinstance(value, str) else value
        elif schema.unknown == INCLUDE:
            strict[spelling] = value
    refuse_repeated(repeated)
    return strict


def _convert(field: Field[Any], text: str) -> Any:
    """Return the number or boolean that a text represents, unless the field is a string."""
    if isinstance(field, String):
        return text
    if isinstance(field, Boolean):
        return (WORDS | BITS).get(text.lower(), text)
    if DIGITS.fullmatch(text):
        return int(text)
    # A field for both numbers and booleans reads "1" as a number and "true" as a boolean.
    return text if isinstance(field, Integer) else WORDS.get(text.lower(), text)


def _fields_by_name(schema: Schema) -> dict[str, Field[Any]]:
    return {field.data_key or name: field for name, field in schema.load_fields.items()}


def body_pieces(limit: int) -> Iterator[bytes]:
    """Yield the body of this request; raise if it exceeds the limit or is incomplete."""
    declared = request.content_length
    if declared is not None and declared > limit:
        raise RequestEntityTooLarge
    left = limit + 1 if declared is None else declared
    stream = request.environ["wsgi.input"]
    while left:
        try:
            piece: bytes = stream.read(min(PIECE_BYTES, left))
        except Exception as error:  # The type depends on the server: malformed or incomplete.
            raise Invalid("The request body could not be read.") from error
        if not piece:
            break
        left -= len(piece)
        if declared is None and not left:
            raise RequestEntityTooLarge
        yield piece
    if declared is not None and left:
        raise Invalid("The request body is shorter than its Content-Length.")


def read_body() -> bytes:
    return b"".join(body_pieces(current_app.config["MAX_CONTENT_LENGTH"]))


def read_json() -> dict[str, Any]:
    """Return the JSON object in the body; an empty body is an empty object."""
    body = read_body()
    if not body:
        return {}
    if not is_json(request.mimetype):
        raise UnsupportedMediaType
    try:
        value = orjson.loads(body)
    except ValueError as error:
        raise Invalid(f"The request body is not valid JSON: {error}.") from None
    if value == [] and _is_lenient():
        # Some languages encode an empty object as an empty array.
        return {}
    if not isinstance(value, dict):
        raise Invalid("The request body must be a JSON object.")
    if len(value) > MAX_FIELDS:
        # Checking a hundred thousand fields would cost the server more than the sender.
        raise Invalid(f"The request body has more than {MAX_FIELDS} fields.")
    return value


def is_json(mimetype: str) -> bool:
    return mimetype == "application/json" or mimetype.endswith("+json")


def read_form(known: Schema | None = None) -> dict[str, Any]:
    """Return the fields of a form or of a JSON body.

    No field may be repeated. With a schema, unknown fields are ignored.
    """
    if request.mimetype != FORM:
        return read_json()
    try:
        pairs = parse_qsl(read_body().decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Invalid("The request body is not a valid form.") from None
    if known:
        names = {name.lower() for name in _fields_by_name(known)}
        pairs = [(name, value) for name, value in pairs if name.lower() in names]
    counts = Counter(name for name, _ in pairs)
    refuse_repeated(name for name, count in counts.items() if count > 1)
    return dict(pairs)


def refuse_repeated(names: Iterable[str]) -> None:
    if fields := {name: [ONCE] for name in names}:
        raise Invalid(_sentence(fields), fields)


def _flatten(errors: dict[Any, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the messages of each field; a field in a nested object or list is named by its path."""
    for name, messages in errors.items():
        if isinstance(messages, list):
            yield str(name), messages
        else:
            for inner, found in _flatten(messages):
                # marshmallow reports errors of the whole object as _schema.
                yield (str(name) if inner == "_schema" else f"{name}.{inner}"), found


def _unknown_message(name: str, schema: Schema) -> str:
    """Return the message for an unknown field, with the closest field name of the same object."""
    outer, _, inner = name.partition(".")
    if inner and isinstance(field := _fields_by_name(schema).get(outer), Nested):
        return _unknown_message(inner, field.schema)
    by_lower = {field.lower(): field for field in _fields_by_name(schema)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"Is unknown; did you mean '{by_lower[near[0]]}'?" if near else "Is unknown."


def _sentence(fields: dict[str, list[str]]) -> str:
    """Join all errors into one sentence: The field 'a' is required; the field 'b' must be true."""
    parts = [
        f"the field '{name}' {messages[0][:1].lower()}{messages[0][1:].rstrip('.')}"
        for name, messages in fields.items()
    ]
    text = "; ".join(parts)
    return f"T{text[1:]}{'' if text.endswith('?') else '.'}"
