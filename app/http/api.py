"""flask-smorest's classes, subclassed once."""

from __future__ import annotations

from typing import Any

import flask_smorest
import marshmallow

from app.http.fields import Text
from app.http.parser import RequestParser


class Schema(marshmallow.Schema):
    """The base of all schemas."""


class ErrorSchema(Schema):
    """What every failure looks like."""

    Message = Text(required=True, metadata={"description": "One sentence for a person."})
    Errors = marshmallow.fields.Dict(
        keys=Text(),
        values=marshmallow.fields.List(Text()),
        metadata={"description": "What is wrong, by field of the request."},
    )


class Api(flask_smorest.Api):
    """The API with our error shape; app.http.errors makes the answers."""

    ERROR_SCHEMA = ErrorSchema

    def _register_error_handlers(self) -> None:
        """Leave the handlers to app.http.errors, which serves every path, not the API's alone."""


class UnguardedView(Exception):
    """A view that says neither which roles it needs nor that it is open to all."""


class Blueprint(flask_smorest.Blueprint):
    """A blueprint that refuses views without a role."""

    ARGUMENTS_PARSER = RequestParser()

    def add_url_rule(
        self, rule: str, endpoint: str | None = None, view_func: Any = None, **options: Any
    ) -> None:
        if not hasattr(view_func, "access"):
            raise UnguardedView(
                f"{self.name}: the view of {rule} needs a role decorator below its route."
            )
        super().add_url_rule(rule, endpoint, view_func, **options)
