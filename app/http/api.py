"""The bases of schemas and blueprints: marshmallow's and flask-smorest's, subclassed once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import flask
import flask_smorest
import marshmallow

from app.errors import KeyReused, QuartermasterError
from app.http.fields import List, Text
from app.http.parser import RequestParser

View = TypeVar("View", bound=Callable[..., Any])


class Schema(marshmallow.Schema):
    """The base of all schemas."""

    class Meta:
        unknown = marshmallow.RAISE


class FailureSchema(Schema):
    """The body of every error response."""

    Message = Text(required=True, description="One sentence for a person.")
    Errors = marshmallow.fields.Dict(
        keys=Text(),
        values=List(Text()),
        metadata={"description": "What is wrong, by field of the request."},
    )


class UnguardedView(Exception):
    """A view that says neither which roles it needs nor that it is open to all."""


class AsyncView(Exception):
    """A coroutine function as a view: the decorators for roles and arguments would not await it."""


def _mark(name: str, value: Any = True) -> Callable[[View], View]:
    """Return a decorator that tells the OpenAPI document something about a view."""

    def decorator(view: View) -> View:
        setattr(view, name, value)
        return view

    return decorator


class Blueprint(flask_smorest.Blueprint):
    """A blueprint that refuses views without a role, and documents which errors views raise."""

    ARGUMENTS_PARSER = RequestParser()

    def __init__(self, *args: Any, group: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Several packages may share one group (tag) in the OpenAPI document.
        self._group = group or self.name

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Any = None,
        *,
        is_documented: bool = True,
        **options: Any,
    ) -> None:
        if not hasattr(view_func, "access"):
            raise UnguardedView(
                f"{self.name}: the view of {rule} needs a role decorator below its route."
            )
        if inspect.iscoroutinefunction(inspect.unwrap(view_func)):
            raise AsyncView(f"{self.name}: the view of {rule} must not be a coroutine function.")
        if is_documented:
            options["tags"] = [self._group]
            super().add_url_rule(rule, endpoint, view_func, **options)
        else:
            # An alias of a path; documented, it would be a second operation.
            alias = f"{view_func.__name__}_alias"
            flask.Blueprint.add_url_rule(self, rule, alias, view_func, methods=options["methods"])

    # Views return ready responses: flask-smorest then serialises nothing, and only documents.
    documents_response = flask_smorest.Blueprint.response
    documents_alternative = flask_smorest.Blueprint.alt_response
    # A view that leaves an entry in history, and takes a reason for it.
    recorded = staticmethod(_mark("is_recorded"))
    # A view that takes what a change does, and leaves no entry by itself.
    leaves_no_entry = staticmethod(_mark("leaves_no_entry"))
    # A view that may tell, by a header, that what it has done is odd.
    warns = staticmethod(_mark("warns"))

    def documents_body(self, schema: Schema) -> Callable[[View], View]:
        """Document a body that the view reads by itself.

        As JSON alone: generators of clients refuse, or make a second body of, another media type.
        """
        content = {"application/json": {"schema": schema}}
        body = {"required": True, "content": content}
        return cast(Callable[[View], View], self.doc(requestBody=body))

    @staticmethod
    def refuses(*errors: QuartermasterError) -> Callable[[View], View]:
        """Document errors of a view, beyond those that its arguments and its role imply."""
        return lambda view: _mark("refusals", (*errors, *getattr(view, "refusals", ())))(view)

    @classmethod
    def idempotent(cls, view: View) -> View:
        """Document that a view leaves an entry in history, and takes an Idempotency-Key."""
        view = _mark("is_idempotent")(cls.recorded(view))
        return cls.refuses(KeyReused("order-4711"))(view)
