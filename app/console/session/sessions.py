"""Who is signed in at the console: the cookie of a session, and where a form comes from."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import partial

from flask import Response, current_app, request

from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.roles import Role
from app.auth.scopes import KeyAccess
from app.auth.tokens import Claims
from app.console.forms.reading import SENDER, posted
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
TOKEN_SIZE = hashlib.sha256().digest_size
# The first that is found counts: most browsers name others as well.
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
        """Return a token for a session's secret, another one each time.

        A page is compressed, and holds what a stranger may have put into a link. If the token were
        the same in each page, the sizes of pages would betray it letter by letter (BREACH); so it
        is combined with random bytes.
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


def browser_name(user_agent: str) -> str:
    """Return what a User-Agent says in a few known words, such as Firefox on Windows."""
    known = (name for mark, name in BROWSERS.items() if mark in user_agent)
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), None)
    browser = next(known, "Another browser")
    return f"{browser} on {system}" if system else browser
