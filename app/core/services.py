"""The services of the application that answers the current request, such as stores.

Each is declared once, beside its class, and imported from there: ``users = current(Users)``.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from flask import current_app
from werkzeug.local import LocalProxy

# The key of the services in app.extensions.
SERVICES = "quartermaster"
Service = TypeVar("Service")


def current(kind: type[Service]) -> Service:
    """Return a proxy for the application's service of a type, for use at module level."""

    def find() -> Any:
        return current_app.extensions[SERVICES][kind]

    return cast(Service, LocalProxy(find))
