"""Sessions of the console: the cookies, and the check that a form comes from its own pages."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import partial
from typing import Any

from flask import Response, current_app, request

from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.scopes import KeyAccess
from app.auth.tokens import Claims
from app.console.forms.reading import SENDER, posted
from app.errors import Forbidden, Unauthorized
from app.http.context import current, current_environ
from app.http.tracing import CALLER
from app.naming import Lookup
from app.oauth.store import RefreshTokens, Session
from app.second_factor.domain import FIELD, has_factor
from app.types import Document
from app.users.store import Users

# Browsers send a cookie with this prefix only over TLS, and no other host can set it.
HOST_PREFIX = "__Host-"
COOKIE = "quartermaster"
# Binds the sign-in form to the browser that requested it.
VISIT_COOKIE = "quartermaster-visit"
SAFE_METHODS = ("GET", "HEAD")
_SESSION = "quartermaster.session"
TOKEN_SIZE = hashlib.sha256().digest_size
# The first match counts, because most browsers also name other browsers.
BROWSERS = {
    **{"Edg": "Edge", "OPR": "Opera"},
    **{name: name for name in ("Firefox", "Chromium", "Chrome", "Safari")},
}
SYSTEMS = {
    **{name: name for name in ("Android", "iPhone", "iPad", "Windows", "Linux")},
    "Mac OS": "macOS",
}


class FormTokens:
    """Makes and checks form tokens. The first key signs; the others are still accepted."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = [f"quartermaster form {key}".encode() for key in keys]

    def make(self, secret: str) -> str:
        """Return a token for a session's secret, different each time.

        A page is compressed, and may contain text that a stranger put into a link. If the token
        were the same in each page, page sizes would reveal it letter by letter (BREACH). So it is
        combined with random bytes.
        """
        mask = secrets.token_bytes(TOKEN_SIZE)
        return (mask + _combined(mask, _digest(self._keys[0], secret))).hex()

    def check(self, secret: str, token: str) -> bool:
        """Tell whether a token was made for a session's secret."""
        try:
            parts = bytes.fromhex(token)
        except ValueError:
            return False
        digest = _combined(parts[:TOKEN_SIZE], parts[TOKEN_SIZE:])
        return any(hmac.compare_digest(_digest(key, secret), digest) for key in self._keys)


def _digest(key: bytes, secret: str) -> bytes:
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _combined(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


callers = current(Callers)
form_tokens = current(FormTokens)
refresh_tokens = current(RefreshTokens)
users = current(Users)


class ForeignForm(Forbidden):
    """The form does not come from a page of this session."""

    sentence = (
        "This form does not belong to your session. Reload the page, and send the form again."
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
    secret = cookie(COOKIE)
    session = refresh_tokens.session(secret) if secret else None
    if session is None:
        raise Unauthorized
    caller = callers.get(
        Claims(session.user_id, session.chain, int(session.expires_at.timestamp()))
    )
    if not caller.rights.permissions:
        # End the session permanently, even if the account gets the role back.
        _revoke(session)
        raise AccessEnded
    if caller.rights.needs_second_factor and not _is_open_without_factor():
        require_factor(caller)
    environ = current_environ()
    environ[SENDER] = caller.id
    if request.method not in SAFE_METHODS:
        require_own_form(secret)
    environ[CALLER], environ[_SESSION] = caller, session
    return caller


def _is_open_without_factor() -> bool:
    """Return whether this page is open to somebody who must set up a second factor first."""
    endpoint = request.endpoint or ""
    return endpoint == "console.sign_out" or endpoint.startswith("console.second-factor_")


def require_factor(caller: Caller) -> None:
    """Raise FactorMissing unless the account has a second factor, which a role of it requires."""
    # Not from the cache: a page after the set-up may come from another worker.
    if not has_factor(users.get(Lookup.parse(caller.id), FIELD)):
        raise FactorMissing


# API keys are for programs; pages need a session cookie.
required = partial(guard.required, KeyAccess.NONE, identified_by=identify)


def current_session() -> Session | None:
    """Return the session of this request, if somebody is signed in."""
    return current_environ().get(_SESSION)


def begin(response: Response, user: Document, **about: Any) -> None:
    """Begin a session for an authenticated account, and end the browser's former session.

    The session stores what is known about the sign-in.
    """
    seconds = current_app.config["CONSOLE_SESSION_SECONDS"]
    browser = browser_name(request.headers.get("User-Agent", ""))
    issued = refresh_tokens.begin_session(
        user["_id"], user["PasswordVersion"], seconds, browser, **about
    )
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


def end_others() -> None:
    """Keep only the session of this request, after a change that ended all sign-ins."""
    if session := current_session():
        refresh_tokens.outlive_change(session.chain)
        users.sweep_tokens(Lookup.parse(session.user_id))
        callers.forget()


def form_token() -> str:
    """Return the token for a form in a page of this session."""
    return form_tokens.make(cookie(COOKIE))


def begin_visit(response: Response, secret: str) -> None:
    """Set the cookie that the sign-in form needs."""
    set_cookie(response, VISIT_COOKIE, secret, samesite="Strict")


def visit_secret() -> str:
    return cookie(VISIT_COOKIE) or secrets.token_urlsafe(16)


def require_own_form(secret: str) -> None:
    """Raise ForeignForm unless the posted form is from a page of this browser and service."""
    token = posted().get("token", "")
    if not secret or not is_same_origin() or not form_tokens.check(secret, token):
        raise ForeignForm


def is_same_origin() -> bool:
    """Tell whether the headers of the browser show that a page of this service sent the request.

    Browsers send Sec-Fetch-Site only over TLS and to localhost, and Origin with every form.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    return request.headers.get("Origin") == f"{request.scheme}://{request.host}"


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
    known = (name for mark, name in BROWSERS.items() if mark in user_agent)
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), None)
    browser = next(known, "Another browser")
    return f"{browser} on {system}" if system else browser
