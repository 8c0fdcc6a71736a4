"""How a view reaches the stores of its application."""

from __future__ import annotations

from typing import TypeVar, cast

from flask import current_app
from werkzeug.local import LocalProxy

PARTS = "quartermaster"
Store = TypeVar("Store")


def current(kind: type[Store]) -> Store:
    """Return a stand-in for the application's store of a kind, for use at module level."""
    return cast(Store, LocalProxy(lambda: current_app.extensions[PARTS][kind]))
