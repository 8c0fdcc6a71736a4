"""The environment of the current request, and the settings of its application."""

from __future__ import annotations

from typing import Any

from flask import Flask, Request, current_app, has_request_context, request
from flask.sessions import SessionInterface

from app.core.services import SERVICES as SERVICES
from app.core.services import Service as Service
from app.core.services import current as current


def current_environ() -> dict[str, Any]:
    """Return the WSGI environment of the current request; empty outside a request."""
    return request.environ if has_request_context() else {}


def settings() -> dict[str, Any]:
    return current_app.config


def setting(name: str) -> Any:
    return settings()[name]


class NoSessions(SessionInterface):
    """Disables Flask sessions: callers send a token with every request, and no cookies."""

    def open_session(self, app: Flask, request: Request) -> None:
        """Return None: Flask then uses an empty session that cannot be changed."""
