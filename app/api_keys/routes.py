"""The keys by which tools authenticate."""

from __future__ import annotations

from datetime import timedelta

from flask import Response

from app.api_keys.domain import KeyNameTaken, TooManyKeys
from app.api_keys.management import (
    Made,
    create_key,
    list_keys,
    require_future,
    revoke_key,
    rotate_key,
    terms_of,
)
from app.api_keys.operations import CREATE_KEY, NEEDS, REVOKE_KEY, ROTATE_KEY
from app.api_keys.schemas import (
    KeyListSchema,
    KeyOwnerArgs,
    NewKeySchema,
    RevokedKeySchema,
)
from app.auth import guard
from app.auth.permissions import Permission
from app.auth.views import read_route
from app.errors import NotFound, NotOwned, RoleMissing
from app.execution import change_route
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import change_headers, change_response, intent
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.naming import Lookup
from app.oauth.sign_ins import owner
from app.staff.domain import MayNotGive
from app.types import Document
from app.users.store import Users

ABOUT = "Keys with which tools authenticate, instead of a password."

blp = Blueprint("Keys", __name__, url_prefix="/api/v1/keys", description=ABOUT)

users = current(Users)

not_found = NotOwned("key", "demo")
others = (RoleMissing(Permission.USERS_MANAGE.role.value), NotFound("user", Lookup.parse("nobody")))
lacking = MayNotGive("the permission 'items.move'")


@read_route(blp, "", KeyListSchema, *NEEDS, args=KeyOwnerArgs(), refuses=others)
def list_user_keys(args: Document) -> Document:
    """List keys

    Your own, or with the role `users.manage` those of any account.
    """
    return {"Values": list_keys(owner_of(args)["_id"])}


@change_route(
    *(blp, CREATE_KEY, "", NewKeySchema, *others, lacking, KeyNameTaken("shop"), TooManyKeys())
)
@blp.arguments(KeyOwnerArgs(), location="query")
def create_user_key(body: Document, args: Document) -> Response:
    """Create a key

    For yourself, or with the role `users.manage` for any account. A key can never do more than its
    account. One for somebody else can only have permissions that you have yourself. Its secret is
    shown only in this response.
    """
    user = owner_of(args)
    return key_response(create_key(user["_id"], terms_of(body, users.now()), intent(CREATE_KEY)))


@change_route(
    *(blp, ROTATE_KEY, "/<key_id>/rotate", NewKeySchema, *others, lacking, not_found),
    is_body_required=False,
)
@blp.arguments(KeyOwnerArgs(), location="query")
def rotate_user_key(body: Document, args: Document, key_id: str) -> Response:
    """Rotate a key

    The key gets a new secret, which is shown only in this response. The former secret works for
    some more hours, so that you can update tools one by one. Name, permissions, addresses and
    budget stay the same. By default, the lifetime of the key starts again.
    """
    id_ = path_guid("id", key_id)
    user = owner_of(args)
    expires_at = require_future(body["ExpiresAt"], users.now())
    overlap = timedelta(hours=body["OverlapHours"])
    meant = intent(ROTATE_KEY, {"Id": id_, "OverlapHours": body["OverlapHours"]})
    return key_response(rotate_key(user, id_, overlap, expires_at, meant))


@change_route(blp, REVOKE_KEY, "/<key_id>", RevokedKeySchema, *others, not_found, method="DELETE")
@blp.arguments(KeyOwnerArgs(), location="query")
def revoke_user_key(args: Document, key_id: str) -> Response:
    """Revoke a key

    Permanently. All workers refuse it within seconds.
    """
    id_ = path_guid("id", key_id)
    user = owner_of(args)
    applied = revoke_key(user, id_, intent(REVOKE_KEY, {"Id": id_}))
    return change_response(applied, {"username": user["Name"], "Id": id_})


def owner_of(args: Document) -> Document:
    """Return the account whose keys are requested: the caller's own, or any with users.manage."""
    return owner(Lookup.parse(args.get("user", guard.caller().id)))


def key_response(key: Made) -> Response:
    headers = {"Cache-Control": "no-store", **change_headers(key.applied)}
    return json_response({**key.record, "Key": key.secret}, headers=headers)
