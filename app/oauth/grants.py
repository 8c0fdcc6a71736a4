"""The grants: a pair of tokens for a password, or for the last refresh token of a chain."""

from __future__ import annotations

from app.auth.guesses import guess_at, guess_at_unknown_name, guess_from_here
from app.auth.roles import Role, roles_of
from app.errors import NotFound
from app.http import tracing
from app.http.context import current
from app.moderation.penalties import BAN, BAN_STATE, end_of, is_in_force
from app.naming import Lookup, name_key
from app.oauth.domain import bad_credentials, bad_refresh_token, banned, no_access
from app.oauth.store import Issued, RefreshTokens
from app.types import Document
from app.users.hashing import Hasher
from app.users.store import Users

hasher = current(Hasher)
refresh_tokens = current(RefreshTokens)
users = current(Users)


def sign_in(username: str, password: str) -> Issued:
    """Begin a chain of tokens with a password."""
    user = authenticate(username, password)
    # The version that was read with the password: if the password was changed since, the new
    # token is void from the start.
    return refresh_tokens.issue(user["_id"], user["PasswordVersion"])


def authenticate(username: str, password: str) -> Document:
    """Return the account of a name and a password, if it may use this service."""
    tracing.note(user=tracing.loggable_name(username))
    name = name_key(username)
    user = users.credentials(name)
    stored: str | None = user["PasswordHash"] if user else None
    guess = guess_at(user["_id"]) if user else guess_at_unknown_name(name)
    hasher.check(guess, stored, password, bad_credentials())
    if user is None or stored is None:  # hasher.check has refused it already
        raise bad_credentials()
    if renewed := hasher.renewed(stored, password):
        users.renew_hash(user["_id"], stored, renewed)
    _require_access(user)
    return user


def refresh(refresh_token: str) -> Issued:
    """Continue a chain of tokens with its last refresh token."""
    found = refresh_tokens.find(refresh_token)
    if found is None:
        # Counted only here: a valid token is not refused for failures from the same address.
        with guess_from_here().counted():
            raise bad_refresh_token()
    try:
        user = users.get(
            Lookup.parse(found["UserId"]), "Name", "Power", "PasswordVersion", *BAN_STATE
        )
    except NotFound:
        raise bad_refresh_token() from None
    tracing.note(user=user["Name"])
    if user["PasswordVersion"] != found.get("PasswordVersion"):
        raise bad_refresh_token()
    _require_access(user)
    # Rotated last: a refresh token that is used up without an answer would be lost.
    return refresh_tokens.rotate(found)


def _require_access(user: Document) -> None:
    if is_in_force(user, BAN, users.now()):
        raise banned(end_of(user, BAN))
    if Role.API not in roles_of(user["Power"]):
        raise no_access()
