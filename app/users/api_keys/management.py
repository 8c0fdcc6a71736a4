"""Manages the keys of an account: one's own, or anybody's with users.manage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from app.auth import guard
from app.auth.api_keys import digest_of, keys_of, new_secret, scopes_of
from app.core.changes import Applied, Change, Intent
from app.core.errors import InvalidField, NotOwned
from app.core.naming import Lookup
from app.core.permissions import KeyAccess, Permission, permissions_of_scopes
from app.core.types import Document
from app.http.masking import masked
from app.storage.limits import budgets
from app.users.api_keys.domain import (
    LIFETIME,
    READS,
    create,
    public_keys,
    with_keys,
    with_new_secret,
)
from app.users.api_keys.schemas import KeyArgs, RevokeKeyArgs, RotateKeyArgs
from app.users.oauth.sign_ins import owner
from app.users.operations import account_operation
from app.users.staff.domain import require_given
from app.users.store import users


def require_future(wanted: datetime | None, now: datetime) -> datetime | None:
    """Return the expiry of a key, or raise if it is not in the future; None: not given."""
    if wanted is not None and wanted <= now:
        raise InvalidField("ExpiresAt", "Must be in the future.")
    return wanted


def list_keys(user_id: str) -> list[Document]:
    user = users.get(Lookup.parse(user_id), "Keys")
    used = budgets.used_today([*keys_of(user)])
    return public_keys(user, users.now(), used)


def create_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Create a key of an account; the answer has its secret, but not in a replay."""
    user_id, now, secret = users.get_id(key), users.now(), new_secret()
    terms = {
        **args,
        # Names are stored for long and shown to many people, so a token in one is masked.
        "Name": masked(args["Name"].strip()),
        "Scopes": permissions_of_scopes(args["Scopes"]),
        "ExpiresAt": require_future(args["ExpiresAt"], now) or now + LIFETIME,
    }
    _require_given(user_id, terms["Scopes"])
    rule = partial(create, key_id=str(uuid.uuid4()), digest=digest_of(secret), terms=terms, now=now)
    applied = users.change(Lookup.parse(user_id), READS, rule, intent._replace(arguments=terms))
    return _with_secret(user_id, secret, applied)


def rotate_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Give a key of an account a new secret, with its original lifetime or until ExpiresAt."""
    now, secret, hours = users.now(), new_secret(), timedelta(hours=args["OverlapHours"])
    expires_at = require_future(args["ExpiresAt"], now)

    def rotate(user_id: str, found: Document) -> Document:
        _require_given(user_id, scopes_of(found))
        return with_new_secret(found, digest_of(secret), hours, expires_at, now)

    account, applied = _change(key, args["Id"], rotate, intent)
    return _with_secret(account["_id"], secret, applied)


def revoke_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Revoke a key of an account: within seconds on all workers."""
    account, applied = _change(key, args["Id"], lambda *_: None, intent)
    return applied._replace(answer={"username": account["Name"], "Id": args["Id"]})


def _require_given(user_id: str, permissions: list[str]) -> None:
    """Raise MayNotGive if a key of somebody else could do more than the caller.

    The account may get a role later, and the caller knows the secret. Who has limits makes none
    that moves items: several keys, each with a budget, would together move more.
    """
    own = guard.own_rights()
    if own is None or guard.caller().id == user_id:
        return
    require_given(own, {"Permissions": permissions})


def _change(
    owner: Lookup,
    key_id: str,
    change: Callable[[str, Document], Document | None],
    intent: Intent,
) -> tuple[Document, Applied]:
    """Change a key of an account, or remove it; return the account, too."""
    account = users.get(owner, "Name", "Keys")

    def rule(user: Document) -> Change:
        keys = {**keys_of(user)}
        if key_id not in keys:
            raise NotOwned("key", account["Name"])
        if changed := change(account["_id"], keys.pop(key_id)):
            keys[key_id] = changed
        return with_keys(keys, key_id)

    # History also records the name of the key, by which people recognise it.
    name = keys_of(account).get(key_id, {}).get("Name")
    meant = intent._replace(arguments={**intent.arguments, "Name": name})
    return account, users.change(Lookup.parse(account["_id"]), READS, rule, meant)


def _with_secret(user_id: str, secret: str, applied: Applied) -> Applied:
    record = next((key for key in list_keys(user_id) if key["Id"] == applied.answer), {})
    return applied._replace(answer={**record, "Key": None if applied.replayed else secret})


# No key may manage keys: it could create one that outlives it.
NEEDS = (Permission.KEYS_MANAGE, KeyAccess.NONE)

CREATE_KEY = account_operation(
    "create-key",
    no_undo="revoke the key instead",
    sentence="Key {Name} made",
    arguments=KeyArgs(),
    requires=(owner,),
    run=create_key,
    needs=NEEDS,
)
ROTATE_KEY = account_operation(
    "rotate-key",
    no_undo="rotate the key again instead",
    sentence="Key {Name} rotated",
    arguments=RotateKeyArgs(),
    requires=(owner,),
    run=rotate_key,
    needs=NEEDS,
)
REVOKE_KEY = account_operation(
    "revoke-key",
    no_undo="the secret of the key is not kept",
    sentence="Key {Name} revoked",
    arguments=RevokeKeyArgs(),
    requires=(owner,),
    run=revoke_key,
    needs=NEEDS,
)
