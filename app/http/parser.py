"""Parses bodies, forms and query strings with their schemas. No other module reads input."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NoReturn

import orjson
from flask import Request, current_app, request
from marshmallow import EXCLUDE, Schema, ValidationError
from marshmallow.types import UnknownOption
from webargs.flaskparser import FlaskParser
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType
from werkzeug.formparser import FormDataParser

from app.core.errors import Invalid
from app.http.lenient import (
    DEFAULTS,
    fault_sentence,
    fields_by_name,
    refuse_repeated,
    respell,
    with_objects,
    without_unusable,
)

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
MAX_FIELDS = 100
MAX_ERRORS = 20
MAX_NAME_LENGTH = 100
PIECE_BYTES = 64 * 1024


class RequestParser(FlaskParser):
    """webargs' parser with our limits, lenient bodies and error messages."""

    DEFAULT_UNKNOWN_BY_LOCATION = {
        **FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION,
        # RFC 6749 tells servers to ignore unknown parameters.
        "form": EXCLUDE,
    }

    def load_json(self, req: Request, schema: Schema) -> dict[str, Any]:
        return _lenient_body(schema) if _is_lenient() else read_json()

    def load_form(self, req: Request, schema: Schema) -> dict[str, Any]:
        return _lenient_body(schema) if _is_lenient() else read_form()

    def load_querystring(self, req: Request, schema: Schema) -> dict[str, Any]:
        values: dict[str, Any] = req.args.to_dict()
        return without_unusable(schema, values, is_query=True) if _is_compatible() else values

    def handle_error(self, error: ValidationError, *_: Any, **__: Any) -> NoReturn:
        (messages,) = error.messages.values()  # type: ignore[union-attr] # by location
        raise _invalid(messages) from None


def _is_compatible() -> bool:
    return bool(current_app.config["COMPATIBILITY"])


def _is_lenient() -> bool:
    return bool(current_app.config["LENIENT_BODIES"]) or _is_compatible()


def _lenient_body(schema: Schema) -> dict[str, Any]:
    values = respell(schema, read_form(schema), _is_compatible())
    if not _is_compatible():
        return values
    missing = {name: value for name, value in DEFAULTS.items() if name in fields_by_name(schema)}
    return without_unusable(schema, {**missing, **values})


def load(
    schema: Schema, values: Any, unknown: UnknownOption = "raise", partial: bool | None = None
) -> Any:
    """Deserialise values with a schema, or raise Invalid; with partial, no field is required."""
    try:
        return schema.load(values, unknown=unknown, partial=partial)
    except ValidationError as error:
        raise _invalid(error.normalized_messages()) from None


def _invalid(messages: dict[str, Any]) -> Invalid:
    # Formatting thousands of messages would cost the server more than the sender.
    some = itertools.islice(_flatten(messages), MAX_ERRORS)
    fields = {name[:MAX_NAME_LENGTH]: faults for name, faults in some}
    return Invalid(fault_sentence(fields), fields)


def body_pieces(limit: int) -> Iterator[bytes]:
    """Yield the body of this request; raise if it exceeds the limit or is incomplete."""
    request.max_content_length, size = limit, 0
    try:
        while size != request.content_length and (piece := request.stream.read(PIECE_BYTES)):
            size += len(piece)
            yield piece
    except RequestEntityTooLarge:
        raise
    except Exception as error:  # The type depends on the server: malformed or incomplete.
        raise Invalid("The request body could not be read.") from error
    if request.content_length not in (None, size):
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
    # Some languages encode an empty object as an empty array.
    return {} if body.strip() == b"[]" and _is_lenient() else json_object(body)


def json_object(text: bytes, called: str = "The request body") -> dict[str, Any]:
    """Return the JSON object in a text, or raise Invalid."""
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise Invalid(f"{called} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Invalid(f"{called} must be a JSON object.")
    if len(value) > MAX_FIELDS:
        # Checking a hundred thousand fields would cost the server more than the sender.
        raise Invalid(f"{called} has more than {MAX_FIELDS} fields.")
    return value


def is_json(mimetype: str) -> bool:
    return mimetype == "application/json" or mimetype.endswith("+json")


def read_form(known: Schema | None = None) -> dict[str, Any]:
    """Return the fields of a form or of a JSON body.

    No field may be repeated. With a schema, unknown fields are ignored.
    """
    if request.mimetype != FORM and not (request.mimetype == MULTIPART and _is_compatible()):
        return read_json()
    body, options = read_body(), request.mimetype_params
    parser = FormDataParser(max_form_parts=MAX_FIELDS, silent=False)
    try:
        # Files are ignored.
        _, form, _ = parser.parse(BytesIO(body), request.mimetype, len(body), options)
    except (ValueError, RequestEntityTooLarge):
        raise Invalid("The request body is not a valid form.") from None
    pairs = list(form.items(multi=True))
    if len(pairs) > MAX_FIELDS:
        raise Invalid(f"The request body has more than {MAX_FIELDS} fields.")
    if known:
        names = {name.lower() for name in fields_by_name(known)}
        pairs = [(name, value) for name, value in pairs if name.partition("[")[0].lower() in names]
    counts = Counter(name for name, _ in pairs)
    refuse_repeated(name for name, count in counts.items() if count > 1)
    return with_objects(pairs) if known else dict(pairs)


def _flatten(errors: dict[Any, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the messages of each field; a field in a nested object or list is named by its path."""
    for name, messages in errors.items():
        if isinstance(messages, list):
            yield str(name), messages
        else:
            for inner, found in _flatten(messages):
                # marshmallow reports errors of the whole object as _schema.
                yield (str(name) if inner == "_schema" else f"{name}.{inner}"), found
