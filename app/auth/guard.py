"""The decorators that check the permissions of people and of keys. Every view has one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from flask import Flask, has_request_context, request

from app.auth.api_keys import PREFIX
from app.auth.callers import Caller, NotPeer, callers
from app.auth.tokens import access_tokens as tokens
from app.core.errors import Forbidden, Unauthorized
from app.core.limits import at_database
from app.core.permissions import (
    MOVING,
    KeyAccess,
    Need,
    Permission,
    Rights,
    Role,
    SignedIn,
    covers,
    of_people,
)
from app.core.types import Document
from app.http.address import remote_address
from app.http.api import UnguardedView, View
from app.http.path_converters import with_guids
from app.http.tracing import CALLER
from app.storage.limits import limits


class AddressNotAllowed(Forbidden):
    sentence = "This key may not be used from the address {address}."


class FactorRequired(Forbidden):
    sentence = "A role of your account requires a second factor: set it up at the console first."


def required(
    *needs: Need, identified_by: Callable[[], Caller] | None = None
) -> Callable[[View], View]:
    """Require these permissions of a caller, and of the key that it uses.

    If KeyAccess is given, it decides about keys instead. A caller is identified by access token or
    key, unless identified_by is given.
    """
    permissions = of_people(needs)
    named = tuple(need for need in needs if isinstance(need, Permission))
    of_key = next((need for need in needs if isinstance(need, KeyAccess)), named)
    if not permissions and SignedIn.ANYBODY not in needs:
        raise UnguardedView("guard.required needs a permission, or SignedIn.ANYBODY.")

    def decorator(view: View) -> View:
        @functools.wraps(view)
        def guarded(**path: Any) -> Any:
            with at_database():
                caller = (identified_by or identify)()
                caller.require(*permissions, of_key=of_key)
                limits.count_request(caller.id)
                return view(**with_guids(path))

        return _declare(cast(View, guarded), permissions, of_key)

    return decorator


def _declare(
    view: View,
    permissions: tuple[Permission, ...] | None = None,
    of_key: tuple[Permission, ...] | KeyAccess = (),
) -> View:
    """Declare who may call a view, for the Blueprint and the documentation."""
    view.permissions = permissions  # type: ignore[attr-defined]
    # The roles of the contract that include them, each after the one it requires.
    roles = [role.value for role in Role]
    highest = max((roles.index(one.role.value) for one in permissions or ()), default=0)
    access = roles[: highest + 1] if permissions is not None else []
    if permissions and Permission.APPROVE in permissions:  # no role of the contract includes it
        access = [Permission.APPROVE.value]
    # None: the view is public.
    view.access = tuple(access)  # type: ignore[attr-defined]
    named = () if isinstance(of_key, KeyAccess) else tuple(one.value for one in of_key)
    # Empty: any key may call the view. None: no key may.
    view.scopes = None if of_key is KeyAccess.NONE else named  # type: ignore[attr-defined]
    return view


def public(view: View) -> View:
    """Declare that a view needs no role."""

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
    if token.startswith(PREFIX):
        caller = callers.get_by_key(token)
        if caller.key and not caller.key.allows_address(remote_address()):
            raise AddressNotAllowed(remote_address())
    else:
        caller = callers.get(tokens.check(token))
        # The token may be older than the role. Keys are for programs, which have no second factor.
        if caller.lacks_factor:
            raise FactorRequired
    environ[CALLER] = caller
    return caller


def caller() -> Caller:
    """Return the caller that the decorator admitted to this view."""
    known: Caller = request.environ[CALLER]
    return known


def own_rights() -> Rights | None:
    """Return the rights of the caller; None at the command line, where everything is allowed."""
    return caller().rights if has_request_context() else None


@contextmanager
def acting_as(other: Caller) -> Iterator[None]:
    """Let checks apply to somebody else, such as the person who asked for what is approved."""
    own = caller()
    request.environ[CALLER] = other
    try:
        yield
    finally:
        request.environ[CALLER] = own


def is_peer(user: Document) -> bool:
    """Tell whether the caller may do all that an account may, and as much of it.

    user has the fields RIGHTS of the account.

    Only then may the caller change how that account signs in: otherwise they could use it. Of a
    key, its permissions and its budget count: somebody else may hold it.
    """
    own, key = caller().rights, caller().key
    permissions = frozenset(filter(caller().may, own.permissions))
    if key and key.budget:
        permissions -= MOVING
    return covers(
        own._replace(permissions=permissions), callers.rights({**user, "IsDisabled": False})
    )


def require_peer(user: Document) -> None:
    """Raise NotPeer unless the caller is one, or it is the command line."""
    if has_request_context() and not is_peer(user):
        raise NotPeer


def check_every_view(app: Flask) -> None:
    """Raise if a view neither requires a permission nor is declared public."""
    for endpoint, view in app.view_functions.items():
        if not hasattr(view, "access"):
            raise UnguardedView(f"The view '{endpoint}' has no role decorator.")
