"""Flask without what this service does not use: every request would pay for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import Any

from flask import Flask, Request, Response
from flask.globals import request_ctx
from flask.sessions import NullSession, SessionInterface
from werkzeug.routing import MapAdapter

from app.http import tracing
from app.http.context import SERVICES, current_environ

# When the request that is being answered came, where the server says so.
arrived_at: ContextVar[float | None] = ContextVar("arrived_at", default=None)


class NoSessions(SessionInterface):
    """Callers show a token each time; nothing is kept in cookies."""

    _none = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:
        return self._none

    def save_session(self, *_: Any) -> None:
        """There is nothing to save."""


class Application(Flask):
    """Takes a request to its view, and its answer back, with nothing in between but the trace.

    Signals, hooks around requests, teardowns and coroutine views are not served: nobody here has
    any. Host names do not matter to routes.
    """

    session_interface = NoSessions()
    # A context manager around every request, set by create_app; it gets the time of arrival.
    request_scope: Callable[[float], AbstractContextManager[Any]] = nullcontext

    def full_dispatch_request(self) -> Response:
        request = request_ctx.request
        environ = request.environ
        environ[SERVICES] = self.extensions[SERVICES]
        tracing.begin(environ)
        outside = current_environ.set(environ)
        try:
            with self.request_scope(arrived_at.get() or monotonic()):
                response = self._answer(request)
            tracing.end(request, response)
            return response
        finally:
            current_environ.reset(outside)

    def _answer(self, request: Request) -> Response:
        try:
            if request.routing_exception is not None:
                self.raise_routing_exception(request)
            view = self.view_functions[request.url_rule.endpoint]  # type: ignore[union-attr]
            answer: Any = view(**request.view_args)  # type: ignore[arg-type]
        except Exception as error:
            answer = self.handle_user_exception(error)
        return answer

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        if request is None:
            return None
        return MapAdapter(self.url_map, "", "/", "", "http", request.path, request.method)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func

    def do_teardown_request(self, *_: Any) -> None:
        """Nothing is to be torn down."""

    def do_teardown_appcontext(self, *_: Any) -> None:
        """Nothing is to be torn down."""
