"""Rules for creating, rotating and revoking the keys of an account. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from app.auth.api_keys import keys_of, scopes_of, secrets_of
from app.core.changes import Change
from app.core.errors import Conflict, Damaged, NotOwned
from app.core.types import Document, whole

READS = ("Keys", "KeyDigests")
LIFETIME = timedelta(days=90)
MOST_KEYS = 50
# The maximum number of replaced secrets of a key that still work.
MOST_FORMER = 4


class KeyNameTaken(Conflict):
    """Another key of the account has this name; history identifies keys by name."""

    sentence = "The account already has a key with the name '{name}'."


class TooManyKeys(Conflict):
    sentence = f"The account has {MOST_KEYS} keys, the maximum: revoke one first."


class Terms(NamedTuple):
    name: str
    scopes: list[str]
    expires_at: datetime
    addresses: list[str] | None = None
    budget: Document | None = None

    def history_arguments(self) -> Document:
        return {
            "Name": self.name,
            "Scopes": self.scopes,
            "ExpiresAt": self.expires_at,
            "Addresses": self.addresses,
            "Budget": self.budget,
        }


def create(user: Document, *, key_id: str, digest: str, terms: Terms, now: datetime) -> Change:
    """Add a key to an account, and remove keys that expired long ago."""
    keys = {id_: key for id_, key in _changeable(user).items() if not _is_stale(key, now)}
    if any(key.get("Name") == terms.name for key in keys.values()):
        raise KeyNameTaken(terms.name)
    if len(keys) >= MOST_KEYS:
        raise TooManyKeys
    key: Document = {
        **terms.history_arguments(),
        "CreatedAt": now,
        "Secrets": [{"Digest": digest, "EndsAt": terms.expires_at}],
        "Lifetime": _seconds(now, terms.expires_at),
    }
    given = {name: value for name, value in key.items() if value is not None}
    return _with_keys({**keys, key_id: given}, key_id)


def rotate(
    user: Document,
    *,
    key_id: str,
    owner: str,
    digest: str,
    overlap: timedelta,
    expires_at: datetime | None,
    now: datetime,
) -> Change:
    """Give a key a new secret; the former one still works during the overlap.

    Without expires_at, the key starts its original lifetime again.
    """
    keys = _changeable(user)
    if key_id not in dict(keys_of(user)):
        raise NotOwned("key", owner)
    key = keys[key_id]
    if expires_at is None:
        lifetime = whole(key.get("Lifetime"))
        expires_at = now + (timedelta(seconds=lifetime) if lifetime else LIFETIME)
    rotated = {
        **key,
        "ExpiresAt": expires_at,
        "Secrets": [{"Digest": digest, "EndsAt": expires_at}, *_former(key, now, overlap)],
        "Lifetime": _seconds(now, expires_at),
    }
    return _with_keys({**keys, key_id: rotated}, key_id)


def _former(key: Document, now: datetime, overlap: timedelta) -> list[Document]:
    """Return the former secrets of a key that still work next to a new one."""
    ends = min(key["ExpiresAt"], now + overlap)
    former = [{**secret, "EndsAt": min(secret["EndsAt"], ends)} for secret in secrets_of(key)]
    return [secret for secret in former if overlap and secret["EndsAt"] > now][:MOST_FORMER]


def revoke(user: Document, *, key_id: str, owner: str) -> Change:
    keys = _changeable(user)
    if key_id not in keys:
        raise NotOwned("key", owner)
    return _with_keys({id_: key for id_, key in keys.items() if id_ != key_id}, key_id)


def public_keys(user: Document, now: datetime, used_today: Mapping[str, int]) -> list[Document]:
    """Return the keys of an account as its owner sees them, the newest first."""
    records = [
        _public_key(id_, key, now, used_today.get(id_, 0))
        for id_, key in keys_of(user)
        if isinstance(key.get("CreatedAt"), datetime)
    ]
    return sorted(records, key=lambda key: (key["CreatedAt"], key["Id"]), reverse=True)


def _public_key(id_: str, key: Document, now: datetime, used_today: int) -> Document:
    last_used, budget = key.get("LastUsedAt"), key.get("Budget")
    former = [secret["EndsAt"] for secret in secrets_of(key)[1:] if secret["EndsAt"] > now]
    return {
        "Id": id_,
        "Name": key["Name"],
        "Scopes": scopes_of(key),
        "CreatedAt": key["CreatedAt"],
        "ExpiresAt": key["ExpiresAt"],
        "FormerEndsAt": max(former, default=None),
        "LastUsedAt": last_used if isinstance(last_used, datetime) else None,
        "Addresses": _texts(key.get("Addresses")),
        "Budget": {
            "LargestQuantity": whole(budget.get("LargestQuantity")),
            "ItemsPerDay": whole(budget.get("ItemsPerDay")),
            "Items": _texts(budget.get("Items")),
        }
        if isinstance(budget, dict)
        else None,
        "UsedToday": used_today,
    }


def _texts(value: object) -> list[str] | None:
    """Return the texts of a stored list; None if there is no list, and [] if it is damaged."""
    if not isinstance(value, list):
        return None if value is None else []
    return [text for text in value if isinstance(text, str)]


def _changeable(user: Document) -> Document:
    keys = user.get("Keys")
    if not isinstance(keys, dict | None):
        raise Damaged("user")
    return keys or {}


def _seconds(now: datetime, expires_at: datetime) -> int:
    return max(1, round((expires_at - now).total_seconds()))


def _is_stale(key: object, now: datetime) -> bool:
    """Return whether a key expired so long ago that it can be removed."""
    ends = key.get("ExpiresAt") if isinstance(key, dict) else None
    return isinstance(ends, datetime) and ends < now - LIFETIME


def _with_keys(keys: Document, answer: str) -> Change:
    digests = [
        secret["Digest"]
        for key in keys.values()
        if isinstance(key, dict)
        for secret in secrets_of(key)
    ]
    return Change({"Keys": keys, "KeyDigests": digests}, answer)
