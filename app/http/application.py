"""Flask, with a shorter way for requests that no hook and no signal receiver waits for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import Any, cast

from flask import Flask, Request, Response
from flask.ctx import RequestContext
from flask.globals import request_ctx
from flask.sessions import NullSession, SessionInterface
from flask.signals import (
    appcontext_tearing_down,
    request_finished,
    request_started,
    request_tearing_down,
)
from werkzeug.routing import MapAdapter, RequestRedirect

from app.http import tracing
from app.http.context import SERVICES, current_environ

log = logging.getLogger("quartermaster")

# The monotonic time at which the current request arrived, where the server sets it.
arrived_at: ContextVar[float | None] = ContextVar("arrived_at", default=None)


class UnavailableSession(NullSession):
    """Can be read, as Flask's own null session, and is always empty; a change raises."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "This application keeps no sessions. To have Flask's, set app.session_interface to "
            "flask.sessions.SecureCookieSessionInterface(), or to another interface."
        )

    __setitem__ = __delitem__ = clear = pop = popitem = update = setdefault = _fail


class NoSessions(SessionInterface):
    """Opens no session: callers send a token with every request, and no cookies."""

    null_session_class = UnavailableSession
    _session = UnavailableSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:
        return self._session


class PathAdapter(MapAdapter):
    """Matches by path and method alone, and leaves to Flask's own adapter whatever needs a host.

    To find out the host would cost every request, and only redirects and built URLs need it.
    """

    def __init__(self, app: Flask, request: Request) -> None:
        super().__init__(app.url_map, "", "/", "", "http", request.path, request.method)
        self._app = app
        self._request = request

    def _with_host(self) -> MapAdapter:
        return cast(MapAdapter, Flask.create_url_adapter(self._app, self._request))

    def match(self, *args: Any, **options: Any) -> Any:
        try:
            return super().match(*args, **options)
        except RequestRedirect:
            return self._with_host().match(*args, **options)

    def build(self, *args: Any, **options: Any) -> str:
        return self._with_host().build(*args, **options)

    def get_host(self, domain_part: str | None) -> str:
        return self._with_host().get_host(domain_part)


# Flask's own proxy would look it up again for each attribute.
_context: Callable[[], RequestContext] = request_ctx._get_current_object  # type: ignore[attr-defined]


class RequestScope:
    """Makes an environment the current one, within the request scope of the application."""

    def __init__(self, app: Application, environ: dict[str, Any]) -> None:
        self._app = app
        self._environ = environ

    def __enter__(self) -> None:
        self._outer = current_environ.set(self._environ)
        self._inner = self._app.request_scope(arrived_at.get() or monotonic())
        self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        try:
            self._inner.__exit__(*error)
        finally:
            current_environ.reset(self._outer)


class ScopedBody:
    """A streamed body: its pieces are produced and it is closed in the scope of its request."""

    def __init__(self, body: Iterable[bytes], scope: RequestScope) -> None:
        self._body = body
        self._pieces = iter(body)
        self._scope = scope

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._scope:
            return next(self._pieces)

    def close(self) -> None:
        with self._scope:
            if hasattr(self._body, "close"):
                self._body.close()


# The steps of Flask's dispatch that the short way leaves out, as Flask has them.
_STEPS = {
    name: getattr(Flask, name)
    for name in ("preprocess_request", "dispatch_request", "process_response")
}


class Application(Flask):
    """Flask with a request id, a log line and a request scope for every request.

    Each step of Flask's dispatch (preprocessing, postprocessing, teardown) is skipped where no
    hook and no receiver is registered for it, and no tool has wrapped it. This is decided per
    request, because extensions and tests may do so at any time. Otherwise Flask's own code runs.
    """

    session_interface: SessionInterface = NoSessions()
    # A context manager around every request, set by create_app; it gets the time of arrival.
    request_scope: Callable[[float], AbstractContextManager[Any]] = nullcontext

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ[SERVICES] = self.extensions[SERVICES]
        tracing.begin(environ)
        # Around all of it, so that handlers of errors and teardown functions have it too.
        with RequestScope(self, environ):
            body = super().wsgi_app(environ, start_response)
        # A list is complete; everything else is produced while the server sends it.
        return body if isinstance(body, list) else ScopedBody(body, RequestScope(self, environ))

    def full_dispatch_request(self) -> Response:
        environ = _context().request.environ
        if current_environ.get() is not environ:
            # A request context that did not come through wsgi_app, such as test_request_context.
            environ[SERVICES] = self.extensions[SERVICES]
            tracing.begin(environ)
            with RequestScope(self, environ):
                return self.full_dispatch_request()
        if (
            self.before_request_funcs
            or self.url_value_preprocessors
            or request_started.receivers
            or self._is_wrapped()
        ):
            return super().full_dispatch_request()
        try:
            answer = self._call_view(_context().request)
        except Exception as error:
            answer = self.handle_user_exception(error)
        return self.finalize_request(answer)

    def _is_wrapped(self) -> bool:
        """Tell whether a tool has replaced a step of Flask, on its class or on the application."""
        return any(
            name in self.__dict__ or getattr(type(self), name) is not step
            for name, step in _STEPS.items()
        )

    def _call_view(self, request: Request) -> Any:
        if request.routing_exception is not None or request.method == "OPTIONS":
            return self.dispatch_request()
        view = self.view_functions[request.url_rule.endpoint]  # type: ignore[union-attr]
        return self.ensure_sync(view)(**request.view_args)  # type: ignore[arg-type]

    def finalize_request(self, rv: Any, from_error_handler: bool = False) -> Response:
        context = _context()
        if (
            self.after_request_funcs
            or request_finished.receivers
            or context._after_request_functions
            or context._session.__class__ is not UnavailableSession
            or self._is_wrapped()
        ):
            response = super().finalize_request(rv, from_error_handler)
        else:
            response = rv if isinstance(rv, self.response_class) else self.make_response(rv)
        # After the hooks, so that what is logged and counted is what the client gets.
        tracing.end(context.request, response)
        return response

    def log_exception(self, exc_info: Any) -> None:
        """Log an unexpected error by its route: the path may hold a token."""
        request = _context().request
        log.error("%s %s failed", request.method, request.url_rule, exc_info=exc_info)

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        if request is None or self._needs_host():
            return super().create_url_adapter(request)
        return PathAdapter(self, request)

    def _needs_host(self) -> bool:
        return (
            self.url_map.host_matching
            or self.subdomain_matching
            or self.config["TRUSTED_HOSTS"] is not None
        )

    def do_teardown_request(self, *error: Any) -> None:
        if self.teardown_request_funcs or request_tearing_down.receivers:
            super().do_teardown_request(*error)

    def do_teardown_appcontext(self, *error: Any) -> None:
        if self.teardown_appcontext_funcs or appcontext_tearing_down.receivers:
            super().do_teardown_appcontext(*error)
