"""Who is signed in at the console: the cookie of a session, and where a form comes from."""

from __future__ import annotations

import secrets
from functools import partial

from flask import Response, current_app, request

from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.roles import Role
from app.auth.scopes import KeyAccess
from app.auth.tokens import Claims
from app.console.forms.reading import SENDER, posted
from app.console.session.browsers import browser_name
from app.console.session.form_tokens import FormTokens
from app.errors import Forbidden, RoleMissing, Unauthorized
from app.http.context import current, current_environ
from app.http.tracing import CALLER
from app.oauth.store import RefreshTokens, Session
from app.types import Document

# A browser sends a cookie of this kind back by TLS alone, and lets no other host set it.
HOST_PREFIX = "__Host-"
COOKIE = "quartermaster"
# Binds the form of the sign-in to the browser that has asked for it.
VISIT_COOKIE = "quartermaster-visit"
SAFE_METHODS = ("GET", "HEAD")
_SESSION = "quartermaster.session"

callers = current(Callers)
form_tokens = current(FormTokens)
refresh_tokens = current(RefreshTokens)


class ForeignForm(Forbidden):
    """A form that is not from a page of this session."""

    sentence = (
        "This form is not from a page of your session. Open the page again, and send it there."
    )


def identify() -> Caller:
    """Return who is signed in, or raise Unauthorized; a form must be from the same session."""
    secret = cookie(COOKIE)
    session = refresh_tokens.session(secret) if secret else None
    if session is None:
        raise Unauthorized
    caller = callers.get(
        Claims(session.user_id, session.chain, int(session.expires_at.timestamp()))
    )
    if Role.API not in caller.roles:
        # For good: the role may be given back to the account, but not to this session.
        _revoke(session)
        raise RoleMissing(Role.API.value)
    environ = current_environ()
    environ[SENDER] = caller.id
    if request.method not in SAFE_METHODS:
        require_own_form(secret)
    environ[CALLER], environ[_SESSION] = caller, session
    return caller


# Keys are for programs: a page asks for the cookie of a session.
required = partial(guard.required, KeyAccess.NONE, identified_by=identify)


def current_session() -> Session | None:
    """Return the session of this request, if somebody is signed in."""
    return current_environ().get(_SESSION)


def begin(response: Response, user: Document) -> None:
    """Begin a session for an account that has been authenticated; the browser's former one ends."""
    seconds = current_app.config["CONSOLE_SESSION_SECONDS"]
    browser = browser_name(request.headers.get("User-Agent", ""))
    issued = refresh_tokens.begin_session(user["_id"], user["PasswordVersion"], seconds, browser)
    set_cookie(response, COOKIE, issued.token, max_age=seconds, samesite="Lax")
    secret = cookie(COOKIE)
    if former := refresh_tokens.session(secret) if secret else None:
        _revoke(former)


def end(response: Response) -> None:
    """End the session of this request."""
    if session := current_session():
        _revoke(session)
    set_cookie(response, COOKIE, "", max_age=0, samesite="Lax")


def _revoke(session: Session) -> None:
    refresh_tokens.revoke_chain(session.chain)
    callers.forget()


def form_token() -> str:
    """Return the token for a form in a page of this session."""
    return form_tokens.make(cookie(COOKIE))


def begin_visit(response: Response, secret: str) -> None:
    """Give the browser of somebody who is not signed in the cookie that its form needs."""
    set_cookie(response, VISIT_COOKIE, secret, samesite="Strict")


def visit_secret() -> str:
    return cookie(VISIT_COOKIE) or secrets.token_urlsafe(16)


def require_own_form(secret: str) -> None:
    """Raise ForeignForm unless the posted form is from a page of this browser and service."""
    token = posted().get("token", "")
    if not secret or not is_same_origin() or not form_tokens.check(secret, token):
        raise ForeignForm


def is_same_origin() -> bool:
    """Tell whether the browser says that a page of this service sent the request.

    Browsers send Sec-Fetch-Site by TLS and to localhost only, and Origin with every form.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    return request.headers.get("Origin") == f"{request.scheme}://{request.host}"


def cookie(name: str) -> str:
    """Return a cookie of this request; by TLS only one that was set by TLS."""
    return request.cookies.get(f"{HOST_PREFIX}{name}" if request.is_secure else name, "")


def set_cookie(
    response: Response, name: str, value: str, samesite: str, max_age: int | None = None
) -> None:
    is_secure = request.is_secure
    response.set_cookie(
        f"{HOST_PREFIX}{name}" if is_secure else name,
        value,
        max_age=max_age,
        # The prefix demands the path /. The cookie is honoured below /console alone anyway.
        path="/" if is_secure else "/console",
        secure=is_secure,
        httponly=True,
        samesite=samesite,
    )
