"""The keys by which tools authenticate."""

from __future__ import annotations

from flask import Response

from app.auth import guard
from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.changes import Applied
from app.core.errors import NotFound, NotOwned, RoleMissing
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.intents import answer, change_headers
from app.http.json import json_response
from app.users.api_keys.domain import KeyNameTaken, TooManyKeys
from app.users.api_keys.management import CREATE_KEY, NEEDS, REVOKE_KEY, ROTATE_KEY, list_keys
from app.users.api_keys.schemas import (
    KeyListSchema,
    KeyOwnerArgs,
    NewKeySchema,
    RevokedKeySchema,
    RotateArgs,
)
from app.users.oauth.sign_ins import owner
from app.users.staff.domain import MayNotGive

ABOUT = "Keys with which tools authenticate, instead of a password."

blp = Blueprint("Keys", __name__, url_prefix="/api/v1/keys", description=ABOUT)


not_found = NotOwned("key", "demo")
others = (RoleMissing(Permission.USERS_MANAGE.role.value), NotFound("user", Lookup.parse("nobody")))
lacking = MayNotGive("the permission 'items.move'")


@read_route(blp, "", KeyListSchema, *NEEDS, args=KeyOwnerArgs(), refuses=others)
def list_user_keys(args: Document) -> Document:
    """List keys

    Your own, or with the role `users.manage` those of any account.
    """
    return {"Values": list_keys(owner(whose(args))["_id"])}


@change_route(
    blp, CREATE_KEY, "", NewKeySchema, *others, lacking, KeyNameTaken("shop"), TooManyKeys()
)
@blp.arguments(KeyOwnerArgs(), location="query")
def create_user_key(body: Document, args: Document) -> Response:
    """Create a key

    For yourself, or with the role `users.manage` for any account. A key can never do more than its
    account. One for somebody else can only have permissions that you have yourself. Its secret is
    shown only in this response.
    """
    return key_response(execute(CREATE_KEY, whose(args), body))


@change_route(
    blp,
    ROTATE_KEY,
    "/<key_id>/rotate",
    NewKeySchema,
    *others,
    lacking,
    not_found,
    body=RotateArgs(),
)
@blp.arguments(KeyOwnerArgs(), location="query")
def rotate_user_key(body: Document, args: Document, key_id: str) -> Response:
    """Rotate a key

    The key gets a new secret, which is shown only in this response. The former secret works for
    some more hours, so that you can update tools one by one. Name, permissions, addresses and
    budget stay the same. By default, the lifetime of the key starts again.
    """
    return key_response(execute(ROTATE_KEY, whose(args), {"Id": key_id, **body}))


@change_route(
    blp,
    REVOKE_KEY,
    "/<key_id>",
    RevokedKeySchema,
    *others,
    not_found,
    method="DELETE",
    body=None,
)
@blp.arguments(KeyOwnerArgs(), location="query")
def revoke_user_key(args: Document, key_id: str) -> Response:
    """Revoke a key

    Permanently. All workers refuse it within seconds.
    """
    return answer(execute(REVOKE_KEY, whose(args), {"Id": key_id}))


def whose(args: Document) -> Lookup:
    """Return the account whose keys are requested: the caller's own, or any with users.manage."""
    return Lookup.parse(args.get("user", guard.caller().id))


def key_response(applied: Applied) -> Response:
    headers = {"Cache-Control": "no-store", **change_headers(applied)}
    return json_response(applied.answer, headers=headers)
