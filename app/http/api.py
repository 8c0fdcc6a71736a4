"""The base classes of schemas and blueprints, derived from marshmallow and flask-smorest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import flask
import flask_smorest
import marshmallow

from app.core.errors import KeyReused, QuartermasterError
from app.http.fields import Integer, List, Object, Text
from app.http.parser import RequestParser

View = TypeVar("View", bound=Callable[..., Any])
# The header of an answer that an earlier request got.
REPLAYED = "Idempotency-Replayed"


class Schema(marshmallow.Schema):
    """The base of all schemas."""

    error_messages = {"unknown": "Is unknown."}

    class Meta:
        unknown = marshmallow.RAISE


class FailureSchema(Schema):
    """The body of every error response."""

    Message = Text(required=True, description="One sentence for people.")
    Code = Text(required=True, description="A word for programs, which does not change.")
    Wanted = Integer(
        0, description="With NOT_ENOUGH_ITEMS, ITEMS_SPENT and OVER_LIMIT: what was asked for."
    )
    Held = Integer(0, description="With NOT_ENOUGH_ITEMS and ITEMS_SPENT: the quantity there is.")
    Left = Integer(
        0, description="With NO_ROOM: what found no room. With OVER_LIMIT: what is allowed."
    )
    Version = Integer(0, description="With VERSION_CHANGED: the stored version.")
    Errors = Object(
        keys=Text(),
        values=List(Text()),
        description="The errors by field of the request.",
    )


class UnguardedView(Exception):
    """A view that declares neither its roles nor that it is public."""


class Blueprint(flask_smorest.Blueprint):
    """A blueprint that refuses views without a role, and documents the errors of views.

    Views return complete responses: flask-smorest only documents them, and serialises nothing.
    """

    ARGUMENTS_PARSER = RequestParser()

    def __init__(self, *args: Any, group: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Several packages may share one group (tag) in the OpenAPI document.
        self._group = group or self.name

    def add_url_rule(
        self, rule: str, endpoint: str | None = None, view_func: Any = None, **options: Any
    ) -> None:
        if not hasattr(view_func, "access"):
            raise UnguardedView(
                f"{self.name}: the view of {rule} needs a role decorator below its route."
            )
        options["tags"] = [self._group]
        super().add_url_rule(rule, endpoint, view_func, **options)

    def alias(self, method: str, path: str) -> Callable[[View], View]:
        """Serve a view in a second way; if documented, that would be a second operation."""

        def decorator(view: View) -> View:
            name = f"{view.__name__}_alias"
            flask.Blueprint.add_url_rule(self, path, name, view, methods=[method])
            return view

        return decorator

    def arguments(self, schema: Schema, **options: Any) -> Any:
        """As flask-smorest's, but a body is required only if one of its fields is."""
        is_required = any(field.required for field in schema.fields.values())
        return super().arguments(schema, required=is_required, **options)

    @staticmethod
    def refuses(*errors: QuartermasterError) -> Callable[[View], View]:
        """Document errors of a view in addition to those that its arguments and roles imply."""
        return _adding("refusals", errors)

    @staticmethod
    def sends(*headers: str) -> Callable[[View], View]:
        """Document headers of the response; with X-History-Id, the view accepts a reason."""
        return _adding("headers", headers)

    @classmethod
    def idempotent(cls, view: View) -> View:
        """Document that a view accepts an Idempotency-Key and a reason."""
        return cls.refuses(KeyReused("order-4711"))(cls.sends(REPLAYED)(view))


def _adding(name: str, values: tuple[Any, ...]) -> Callable[[View], View]:
    """Return a decorator that adds values to an attribute of a view, for the OpenAPI document."""

    def decorator(view: View) -> View:
        setattr(view, name, (*values, *getattr(view, name, ())))
        return view

    return decorator
