"""Manages the keys of an account: one's own, or anybody's with users.manage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from app.api_keys.domain import LIFETIME, READS, Terms, create, public_keys, revoke, rotate
from app.auth import guard
from app.auth.api_keys import digest_of, keys_of, new_secret, scopes_of
from app.auth.callers import Callers
from app.auth.permissions import permissions_of_scopes
from app.changes import Applied, Change, Intent
from app.errors import InvalidField
from app.http.context import current
from app.http.masking import masked
from app.naming import Lookup
from app.staff.domain import require_given
from app.storage.limits import Budgets
from app.types import Document
from app.users.store import Users

budgets = current(Budgets)
callers = current(Callers)
users = current(Users)


class Made(NamedTuple):
    """A key that was created or rotated; its secret is shown once, and never in a replay."""

    record: Document
    secret: str | None
    applied: Applied


def terms_of(body: dict[str, Any], now: datetime) -> Terms:
    wanted = permissions_of_scopes(body["Scopes"])
    # Names are stored for long and shown to many people, so a token in one is masked.
    name = masked(body["Name"].strip())
    expires_at = require_future(body["ExpiresAt"], now) or now + LIFETIME
    return Terms(name, wanted, expires_at, body["Addresses"], body["Budget"])


def require_future(wanted: datetime | None, now: datetime) -> datetime | None:
    """Return the expiry of a key, or raise if it is not in the future; None: not given."""
    if wanted is not None and wanted <= now:
        raise InvalidField("ExpiresAt", "Must be in the future.")
    return wanted


def list_keys(user_id: str) -> list[Document]:
    user = users.get(Lookup.parse(user_id), "Keys")
    used = budgets.used_today([id_ for id_, _ in keys_of(user)])
    return public_keys(user, users.now(), used)


def create_key(user_id: str, terms: Terms, intent: Intent) -> Made:
    _require_given(user_id, terms.scopes)
    secret, now = new_secret(), users.now()
    rule = partial(create, key_id=str(uuid.uuid4()), digest=digest_of(secret), terms=terms, now=now)
    meant = intent._replace(arguments=terms.history_arguments())
    return _made(user_id, secret, users.change(Lookup.parse(user_id), READS, rule, meant))


def rotate_key(
    owner: Document, key_id: str, overlap: timedelta, expires_at: datetime | None, intent: Intent
) -> Made:
    """Give a key of an account a new secret, with its original lifetime or until expires_at."""
    keys = dict(keys_of(users.get(Lookup.parse(owner["_id"]), "Keys")))
    _require_given(owner["_id"], scopes_of(keys.get(key_id, {})))
    secret, now = new_secret(), users.now()
    rule = partial(
        rotate, digest=digest_of(secret), overlap=overlap, expires_at=expires_at, now=now
    )
    return _made(owner["_id"], secret, _change(owner, key_id, rule, intent))


def revoke_key(owner: Document, key_id: str, intent: Intent) -> Applied:
    """Revoke a key of an account: immediately here, and within seconds on all workers."""
    return _change(owner, key_id, revoke, intent)


def _require_given(user_id: str, permissions: list[str]) -> None:
    """Raise MayNotGive if a key of somebody else could do more than the caller.

    The account may get a role later, and the caller knows the secret. Who has limits makes none
    that moves items: several keys, each with a budget, would together move more.
    """
    own = guard.own_rights()
    if own is None or guard.caller().id == user_id:
        return
    require_given(own, {"Permissions": permissions})


def _change(owner: Document, key_id: str, rule: Callable[..., Change], intent: Intent) -> Applied:
    account = Lookup.parse(owner["_id"])
    # History also records the name of the key, by which people recognise it.
    name = dict(keys_of(users.get(account, "Keys"))).get(key_id, {}).get("Name")
    meant = intent._replace(arguments={**intent.arguments, "Name": name})
    rule = partial(rule, key_id=key_id, owner=owner["Name"])
    applied = users.change(account, READS, rule, meant)
    callers.forget()
    return applied


def _made(user_id: str, secret: str, applied: Applied) -> Made:
    record = next((key for key in list_keys(user_id) if key["Id"] == applied.answer), {})
    return Made(record, None if applied.replayed else secret, applied)
