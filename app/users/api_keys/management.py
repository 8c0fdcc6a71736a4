"""Manages the keys of an account: one's own, or anybody's with users.manage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from app.auth import guard
from app.auth.api_keys import digest_of, keys_of, new_secret, scopes_of
from app.auth.callers import Callers
from app.core.changes import Applied, Change, Intent
from app.core.errors import InvalidField
from app.core.naming import Lookup
from app.core.permissions import permissions_of_scopes
from app.core.types import Document
from app.http.context import current
from app.http.masking import masked
from app.storage.limits import Budgets
from app.users.api_keys.domain import LIFETIME, READS, Terms, create, public_keys, revoke, rotate
from app.users.staff.domain import require_given
from app.users.store import Users

budgets = current(Budgets)
callers = current(Callers)
users = current(Users)


def require_future(wanted: datetime | None, now: datetime) -> datetime | None:
    """Return the expiry of a key, or raise if it is not in the future; None: not given."""
    if wanted is not None and wanted <= now:
        raise InvalidField("ExpiresAt", "Must be in the future.")
    return wanted


def list_keys(user_id: str) -> list[Document]:
    user = users.get(Lookup.parse(user_id), "Keys")
    used = budgets.used_today([id_ for id_, _ in keys_of(user)])
    return public_keys(user, users.now(), used)


def create_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Create a key of an account; the answer has its secret, but not in a replay."""
    user_id, now, secret = users.get(key, "_id")["_id"], users.now(), new_secret()
    terms = Terms(
        # Names are stored for long and shown to many people, so a token in one is masked.
        masked(args["Name"].strip()),
        permissions_of_scopes(args["Scopes"]),
        require_future(args["ExpiresAt"], now) or now + LIFETIME,
        args["Addresses"],
        args["Budget"],
    )
    _require_given(user_id, terms.scopes)
    rule = partial(create, key_id=str(uuid.uuid4()), digest=digest_of(secret), terms=terms, now=now)
    meant = intent._replace(arguments=terms.history_arguments())
    applied = users.change(Lookup.parse(user_id), READS, rule, meant)
    return _with_secret(user_id, secret, applied)


def rotate_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Give a key of an account a new secret, with its original lifetime or until ExpiresAt."""
    account, now, secret = _account(key), users.now(), new_secret()
    rule = partial(
        rotate,
        digest=digest_of(secret),
        overlap=timedelta(hours=args["OverlapHours"]),
        expires_at=require_future(args["ExpiresAt"], now),
        now=now,
    )
    _require_given(account["_id"], scopes_of(dict(keys_of(account)).get(args["Id"], {})))
    return _with_secret(account["_id"], secret, _change(account, args["Id"], rule, intent))


def revoke_key(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Revoke a key of an account: immediately here, and within seconds on all workers."""
    account = _account(key)
    applied = _change(account, args["Id"], revoke, intent)
    return applied._replace(answer={"username": account["Name"], "Id": args["Id"]})


def _account(key: Lookup) -> Document:
    # An account created by a game may lack a name.
    return {"Name": str(key), **users.get(key, "Name", "Keys")}


def _require_given(user_id: str, permissions: list[str]) -> None:
    """Raise MayNotGive if a key of somebody else could do more than the caller.

    The account may get a role later, and the caller knows the secret. Who has limits makes none
    that moves items: several keys, each with a budget, would together move more.
    """
    own = guard.own_rights()
    if own is None or guard.caller().id == user_id:
        return
    require_given(own, {"Permissions": permissions})


def _change(account: Document, key_id: str, rule: Callable[..., Change], intent: Intent) -> Applied:
    # History also records the name of the key, by which people recognise it.
    name = dict(keys_of(account)).get(key_id, {}).get("Name")
    meant = intent._replace(arguments={**intent.arguments, "Name": name})
    rule = partial(rule, key_id=key_id, owner=account["Name"])
    applied = users.change(Lookup.parse(account["_id"]), READS, rule, meant)
    callers.forget()
    return applied


def _with_secret(user_id: str, secret: str, applied: Applied) -> Applied:
    record = next((key for key in list_keys(user_id) if key["Id"] == applied.answer), {})
    return applied._replace(answer={**record, "Key": None if applied.replayed else secret})
