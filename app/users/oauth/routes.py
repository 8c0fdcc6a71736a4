"""Issuing, refreshing and revoking tokens."""

from __future__ import annotations

from email.utils import formatdate
from functools import partial
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.execution import change_route, execute
from app.auth.tokens import access_tokens
from app.auth.views import read_route
from app.core.errors import Invalid, NotOwned, RateLimited, RoleMissing
from app.core.naming import Lookup
from app.core.permissions import Permission, SignedIn
from app.core.types import Document
from app.http import tracing
from app.http.api import Blueprint
from app.http.errors import answer, body_of
from app.http.intents import answer as change_answer
from app.http.json import json_response
from app.http.lists import CursorListArgs, cursor_response, page_size
from app.http.openapi.guide import STATUSES
from app.users.oauth.domain import TokenRefused, bad_credentials, no_access, refusal
from app.users.oauth.schemas import (
    NEEDED,
    EndedSignInSchema,
    RevokedTokenSchema,
    RevokedUserSchema,
    SignInPageSchema,
    TokenArgs,
    TokenFailureSchema,
    TokenSchema,
)
from app.users.oauth.sign_ins import (
    REVOKE_TOKENS,
    end_sign_in,
    list_sign_ins,
    owner,
    refresh,
    sign_in,
)
from app.users.oauth.store import refresh_tokens

blp = Blueprint("Credentials", __name__, url_prefix="/api/oauth", description="Tokens.")


MANAGES = (SignedIn.ANYBODY, Permission.USERS_MANAGE)
not_manager = RoleMissing(Permission.USERS_MANAGE.role.value)


refused = partial(blp.alt_response, schema=TokenFailureSchema)


@blp.route("/token", methods=["POST"])
@guard.public
@blp.arguments(TokenArgs(), location="form")
@blp.response(200, TokenSchema)
@refused(400, example=refusal(bad_credentials()), description=STATUSES[400])
@refused(403, example=refusal(no_access()), description=STATUSES[403])
@blp.refuses(RateLimited("account", 600))
def create_token(args: Document) -> Response:
    """Get an access token

    With a password or a refresh token. A refresh token works once: using it again revokes all
    tokens that were issued after it. The body is a form, or JSON with the same fields.
    """
    if args["grant_type"] not in NEEDED:
        raise TokenRefused(
            "unsupported_grant_type", "The grant_type must be password or refresh_token."
        )
    tracing.note(grant=args["grant_type"])
    if args["grant_type"] == "password":
        issued = sign_in(args["username"], args["password"], args.get("otp", ""))
    else:
        issued = refresh(args["refresh_token"])
    now, lifetime = int(access_tokens.now()), access_tokens.lifetime
    body = {
        "access_token": access_tokens.issue(issued.user_id, issued.chain, now),
        "token_type": "bearer",
        "expires_in": lifetime,
        "refresh_token": issued.token,
        ".issued": formatdate(now, usegmt=True),
        ".expires": formatdate(now + lifetime, usegmt=True),
    }
    return json_response(body, headers={"Cache-Control": "no-store"})


@blp.alias("DELETE", "/tokens/<lookup:account>")
@change_route(
    blp, REVOKE_TOKENS, "/token/<lookup:account>", RevokedUserSchema, not_manager, method="DELETE"
)
def revoke_tokens(account: Lookup) -> Response:
    """Revoke all tokens of a user

    Your own, or with the role `users.manage` those of any user.
    """
    return change_answer(execute(REVOKE_TOKENS, account, {}))


@read_route(
    blp,
    "/sign-ins/<lookup:account>",
    SignInPageSchema,
    *MANAGES,
    args=CursorListArgs(),
    refuses=(not_manager,),
)
def list_user_sign_ins(args: Document, account: Lookup) -> Response:
    """List the sign-ins of a user

    Your own, or with the role `users.manage` those of any user. Only active sign-ins are listed,
    the newest first.
    """
    return cursor_response(list_sign_ins(account, page_size(args), args.get("after", "")))


@read_route(
    blp,
    "/sign-ins/<lookup:account>/<sign_in_id>",
    EndedSignInSchema,
    *MANAGES,
    method="DELETE",
    refuses=(not_manager, NotOwned("sign-in", "demo")),
)
def end_user_sign_in(account: Lookup, sign_in_id: str) -> Document:
    """End one sign-in of a user

    Your own, or with the role `users.manage` that of any user. Its tokens or its console session
    stop working.
    """
    user = end_sign_in(account, sign_in_id)
    return {"username": user["Name"], "Id": sign_in_id}


@blp.alias("DELETE", "/tokens/<lookup:account>/<token_id>")
@read_route(
    blp,
    "/token/<lookup:account>/<token_id>",
    RevokedTokenSchema,
    *MANAGES,
    method="DELETE",
    refuses=(not_manager, NotOwned("token", "demo")),
)
def revoke_token(account: Lookup, token_id: str) -> Document:
    """Revoke one refresh token and the tokens issued with it

    Your own, or with the role `users.manage` those of any user.
    """
    user = owner(account)
    refresh_tokens.revoke_token(user, token_id)
    return {"username": user["Name"], "tokenId": token_id}


@blp.errorhandler(TokenRefused)
def answer_refusal(error: TokenRefused, **more: Any) -> Response:
    tracing.note(error=error.code)
    status = 403 if error.code == "access_denied" else 400
    return json_response({**more, **refusal(error)}, status, {"Cache-Control": "no-store"})


@blp.errorhandler(Invalid)
def answer_invalid(error: Invalid) -> Response:
    if request.method != "POST":
        return answer(error)
    body = body_of(error)
    return answer_refusal(TokenRefused("invalid_request", body["Message"]), **body)
