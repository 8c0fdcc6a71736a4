"""Sign-ins, token responses, and the errors of RFC 6749. Pure."""

from __future__ import annotations

from datetime import datetime
from email.utils import formatdate
from typing import Any, NamedTuple

from app.core.errors import QuartermasterError


class SignIn(NamedTuple):
    """A token chain or a console session: its start, its end, and the browser of a session."""

    chain: str
    at: datetime
    expires_at: datetime
    is_session: bool
    browser: str | None
    # How a session began: with a password, or with a company account (openid).
    method: str | None = None


def public_sign_in(sign_in: SignIn) -> dict[str, Any]:
    return {
        "Id": sign_in.chain,
        "At": sign_in.at,
        "ExpiresAt": sign_in.expires_at,
        "Via": "console" if sign_in.is_session else "api",
        "Browser": sign_in.browser,
        "Method": sign_in.method,
    }


class TokenRefused(QuartermasterError):
    """A refused request for a token, with its error code of RFC 6749."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def bad_credentials() -> TokenRefused:
    return TokenRefused("invalid_grant", "The username or the password is wrong.")


def bad_refresh_token() -> TokenRefused:
    return TokenRefused("invalid_grant", "The refresh token is unknown, expired, used or revoked.")


def code_needed() -> TokenRefused:
    return TokenRefused(
        "invalid_grant",
        "This account needs a code of its second factor in the field 'otp': the one that its app "
        "shows, or a recovery code. Programs use an API key instead.",
    )


def unsupported_grant() -> TokenRefused:
    return TokenRefused(
        "unsupported_grant_type", "The grant_type must be password or refresh_token."
    )


def factor_required() -> TokenRefused:
    return TokenRefused(
        "access_denied",
        "A role of this account requires a second factor: set it up at the console first.",
    )


def no_access() -> TokenRefused:
    return TokenRefused(
        "access_denied",
        "This account may use neither the console nor the API: it has no role for them. Ask an "
        "administrator for one.",
    )


def account_banned(until: datetime | None) -> TokenRefused:
    end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
    return TokenRefused("access_denied", f"This account is banned{end}.")


def refusal(code: str, message: str) -> dict[str, Any]:
    """Return the body of an error, with the fields of RFC 6749 and our own Message."""
    fields = {"error": code, "error_description": message}
    return {**fields, "Message": message, "Code": code.upper()}


def token_answer(access: str, refresh: str, now: int, lifetime: int) -> dict[str, Any]:
    return {
        "access_token": access,
        "token_type": "bearer",
        "expires_in": lifetime,
        "refresh_token": refresh,
        ".issued": formatdate(now, usegmt=True),
        ".expires": formatdate(now + lifetime, usegmt=True),
    }
