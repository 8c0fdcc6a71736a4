"""Strict fields: a string is not accepted as a number, nor a number as a boolean."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from marshmallow import fields
from marshmallow.validate import Range

from app.core.naming import NIL, is_visible, parse_guid
from app.http.masking import masked

INT64 = 2**63
# Names contain no control characters, and MongoDB rejects a pattern with NUL.
NO_CONTROLS = re.compile(r"[^\u0000-\u001f\u007f-\u009f]*")
# The same, except newlines and tabs are allowed.
LINES = re.compile(r"[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*")
# The SHA-256 of demo, the password of every account in the demo world.
DEMO_PASSWORD_HASH = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea"  # noqa: S105 (public)
DIGITS = re.compile(r"-?[0-9]{1,100}", re.ASCII)
# Messages are predicates: "The field 'x' " is put before them.
MESSAGES = {"required": "Is required.", "null": "Must not be null."}


# What a field declares in addition to its type: what the OpenAPI document says about it, its
# history name if that is not its own name capitalised, the type of the catalogue object that it
# names, whether history must not record it, and whether answers may lack it.
FACTS = (
    "description",
    "example",
    "format",
    "enum",
    "pattern",
    "oneOf",
    "additionalProperties",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "history_name",
    "object_type",
    "unrecorded",
    "x_optional",
)


class Described:
    """A field with the additional metadata of FACTS, and with our messages."""

    default_error_messages: dict[str, Any] = MESSAGES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        metadata = {name: kwargs.pop(name) for name in FACTS if name in kwargs}
        super().__init__(*args, metadata=metadata, **kwargs)  # type: ignore[call-arg] # a field's


class Integer(Described, fields.Integer):
    """A JSON integer; "5", 5.0 and true are refused."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(self, minimum: int = -INT64, maximum: int = INT64 - 1, **kwargs: Any) -> None:
        check = Range(minimum, maximum)
        super().__init__(strict=True, validate=check, format="int64", **kwargs)


class QueryInteger(Integer):
    """An integer in a query string, in decimal digits."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not DIGITS.fullmatch(value):
            raise self.make_error("invalid")
        return int(value)


class Flag(Described, fields.Boolean):
    """A JSON boolean; "true" and 1 are refused."""

    default_error_messages = {"invalid": "Must be true or false."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


class Text(Described, fields.String):
    """A JSON string."""

    default_error_messages = {"invalid": "Must be a string."}


class PlainText(Text):
    """Text of limited length without control characters; newlines and tabs may be allowed.

    If the minimum length is above 0, at least one character must be visible.
    """

    default_error_messages = {
        "size": "Must be {shortest} to {longest} characters.",
        "blank": "Must contain a visible character.",
        "control": "Must not contain control characters{exceptions}.",
    }

    def __init__(
        self, longest: int, *, shortest: int = 0, has_lines: bool = False, **kwargs: Any
    ) -> None:
        self._sizes = range(shortest, longest + 1)
        self._pattern = LINES if has_lines else NO_CONTROLS
        least: dict[str, Any] = {"minLength": shortest} if shortest else {}
        pattern = f"^{self._pattern.pattern}$"
        super().__init__(**least, maxLength=longest, pattern=pattern, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if len(text) not in self._sizes:
            raise self.make_error("size", shortest=self._sizes[0], longest=self._sizes[-1])
        if self._sizes[0] and not is_visible(text):
            raise self.make_error("blank")
        if not self._pattern.fullmatch(text):
            exceptions = " except newlines and tabs" if self._pattern is LINES else ""
            raise self.make_error("control", exceptions=exceptions)
        return text


class MaskedText(PlainText):
    """Text that many people read: secrets in it are masked."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        return masked(super()._deserialize(value, attr, data, **kwargs))


class Guid(Described, fields.String):
    """A guid with hyphens, in any case; the all-zero guid only where nil is set."""

    default_error_messages = {
        "invalid": "Must be a guid.",
        "nil": "Must not be the all-zero guid.",
    }

    def __init__(self, *, nil: bool = False, **kwargs: Any) -> None:
        super().__init__(format="uuid", **kwargs)
        self._nil = nil

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> str:
        guid = parse_guid(value) if isinstance(value, str) else None
        if guid is None:
            raise self.make_error("invalid")
        if guid == NIL and not self._nil:
            raise self.make_error("nil")
        return guid


class Moment(Described, fields.AwareDateTime):
    """A point in time that UTC can represent: year 1 at +14:00 is refused."""

    default_error_messages = dict.fromkeys(
        ("invalid", "invalid_awareness", "format"), "Must be a time like 2026-01-31T12:00:00Z."
    )

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> datetime:
        moment: datetime = super()._deserialize(value, *args, **kwargs)
        try:
            return moment.astimezone(timezone.utc)
        except OverflowError:
            raise self.make_error("invalid") from None


class List(Described, fields.List[Any]):
    """A JSON array."""

    default_error_messages = {"invalid": "Must be a list."}


class Object(Described, fields.Dict):
    """A JSON object with any fields."""

    default_error_messages = {"invalid": "Must be an object."}


class Nested(Described, fields.Nested):
    """An object with the fields of a schema."""

    default_error_messages = {"type": "Must be an object."}


class Raw(Described, fields.Raw):
    """Any value."""


class VariableValue(Described, fields.Field[int | bool]):
    """An integer or a boolean; in Python bool is a subclass of int, but here they differ."""

    default_error_messages = {
        "invalid": "Must be a whole number, true or false.",
        "range": f"Must be from {-INT64} to {INT64 - 1}.",
    }

    def __init__(self, **kwargs: Any) -> None:
        whole = {"type": "integer", "format": "int64", "minimum": -INT64, "maximum": INT64 - 1}
        kinds = [whole, {"type": "boolean"}]
        super().__init__(oneOf=kinds, example=294, **kwargs)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int | bool:
        checked: int | bool = value
        if type(value) not in (int, bool):
            raise self.make_error("invalid")
        if not -INT64 <= value < INT64:
            raise self.make_error("range")
        return checked


class PasswordHash(Described, fields.String):
    """The SHA-256 of a password in hex: clients never send the password itself."""

    default_error_messages = {
        "invalid": "Must be the SHA-256 hash of the password: 64 hexadecimal digits.",
    }

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("description", "The SHA-256 of the password in hex.")
        super().__init__(
            pattern="^[0-9a-fA-F]{64}$", example=DEMO_PASSWORD_HASH, unrecorded=True, **kwargs
        )

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value, re.ASCII):
            raise self.make_error("invalid")
        return value
