"""Issuing, refreshing and revoking tokens."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.callers import Callers
from app.auth.roles import Role
from app.auth.tokens import AccessTokens
from app.errors import Invalid, RateLimited, RoleMissing
from app.http import tracing
from app.http.api import Blueprint
from app.http.context import current
from app.http.errors import answer, body_of
from app.http.intents import intent
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.keys import Lookup, name_key
from app.oauth.domain import (
    TokenNotFound,
    TokenRefused,
    bad_credentials,
    bad_refresh_token,
    banned,
    no_access,
    refusal,
    token_answer,
    unsupported_grant,
)
from app.oauth.grants import refresh, sign_in
from app.oauth.schemas import (
    NEEDED,
    RevokedTokenSchema,
    RevokedUserSchema,
    TokenArgs,
    TokenFailureSchema,
    TokenSchema,
)
from app.oauth.store import RefreshTokens
from app.openapi.guide import STATUSES
from app.users.hashing import Hasher
from app.users.store import Users

blp = Blueprint("Credentials", __name__, url_prefix="/api/oauth", description="Tokens.")

access_tokens = current(AccessTokens)
callers = current(Callers)
hasher = current(Hasher)
refresh_tokens = current(RefreshTokens)
users = current(Users)

REFUSED = {
    error.code: {"value": refusal(error.code, str(error))}
    for error in (bad_credentials(), unsupported_grant())
}
REFUSED |= {
    "refresh_token": {"value": refusal("invalid_grant", str(bad_refresh_token()))},
    "invalid_request": {"value": refusal("invalid_request", "The field 'username' is required.")},
}
DENIED = {
    name: {"value": refusal(error.code, str(error))}
    for name, error in (("access_denied", no_access()), ("banned", banned(None)))
}


@blp.route("/token", methods=["POST"])
@guard.public
@blp.arguments(TokenArgs(), location="form")
@blp.documents_response(200, TokenSchema)
@blp.alt_response(400, schema=TokenFailureSchema, examples=REFUSED, description=STATUSES[400])
@blp.alt_response(403, schema=TokenFailureSchema, examples=DENIED, description=STATUSES[403])
@blp.refuses(RateLimited("account", 600))
def create_token(args: dict[str, Any]) -> Response:
    """Get an access token

    With a password, or with a refresh token, which works once: used again, it revokes all tokens
    that were issued after it. The body is a form; the same fields in JSON do as well.
    """
    if args["grant_type"] not in NEEDED:
        raise unsupported_grant()
    tracing.note(grant=args["grant_type"])
    if args["grant_type"] == "password":
        issued = sign_in(args["username"], args["password"])
    else:
        issued = refresh(args["refresh_token"])
    now = int(access_tokens.now())
    access = access_tokens.issue(issued.user_id, issued.chain, now)
    body = token_answer(access, issued.token, now, access_tokens.lifetime)
    return json_response(body, headers={"Cache-Control": "no-store"})


@blp.route("/tokens/<lookup:key>", methods=["DELETE"], is_documented=False)
@blp.route("/token/<lookup:key>", methods=["DELETE"])
@guard.required()
@blp.documents_response(200, RevokedUserSchema)
@blp.refuses(RoleMissing(Role.USERS_MANAGE.value))
@blp.recorded
def revoke_tokens(key: Lookup) -> Response:
    """Revoke all tokens of a user

    One's own, or with the role `users.manage` anybody's.
    """
    user = owner(key)
    users.revoke_tokens(Lookup.parse(user["_id"]), intent("revoke-tokens"))
    callers.forget()
    return json_response({"username": user["Name"]})


@blp.route("/tokens/<lookup:key>/<token_id>", methods=["DELETE"], is_documented=False)
@blp.route("/token/<lookup:key>/<token_id>", methods=["DELETE"])
@guard.required()
@blp.documents_response(200, RevokedTokenSchema)
@blp.refuses(RoleMissing(Role.USERS_MANAGE.value), TokenNotFound("demo"))
def revoke_token(key: Lookup, token_id: str) -> Response:
    """Revoke one refresh token and what was issued with it

    One's own, or with the role `users.manage` anybody's.
    """
    token = path_guid("tokenId", token_id)
    user = owner(key)
    refresh_tokens.revoke_token(user, token)
    callers.forget()
    return json_response({"username": user["Name"], "tokenId": token})


def owner(key: Lookup) -> dict[str, Any]:
    """Return the user of a lookup key: the caller itself, or with users.manage anybody."""
    caller = guard.caller()
    if caller.id != key.id and name_key(caller.name) != key.name_key:
        caller.require(Role.USERS_MANAGE)
    return users.get(key, "Name", "PasswordVersion")


@blp.errorhandler(TokenRefused)
def answer_refusal(error: TokenRefused) -> Response:
    tracing.note(error=error.code)
    status = 403 if error.code == "access_denied" else 400
    return json_response(refusal(error.code, str(error)), status, {"Cache-Control": "no-store"})


@blp.errorhandler(Invalid)
def answer_invalid(error: Invalid) -> Response:
    if request.method != "POST":
        return answer(error)
    tracing.note(error="invalid_request")
    body = body_of(error)
    said = {**refusal("invalid_request", body["Message"]), **body}
    return json_response(said, 400, {"Cache-Control": "no-store"})
