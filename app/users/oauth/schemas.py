from __future__ import annotations

import re
from typing import Any

from marshmallow import EXCLUDE, ValidationError, validates, validates_schema
from marshmallow.validate import OneOf

from app.http.api import FailureSchema, Schema
from app.http.examples import SIGN_IN, TOKEN
from app.http.fields import (
    MESSAGES,
    Guid,
    Integer,
    Moment,
    PasswordHash,
    Text,
)
from app.http.lists import CursorPageSchema, page_of

# A code of the app or a recovery code, in groups or not.
OTP = re.compile(r"[0-9A-Za-z -]{0,64}")
NEEDED = {"password": ("username", "password"), "refresh_token": ("refresh_token",)}


class TokenArgs(Schema):
    """A request for a token: RFC 6749, with the hash of the password in the password's place."""

    class Meta:
        unknown = EXCLUDE

    grant_type = Text(required=True, example="password", enum=list(NEEDED))
    username = Text(example="demo", description="With the grant_type password.")
    password = PasswordHash(
        description="With the grant_type password: the SHA-256 of the password in hex."
    )
    otp = Text(
        example="492039",
        pattern=f"^{OTP.pattern}$",
        description=(
            "With the grant_type password, if the account has a second factor: the code that its "
            "app shows, or a recovery code."
        ),
    )
    refresh_token = Text(
        description="With the grant_type refresh_token: the latest refresh token, a guid."
    )

    @validates("otp")
    def looks_like_a_code(self, value: str, data_key: str) -> None:
        if not OTP.fullmatch(value):
            raise ValidationError("Must be a code of the app or a recovery code.")

    @validates_schema
    def has_what_its_grant_needs(self, data: dict[str, Any], **_: Any) -> None:
        needed = NEEDED.get(data["grant_type"], ())
        missing = {name: [MESSAGES["required"]] for name in needed if name not in data}
        if missing:
            raise ValidationError(missing)


class TokenSchema(Schema):
    """An access token and the refresh token that gets the next one."""

    access_token = Text(
        required=True, example="WyI0Zm...Xw", description="For the header Authorization."
    )
    token_type = Text(required=True, validate=OneOf(["bearer"]), example="bearer")
    expires_in = Integer(required=True, example=300, description="In seconds.")
    refresh_token = Guid(required=True, example=TOKEN, description="Works once.")
    issued = Text(data_key=".issued", required=True, example="Sat, 31 Jan 2026 12:00:00 GMT")
    expires = Text(data_key=".expires", required=True, example="Sat, 31 Jan 2026 12:05:00 GMT")


class TokenFailureSchema(FailureSchema):
    """An error in the format of RFC 6749, with the fields of all other errors."""

    error = Text(required=True, example="invalid_grant")
    error_description = Text(required=True)


class RevokedUserSchema(Schema):
    """Whose tokens were revoked."""

    username = Text(required=True, example="demo")


class SignInSchema(Schema):
    """A sign-in: a chain of tokens, or a session at the console."""

    Id = Guid(example=SIGN_IN)
    At = Moment(example="2026-01-31T12:00:00Z")
    ExpiresAt = Moment(
        example="2026-02-07T12:00:00Z", description="When it expires, unless it is renewed."
    )
    Via = Text(example="api", enum=["api", "console"])
    Browser = Text(allow_none=True, example=None, description="Of a session.")
    Method = Text(
        allow_none=True,
        example=None,
        description="How a session began: password, or openid for a company account.",
    )


SignInPageSchema = page_of(SignInSchema, CursorPageSchema)


class EndedSignInSchema(RevokedUserSchema):
    """Which sign-in was ended."""

    Id = Guid(required=True, example=SIGN_IN)


class RevokedTokenSchema(RevokedUserSchema):
    """Which token was revoked."""

    tokenId = Guid(required=True, example=TOKEN)
