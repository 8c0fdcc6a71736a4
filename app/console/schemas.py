"""What forms of the console hold that no body of the API does."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, ValidationError, validates, validates_schema

from app.http.api import Schema
from app.http.fields import Guid, Text

SHORTEST_PASSWORD = 8


class VariableChoice(Schema):
    """Which variable."""

    class Meta:
        unknown = EXCLUDE

    variable = Guid(required=True)


class NewPassword(Schema):
    """A new password, typed twice."""

    class Meta:
        unknown = EXCLUDE

    new = Text(required=True)
    again = Text(required=True)

    @validates("new")
    def is_long_enough(self, value: str, data_key: str) -> None:
        if len(value) < SHORTEST_PASSWORD:
            raise ValidationError(f"Must have {SHORTEST_PASSWORD} characters or more.")

    @validates_schema(skip_on_field_errors=True)
    def is_the_same_twice(self, data: dict[str, Any], **_: Any) -> None:
        if data["new"] != data["again"]:
            raise ValidationError("Is not the same as the first.", "again")
