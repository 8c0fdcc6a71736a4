"""Signing in with a password, continuing with a refresh token, and ending sign-ins."""

from __future__ import annotations

from typing import Any

from app.auth import guard
from app.auth.callers import callers
from app.auth.guesses import Guess, attempt, guess_by_address, unknown_account
from app.core.naming import Lookup, name_key
from app.core.paging import CursorPage
from app.core.penalties import BAN, is_in_force
from app.core.permissions import RIGHTS, Permission, SignedIn
from app.core.types import Document
from app.http import tracing
from app.http.context import setting
from app.http.cursors import cursors
from app.storage.limits import marks
from app.storage.paging import newest_first
from app.users.accounts import is_own, verify
from app.users.domain import revoke_tokens
from app.users.oauth.domain import (
    TokenRefused,
    bad_credentials,
    bad_refresh_token,
    no_access,
)
from app.users.oauth.store import Issued, refresh_tokens
from app.users.operations import account_operation
from app.users.second_factor.domain import CodeRefused, has_factor
from app.users.second_factor.management import use_code
from app.users.store import users

RESCUE_SECONDS = 3600


def sign_in(username: str, password: str, otp: str) -> Issued:
    user = authenticate(username, password)
    if has_factor(user):
        if not otp:
            raise TokenRefused(
                "invalid_grant",
                "This account needs a code of its second factor in the field 'otp': the one that "
                "its app shows, or a recovery code. Programs use an API key instead.",
            )
        try:
            use_code(user, otp, "api")
        except CodeRefused as error:
            raise TokenRefused("invalid_grant", str(error)) from None
    require_factor(user)
    # The version was read together with the password: if the password has changed since, the new
    # token is invalid from the start.
    return refresh_tokens.issue(user["_id"], user["PasswordVersion"])


def authenticate(username: str, password: str, guess: Guess | None = None) -> Document:
    """Return the account of a name and a password, if it may use this service.

    The guess counts for the account and the address, unless one is given.
    """
    tracing.note(user=tracing.loggable_name(username))
    name = name_key(username)
    user = users.credentials({"NameKey": name})
    guess = guess or guess_by_address(user["_id"] if user else unknown_account(name))
    user = verify(user, guess, password, bad_credentials())
    require_access(user)
    if not setting("STAFF_PASSWORDS") and not marks.has(_password_mark(user["_id"])):
        raise TokenRefused(
            "access_denied",
            "Passwords are off for staff: sign in at the console with your company account. "
            "Programs use an API key.",
        )
    return user


def allow_password(user_id: str) -> None:
    """Let an account sign in with its password for a while, even if passwords are off."""
    marks.set(_password_mark(user_id), RESCUE_SECONDS)


def _password_mark(user_id: str) -> str:
    return f"password {user_id}"


def refresh(refresh_token: str) -> Issued:
    if issued := refresh_tokens.rotate(refresh_token, _require_valid):
        return issued
    # Only invalid tokens count: failures from the same address never block a valid one.
    with attempt(guess_by_address()):
        raise bad_refresh_token()


def _require_valid(token: Document) -> None:
    """Raise unless a token is still valid for its account, and the account may use it."""
    user = users.credentials({"_id": token["UserId"]})
    if user is None or user["PasswordVersion"] != token.get("PasswordVersion"):
        raise bad_refresh_token()
    tracing.note(user=user["Name"])
    require_access(user)
    require_factor(user)


def require_access(user: Document) -> None:
    """Refuse an account that is banned, disabled, or without a role."""
    if is_in_force(user, BAN, users.now()):
        until = user.get(BAN.until)
        end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
        raise TokenRefused("access_denied", f"This account is banned{end}.")
    if user.get("IsDisabled") is True:
        raise TokenRefused("access_denied", "This account is disabled. Ask an administrator.")
    if not callers.rights(user).permissions:
        raise no_access()


def require_factor(user: Document) -> None:
    """Refuse an account without the second factor that a role of it requires."""
    if callers.rights(user).needs_second_factor and not has_factor(user):
        raise TokenRefused(
            "access_denied",
            "A role of this account requires a second factor: set it up at the console first.",
        )


def owner(key: Lookup, _: Any = None) -> Document:
    """Return an account that the caller may manage: its own, or any with users.manage."""
    caller = guard.caller()
    if not is_own(key):
        caller.require(Permission.USERS_MANAGE)
    found = users.get(key, "Name", "PasswordVersion", *RIGHTS)
    if found["_id"] != caller.id:
        guard.require_peer(found)
    return found


def list_sign_ins(key: Lookup, size: int, after: str) -> CursorPage:
    user, cursor = owner(key), cursors.read(after)
    found = refresh_tokens.sign_ins(user)
    return newest_first.page(found, f"sign-ins {user['_id']}", size, cursor)


def end_sign_in(key: Lookup, chain: str) -> Document:
    """End one sign-in, and return its account."""
    user = owner(key)
    refresh_tokens.end_sign_in(user, chain)
    return user


REVOKE_TOKENS = account_operation(
    "revoke-tokens",
    no_undo="a token that was revoked stays so",
    sentence="Signed out everywhere",
    requires=(owner,),
    store=users,
    reads=("PasswordVersion",),
    rule=revoke_tokens,
    needs=(SignedIn.ANYBODY, Permission.USERS_MANAGE),
)
