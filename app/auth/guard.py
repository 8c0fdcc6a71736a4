"""The decorator that checks the roles of a caller; every view has one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from flask import Flask

from app.auth.callers import Caller, Callers
from app.auth.roles import Role
from app.auth.tokens import AccessTokens
from app.errors import Unauthorized
from app.http.api import UnguardedView
from app.http.context import current, current_environ
from app.http.tracing import CALLER
from app.storage.limits.quotas import Quotas

View = TypeVar("View", bound=Callable[..., Any])

tokens = current(AccessTokens)
callers = current(Callers)
quotas = current(Quotas)


def required(
    *roles: Role, identified_by: Callable[[], Caller] | None = None
) -> Callable[[View], View]:
    """Require these roles of a caller, and always the role api.

    A caller is identified by its access token, unless another way is given.
    """
    needed = tuple(dict.fromkeys((Role.API, *roles)))

    def decorator(view: View) -> View:
        @functools.wraps(view)
        def guarded(**path: Any) -> Any:
            caller = (identified_by or identify)()
            for role in needed:
                caller.require(role)
            quotas.use(caller.id)
            return view(**path)

        guarded.access = needed  # type: ignore[attr-defined] # what the Blueprint looks for
        return cast(View, guarded)

    return decorator


def public(view: View) -> View:
    """Declare that a view needs no role."""
    view.access = ()  # type: ignore[attr-defined] # what the Blueprint looks for
    return view


def identify() -> Caller:
    """Return the caller of this request, or raise Unauthorized."""
    environ = current_environ.get()
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized
    caller = callers.get(tokens.check(token.strip(" ")))
    environ[CALLER] = caller
    return caller


def caller() -> Caller:
    """Return the caller that the decorator admitted to this view."""
    known: Caller = current_environ.get()[CALLER]
    return known


def check_every_view(app: Flask) -> None:
    """Refuse an application with a view that has neither a role nor is declared public."""
    for endpoint, view in app.view_functions.items():
        if not hasattr(view, "access"):
            raise UnguardedView(f"The view '{endpoint}' has no role decorator.")
