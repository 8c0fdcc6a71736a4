from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema
from marshmallow.validate import OneOf

from app.http.api import Schema
from app.http.fields import MESSAGES, Guid, Integer, PasswordHash, Text

NEEDED = {"password": ("username", "password"), "refresh_token": ("refresh_token",)}


class TokenArgs(Schema):
    """A request for a token: RFC 6749, with the hash of the password in the password's place."""

    grant_type = Text(required=True, metadata={"enum": list(NEEDED)})
    username = Text(metadata={"description": "With grant_type password."})
    password = PasswordHash(metadata={"description": "With grant_type password: SHA-256 in hex."})
    refresh_token = Text(metadata={"description": "With grant_type refresh_token."})

    @validates_schema
    def has_what_its_grant_needs(self, data: dict[str, Any], **_: Any) -> None:
        needed = NEEDED.get(data["grant_type"], ())
        missing = {name: [MESSAGES["required"]] for name in needed if name not in data}
        if missing:
            raise ValidationError(missing)


class TokenSchema(Schema):
    """An access token and the refresh token that gets the next one."""

    access_token = Text(required=True)
    token_type = Text(required=True, validate=OneOf(["bearer"]))
    expires_in = Integer(required=True)
    refresh_token = Guid(required=True)
    issued = Text(data_key=".issued", required=True)
    expires = Text(data_key=".expires", required=True)


class RevokedUserSchema(Schema):
    """Whose tokens were revoked."""

    username = Text(required=True)


class RevokedTokenSchema(RevokedUserSchema):
    """Which token was revoked."""

    tokenId = Guid(required=True)
