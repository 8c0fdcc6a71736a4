"""flask-smorest's classes, subclassed once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
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


class Api(flask_smorest.Api):
    """The API with our error shape; app.http.errors makes the answers."""

    # Not called ErrorSchema: generated JavaScript clients would get a class Error.
    ERROR_SCHEMA = FailureSchema

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # What adds the views of each blueprint to the OpenAPI document.
        self._undocumented: list[Callable[[], None]] = []
        super().__init__(*args, **kwargs)

    def document_later(self, add: Callable[[], None]) -> None:
        self._undocumented.append(add)

    def document_views(self) -> None:
        """Add all views to the document that are not there yet."""
        while self._undocumented:
            self._undocumented.pop(0)()


class UnguardedView(Exception):
    """A view that says neither which roles it needs nor that it is open to all."""


class AsyncView(Exception):
    """A coroutine function as a view: the decorators for roles and arguments would not await it."""


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

    def register_views_in_doc(self, api: Api, *args: Any, **kwargs: Any) -> None:
        """Leave it for when the document is asked for: it is most of what a start would cost."""
        api.document_later(partial(super().register_views_in_doc, api, *args, **kwargs))

    # Views return ready responses: flask-smorest then serialises nothing, and only documents.
    documents_response = flask_smorest.Blueprint.response
    documents_alternative = flask_smorest.Blueprint.alt_response

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

        def decorator(view: View) -> View:
            view.refusals = (*errors, *getattr(view, "refusals", ()))  # type: ignore[attr-defined]
            return view

        return decorator

    @staticmethod
    def warns(view: View) -> View:
        """Document that a view may tell, by a header, that what it has done is odd."""
        view.warns = True  # type: ignore[attr-defined]
        return view

    @staticmethod
    def recorded(view: View) -> View:
        """Document that a view leaves an entry in history, and takes a reason for it."""
        view.is_recorded = True  # type: ignore[attr-defined]
        return view

    @staticmethod
    def leaves_no_entry(view: View) -> View:
        """Document that a view takes what a change does, and leaves no entry by itself."""
        view.leaves_no_entry = True  # type: ignore[attr-defined]
        return view

    @classmethod
    def idempotent(cls, view: View) -> View:
        """Document that a view leaves an entry in history, and takes an Idempotency-Key."""
        view.is_idempotent = True  # type: ignore[attr-defined]
        return cls.refuses(KeyReused("order-4711"))(cls.recorded(view))
