"""Access to the current request's environment and to the services of its application."""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeVar, cast

from flask import current_app

# The key of the services in app.extensions and in the environment of each request.
SERVICES = "quartermaster"
Service = TypeVar("Service")

# The WSGI environment of the current request, empty outside of a request. Flask's own proxies would
# cost several times as much.
current_environ: ContextVar[dict[str, Any]] = ContextVar(
    "current_environ",
    default=MappingProxyType({}),  # type: ignore[arg-type] # read-only, because it is shared
)


class Proxy:
    """A proxy for the service of a type in the current application."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        environ = current_environ.get()
        services = environ[SERVICES] if environ else current_app.extensions[SERVICES]
        return getattr(services[self._kind], name)


def current(kind: type[Service]) -> Service:
    """Return a proxy for the application's service of a type, for use at module level."""
    return cast(Service, Proxy(kind))


def setting(name: str) -> Any:
    """Return a setting of the current application."""
    return current_app.config[name]
