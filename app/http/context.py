"""How a view reaches what belongs to its request and to its application."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, TypeVar, cast

from flask import current_app

# Under this name an application keeps its stores, and hands them to its requests.
SERVICES = "quartermaster"
Store = TypeVar("Store")

# The environment of the request that is being answered, empty outside of any. Flask's own stand-ins
# would find it too, at several times the price.
current_environ: ContextVar[dict[str, Any]] = ContextVar(
    "current_environ",
    default={},  # noqa: B039 (nobody writes into it)
)


class Proxy:
    """Stands for the store of a kind that the current application has."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        environ = current_environ.get()
        parts = environ[SERVICES] if environ else current_app.extensions[SERVICES]
        return getattr(parts[self._kind], name)


def current(kind: type[Store]) -> Store:
    """Return a stand-in for the application's store of a kind, for use at module level."""
    return cast(Store, Proxy(kind))
