"""Executes an operation for the caller of a request, and declares its route."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Protocol, TypeVar

from app.auth import guard
from app.auth.approval import require_no_approval
from app.auth.spending import OverBudget, spend
from app.changes import Applied, Intent, Rule
from app.errors import QuartermasterError
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, intent, keyed_intent, previewed_intent
from app.objects.domain import NotInCatalogue
from app.objects.store import KnownObjects
from app.operations import Endpoint, IncompleteOperation, Operation, Route
from app.types import Document

OVER_BUDGET = OverBudget("shop", "it may move 3 of an item at once, not 5", "LargestQuantity")

known_objects = current(KnownObjects)

View = TypeVar("View", bound=Callable[..., Any])
Key = Any


class Store(Protocol):
    """Changes the documents of one kind."""

    def change(self, key: Key, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied: ...

    def preview(self, key: Key, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document: ...

    def find_earlier(self, key: Key, intent: Intent) -> Applied | None: ...


def execute(operation: Operation, store: Store, key: Key, args: dict[str, Any]) -> Applied:
    """Execute an operation; a new document has the key of its name."""
    if operation.approval:
        require_no_approval(operation.approval)
    prepared = operation.prepare_change(args)
    told = operation.history_arguments(args)
    meant = keyed_intent(operation, args) if operation.takes_key else intent(operation, **told)
    key = args["Name"] if key is None else key
    moved = operation.moves(args) if callable(operation.moves) else operation.moves
    reads, rule, meant = known_objects.checked(operation, args, prepared, meant)
    return spend(
        moved,
        partial(store.change, key, reads, rule, meant),
        partial(store.find_earlier, key, meant),
    )


def make(
    operation: Operation,
    store: Store,
    key: Key,
    args: dict[str, Any],
    meant: Intent,
) -> Applied:
    """Execute an operation for an intent that is not the caller's."""
    prepared = operation.prepare_change(args)
    reads, rule, meant = known_objects.checked(operation, args, prepared, meant)
    return store.change(key, reads, rule, meant)


def preview(operation: Operation, store: Store, key: Key, args: dict[str, Any]) -> Document:
    """Return the entry that a change would have, without making the change."""
    prepared = operation.prepare_change(args)
    meant = previewed_intent(operation, args)
    return store.preview(key, *known_objects.checked(operation, args, prepared, meant))


def change_route(
    blueprint: Blueprint,
    operation: Operation,
    path: str,
    schema: Any,
    *refusals: QuartermasterError,
    method: str = "POST",
    **options: Any,
) -> Callable[[View], View]:
    """Declare a view that executes an operation: path, access, arguments and response.

    Options override the declaration of the operation: body (a schema or None), whether the body is
    required, and needs. Other options describe the response.
    """
    body = options.pop("body", operation.arguments)
    is_required = options.pop("is_body_required", True)
    needs = options.pop("needs", operation.needs)
    if needs is None:
        raise IncompleteOperation(f"'{operation.name}' is for the command line: it has no route.")

    def decorator(view: View) -> View:
        operation.routes[view.__name__] = Route(method, f"{blueprint.url_prefix}{path}")
        view = blueprint.idempotent(view) if operation.takes_key else blueprint.recorded(view)
        view = blueprint.warns(view) if operation.needs_object else view
        view = blueprint.refuses(*refusals, *_own_refusals(operation))(view)
        view = blueprint.documents_response(200, schema, **options)(view)
        view = blueprint.arguments(body, required=is_required)(view) if body else view
        route: Callable[[View], View] = blueprint.route(path, methods=[method])
        return route(guard.required(*needs)(view))

    return decorator


def change_routes(
    blueprint: Blueprint, store: Store, operations: ModuleType, subject: str = ""
) -> None:
    """Add the routes of a module's operations that declare an endpoint and so need no view.

    With a subject, only those of that subject.
    """
    for operation in vars(operations).values():
        is_operation = isinstance(operation, Operation) and subject in ("", operation.subject)
        if is_operation and operation.endpoint:
            _add_route(blueprint, store, operation, operation.endpoint)


def _add_route(
    blueprint: Blueprint, store: Store, operation: Operation, endpoint: Endpoint
) -> None:
    def view(args: Document | None = None, **path: Key) -> Any:
        key = next(iter(path.values()), None)
        return answer(execute(operation, store, key, args or {}))

    view.__name__, view.__doc__ = endpoint.view, endpoint.about
    where, method = (endpoint.path, endpoint.answers, *endpoint.refusals), endpoint.method
    change_route(blueprint, operation, *where, method=method)(view)


def _own_refusals(operation: Operation) -> list[QuartermasterError]:
    """Return examples of the errors that follow from an operation's declaration."""
    found: list[QuartermasterError] = []
    if name := operation.needs_object:
        declared = operation.arguments.fields[name].metadata
        found.append(NotInCatalogue(declared["object_type"], declared["example"]))
    return [*found, OVER_BUDGET] if callable(operation.moves) else found
