"""Sessions of the console: the cookies, and the check that a form comes from its own pages."""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from typing import Any

from flask import Response, current_app, g, request

from app.auth import guard
from app.auth.callers import Caller, callers
from app.auth.tokens import Claims
from app.console.forms.submissions import posted
from app.core.errors import Forbidden, Unauthorized
from app.core.naming import Lookup
from app.core.permissions import KeyAccess
from app.core.types import Document
from app.http.tracing import CALLER
from app.users.oauth.store import Session, refresh_tokens
from app.users.second_factor.domain import FIELD, CodeRefused, has_factor
from app.users.second_factor.vault import vault
from app.users.store import users

# Browsers send a cookie with this prefix only over TLS, and no other host can set it.
HOST_PREFIX = "__Host-"
COOKIE = "quartermaster"
# Binds the sign-in form to the browser that requested it.
VISIT_COOKIE = "quartermaster-visit"
SAFE_METHODS = ("GET", "HEAD")
FORM = "form"
# The first match counts, because most browsers also name other browsers.
BROWSERS = ("Edg", "OPR", "Firefox", "Chromium", "Chrome", "Safari")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Linux", "Mac OS")
PROPER_NAMES = {"Edg": "Edge", "OPR": "Opera", "Mac OS": "macOS"}


class ForeignForm(Forbidden):
    """The form does not come from a page of this session."""

    sentence = (
        "This form is not from this page, or your browser did not send the cookie of this page. "
        "Allow cookies, reload the page, and send the form again."
    )


class AccessEnded(Forbidden):
    sentence = (
        "Your account may no longer use this console. If that is a mistake, ask an administrator "
        "for a role."
    )


class FactorMissing(Forbidden):
    sentence = "Your role needs a second factor. Set it up first: choose Your second factor."


def identify() -> Caller:
    """Return the signed-in caller, or raise Unauthorized; a form must be from its session."""
    session = refresh_tokens.session(cookie(COOKIE))
    if session is None:
        raise Unauthorized
    caller = callers.get(
        Claims(session.user_id, session.chain, int(session.expires_at.timestamp()))
    )
    if not caller.rights.permissions:
        # End the session permanently, even if the account gets the role back.
        refresh_tokens.revoke_chain(session.chain)
        raise AccessEnded
    endpoint = request.endpoint or ""
    # Open to somebody who must set up a second factor first.
    sets_up = endpoint == "console.sign_out" or endpoint.startswith("console.second-factor_")
    is_open = sets_up or not caller.rights.needs_second_factor
    # Not from the cache: a page after the set-up may come from another worker.
    if not (is_open or has_factor(users.get(Lookup.parse(caller.id), FIELD))):
        raise FactorMissing
    request.environ[CALLER] = caller
    if request.method not in SAFE_METHODS:
        require_own_form(COOKIE)
    g.session = session
    return caller


# API keys are for programs; pages need a session cookie.
required = partial(guard.required, KeyAccess.NONE, identified_by=identify)


def current_session() -> Session | None:
    """Return the session of this request, if somebody is signed in."""
    session: Session | None = g.get("session")
    return session


def begin(response: Response, user: Document, **about: Any) -> Response:
    """Begin a session for an authenticated account, and end the browser's former session.

    The session stores what is known about the sign-in; the response gets its cookie.
    """
    seconds = current_app.config["CONSOLE_SESSION_SECONDS"]
    browser = browser_name(request.headers.get("User-Agent", ""))
    issued = refresh_tokens.begin_session(
        user["_id"], user["PasswordVersion"], seconds, browser, **about
    )
    set_cookie(response, COOKIE, issued.token, max_age=seconds, samesite="Lax")
    if former := refresh_tokens.session(cookie(COOKIE)):
        refresh_tokens.revoke_chain(former.chain)
    return response


def form_token() -> str:
    """Return the token for a form in a page of this session.

    It is encrypted, and so different in each page: a page is compressed, and may contain text that
    a stranger put into a link. If the token were the same, page sizes would reveal it (BREACH).
    """
    return vault.seal(FORM, cookie(COOKIE))


def visit_secret() -> str:
    """Return what binds the forms of a sign-in to this browser, before it has a session."""
    secret = cookie(VISIT_COOKIE) or secrets.token_urlsafe(16)
    visit: str = g.setdefault("visit_secret", secret)
    return visit


def require_own_form(cookie_name: str) -> None:
    """Raise ForeignForm unless the posted form is from a page of this browser and service."""
    own, origin = f"{request.scheme}://{request.host}", request.headers.get("Origin")
    # Browsers send Sec-Fetch-Site only over TLS and to localhost, and Origin with every form.
    site = request.headers.get("Sec-Fetch-Site", "same-origin" if origin == own else "")
    secret, token = cookie(cookie_name), []
    with suppress(CodeRefused):
        if secret and site == "same-origin":
            token = vault.unseal(FORM, posted().get("token", ""))
    if token != [secret]:
        raise ForeignForm


def cookie(name: str) -> str:
    """Return a cookie of this request; over TLS, only one that was set over TLS."""
    return request.cookies.get(f"{HOST_PREFIX}{name}" if request.is_secure else name, "")


def set_cookie(
    response: Response, name: str, value: str, samesite: str, max_age: int | None = None
) -> None:
    is_secure = request.is_secure
    response.set_cookie(
        f"{HOST_PREFIX}{name}" if is_secure else name,
        value,
        max_age=max_age,
        # The prefix requires the path /. The cookie is used only below /console anyway.
        path="/" if is_secure else "/console",
        secure=is_secure,
        httponly=True,
        samesite=samesite,
    )


def browser_name(user_agent: str) -> str:
    """Return a short name for a User-Agent, such as Firefox on Windows."""
    browser = next((mark for mark in BROWSERS if mark in user_agent), "Another browser")
    system = next((mark for mark in SYSTEMS if mark in user_agent), None)
    name = PROPER_NAMES.get(browser, browser)
    return f"{name} on {PROPER_NAMES.get(system, system)}" if system else name
