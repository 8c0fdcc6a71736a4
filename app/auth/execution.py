"""Executes an operation for the caller of a request, and declares its route."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from app.auth.spending import OverBudget, require_no_approval, spend
from app.auth.views import View, read_route
from app.core.changes import Applied, Intent
from app.core.errors import QuartermasterError
from app.core.operations import Key, Operation, Route
from app.core.types import Document
from app.http.api import Blueprint
from app.http.intents import answer, intent, previewed_intent

OVER_BUDGET = OverBudget("shop", "it may move 3 of an item at once, not 5", "LargestQuantity")


def execute(operation: Operation, key: Key, args: Document) -> Applied:
    """Execute an operation for the caller."""
    if operation.approval:
        require_no_approval(operation.approval)
    for require in operation.requires:
        require(key, args)
    meant = intent(operation, args)
    store = operation.store
    find_earlier = partial(store.find_earlier, key, meant) if store else None
    return spend(operation.moves(args), partial(make, operation, key, args, meant), find_earlier)


def make(operation: Operation, key: Key, args: Document, meant: Intent) -> Applied:
    """Execute an operation for an intent; a new document has the key of its name."""
    key = args.get("Name") if key is None else key
    if operation.run:
        return operation.run(key, args, meant)
    applied: Applied = operation.store.change(key, *operation.prepare_change(args, meant))
    return applied


def preview(operation: Operation, key: Key, args: Document) -> Document:
    """Return the entry that a change would have, without making the change."""
    meant = previewed_intent(operation, args)
    if operation.run:
        return operation.run(key, args, meant).entry or {}
    return operation.store.preview(key, *operation.prepare_change(args, meant))


def change_route(
    blueprint: Blueprint,
    operation: Operation,
    path: str,
    schema: Any,
    *refusals: QuartermasterError,
    method: str = "POST",
    view: str = "",
    about: str = "",
    **options: Any,
) -> Callable[[View], View]:
    """Declare a route that executes an operation: path, access, arguments and response.

    Without the name of a view and its documentation, this is a decorator for a view. Options
    override the declaration of the operation: body (a schema or None) and needs. Other options
    describe the response.
    """
    body = options.pop("body", operation.arguments)
    needs = options.pop("needs", operation.needs)

    def decorator(view: View) -> View:
        operation.routes[view.__name__] = Route(method, f"{blueprint.url_prefix}{path}")
        view = blueprint.sends("X-History-Id")(view)
        view = blueprint.idempotent(view) if operation.takes_key else view
        view = blueprint.sends("Warning")(view) if operation.in_catalogue else view
        refuses = (*refusals, OVER_BUDGET) if operation.counts_items else refusals
        # All else is declared as for a view without an operation.
        return read_route(
            blueprint, path, schema, *needs, args=body, method=method, refuses=refuses, **options
        )(view)

    def respond(args: Document | None = None, **path: Key) -> Any:
        return answer(execute(operation, next(iter(path.values()), None), args or {}))

    if view:
        respond.__name__, respond.__doc__ = view, about
        decorator(respond)
    return decorator
