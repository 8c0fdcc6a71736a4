"""Sign-ins, token responses, and the errors of RFC 6749. Pure."""

from __future__ import annotations

from typing import Any

from app.core.errors import QuartermasterError
from app.core.types import Document


def public_sign_in(token: Document) -> Document:
    """Return the sign-in that a token or a session belongs to: its start, its end, and how."""
    return {
        "Id": token["Chain"],
        # Releases before 0.4 did not store when it began.
        "At": token.get("BeganAt", token["ExpiresAt"]),
        "ExpiresAt": token["ExpiresAt"],
        "Via": "console" if token.get("IsSession") else "api",
        "Browser": token.get("Browser"),
        "Method": token.get("Method"),
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


def no_access() -> TokenRefused:
    return TokenRefused(
        "access_denied",
        "This account may use neither the console nor the API: it has no role for them. Ask an "
        "administrator for one.",
    )


def refusal(error: TokenRefused) -> dict[str, Any]:
    """Return the body of an error, with the fields of RFC 6749 and our own Message."""
    fields = {"error": error.code, "error_description": str(error)}
    return {**fields, "Message": str(error), "Code": error.code.upper()}
