"""The keys of an account: one's own, or with users.manage anybody's."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from app.api_keys.domain import LIFETIME, READS, Terms, create, revoke, rotate, served
from app.auth.api_keys import digest_of, keys_of, new_secret
from app.auth.callers import Callers
from app.auth.scopes import Scope
from app.changes import Applied, Intent
from app.errors import Invalid
from app.http.context import current
from app.http.masking import masked
from app.naming import Lookup
from app.storage.limits.quotas import Budgets
from app.types import Document
from app.users.store import Users

budgets = current(Budgets)
callers = current(Callers)
users = current(Users)


class Made(NamedTuple):
    """A key that was made or rotated; its text is shown once, and not at all by a repetition."""

    record: Document
    secret: str | None
    applied: Applied


def terms_of(body: dict[str, Any], now: datetime) -> Terms:
    """Return what a key is made with."""
    wanted = [scope for scope in Scope if scope.value in body["Scopes"]]
    # A name is kept for long and shown to many: a token in it is not.
    name = masked(body["Name"].strip())
    expires_at = require_future(body["ExpiresAt"], now) or now + LIFETIME
    return Terms(name, wanted, expires_at, body["Addresses"], body["Budget"])


def require_future(wanted: datetime | None, now: datetime) -> datetime | None:
    """Return when a key is to end, which must lie in the future; None where nothing is said."""
    if wanted is not None and wanted <= now:
        fault = "must lie in the future."
        raise Invalid(f"The field 'ExpiresAt' {fault}", {"ExpiresAt": [fault.capitalize()]})
    return wanted


def told(terms: Terms) -> dict[str, Any]:
    """Return what history tells of a new key."""
    return {
        "Name": terms.name,
        "Scopes": [scope.value for scope in terms.scopes],
        "ExpiresAt": terms.expires_at,
        "Addresses": terms.addresses,
        "Budget": terms.budget,
    }


def list_keys(user_id: str) -> list[Document]:
    """Return the keys of an account."""
    user = users.get(Lookup.parse(user_id), "Keys")
    used = budgets.used_today([id_ for id_, _ in keys_of(user)])
    return served(user, users.now(), used)


def create_key(user_id: str, terms: Terms, intent: Intent) -> Made:
    """Make a key for an account."""
    secret = new_secret()
    rule = partial(
        create,
        key_id=str(uuid.uuid4()),
        digest=digest_of(secret),
        terms=terms,
        now=users.now(),
    )
    return _made(user_id, secret, users.change(Lookup.parse(user_id), READS, rule, intent))


def rotate_key(
    owner: Document, key_id: str, overlap: timedelta, expires_at: datetime | None, intent: Intent
) -> Made:
    """Give a key of an account another text; it works as long as it did, or until a time."""
    secret = new_secret()
    rule = partial(
        rotate,
        key_id=key_id,
        owner=owner["Name"],
        digest=digest_of(secret),
        overlap=overlap,
        expires_at=expires_at,
        now=users.now(),
    )
    named = _naming(owner, key_id, intent)
    applied = users.change(Lookup.parse(owner["_id"]), READS, rule, named)
    callers.forget()
    return _made(owner["_id"], secret, applied)


def revoke_key(owner: Document, key_id: str, intent: Intent) -> Applied:
    """Revoke a key of an account: it is dead here at once, and everywhere within seconds."""
    rule = partial(revoke, key_id=key_id, owner=owner["Name"])
    named = _naming(owner, key_id, intent)
    applied = users.change(Lookup.parse(owner["_id"]), READS, rule, named)
    callers.forget()
    return applied


def _naming(owner: Document, key_id: str, intent: Intent) -> Intent:
    """Return an intent that tells the name of a key, too: people know it by that."""
    keys = dict(keys_of(users.get(Lookup.parse(owner["_id"]), "Keys")))
    name = keys.get(key_id, {}).get("Name")
    return intent._replace(arguments={**intent.arguments, "Name": name})


def _made(user_id: str, secret: str, applied: Applied) -> Made:
    record = next((key for key in list_keys(user_id) if key["Id"] == applied.answer), {})
    return Made(record, None if applied.replayed else secret, applied)
