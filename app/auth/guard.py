"""The decorators that check the roles of a caller and the scopes of a key. Every view has one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from flask import Flask, request

from app.auth.api_keys import is_key
from app.auth.callers import Caller, Callers
from app.auth.roles import Role
from app.auth.scopes import KeyAccess, Scope
from app.auth.tokens import AccessTokens
from app.errors import Forbidden, Unauthorized
from app.http.address import remote_address
from app.http.api import UnguardedView
from app.http.context import current
from app.http.tracing import CALLER
from app.request_scope import at_database
from app.storage.limits.quotas import Quotas

View = TypeVar("View", bound=Callable[..., Any])

tokens = current(AccessTokens)
callers = current(Callers)
quotas = current(Quotas)


class AddressNotAllowed(Forbidden):
    sentence = "This key may not be used from the address {address}."


def required(
    *needs: Scope | KeyAccess | Role, identified_by: Callable[[], Caller] | None = None
) -> Callable[[View], View]:
    """Require these roles of a caller, in addition to api, and these scopes of a key.

    A caller is identified by access token or key, unless identified_by is given.
    """
    roles = tuple(dict.fromkeys((Role.API, *(need for need in needs if isinstance(need, Role)))))
    scopes = tuple(need for need in needs if not isinstance(need, Role))
    if not scopes:
        raise UnguardedView("guard.required needs a scope, or KeyAccess.ANY or KeyAccess.NONE.")

    def decorator(view: View) -> View:
        @functools.wraps(view)
        def guarded(**path: Any) -> Any:
            with at_database():
                caller = (identified_by or identify)()
                caller.require(*roles)
                caller.require_scope(*scopes)
                quotas.use(caller.id)
                return view(**path)

        return _declare(cast(View, guarded), roles, scopes)

    return decorator


def _declare(
    view: View, roles: tuple[Role, ...] = (), scopes: tuple[Scope | KeyAccess, ...] = ()
) -> View:
    """Declare who may call a view, for the Blueprint and the documentation."""
    named = tuple(scope.value for scope in scopes if isinstance(scope, Scope))
    view.access = roles  # type: ignore[attr-defined]
    # Empty: a key needs no scope. None: no key may call the view.
    view.scopes = None if KeyAccess.NONE in scopes else named  # type: ignore[attr-defined]
    return view


def public(view: View) -> View:
    """Declare that a view needs no role and no scope."""

    @functools.wraps(view)
    def limited(**path: Any) -> Any:
        with at_database():
            return view(**path)

    return _declare(cast(View, limited))


def without_database(view: View) -> View:
    """Declare that a view is public, and works while the database hangs."""
    return _declare(view)


def identify() -> Caller:
    """Return the caller of this request, or raise Unauthorized."""
    environ = request.environ
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized
    token = token.strip(" ")
    caller = _by_key(token) if is_key(token) else callers.get(tokens.check(token))
    environ[CALLER] = caller
    return caller


def _by_key(secret: str) -> Caller:
    caller = callers.get_by_key(secret)
    if caller.key and caller.key.networks and not caller.key.allows_address(remote_address()):
        raise AddressNotAllowed(remote_address())
    return caller


def caller() -> Caller:
    """Return the caller that the decorator admitted to this view."""
    known: Caller = request.environ[CALLER]
    return known


def check_every_view(app: Flask) -> None:
    """Raise if a view neither requires a role nor is declared public."""
    for endpoint, view in app.view_functions.items():
        if not hasattr(view, "access") or not hasattr(view, "scopes"):
            raise UnguardedView(f"The view '{endpoint}' has no role decorator.")
