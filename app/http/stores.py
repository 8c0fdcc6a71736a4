"""How a view reaches the stores of its application."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from flask import current_app

PARTS = "quartermaster"
Store = TypeVar("Store")


class StandIn:
    """Stands for the store of a kind that the current application has."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(current_app.extensions[PARTS][self._kind], name)


def current(kind: type[Store]) -> Store:
    """Return a stand-in for the application's store of a kind, for use at module level."""
    return cast(Store, StandIn(kind))
