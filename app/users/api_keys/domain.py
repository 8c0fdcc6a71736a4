"""Rules for creating, rotating and revoking the keys of an account. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from app.auth.api_keys import keys_of, scopes_of
from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document

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


def create(user: Document, *, key_id: str, digest: str, terms: Document, now: datetime) -> Change:
    """Add a key to an account, and remove keys that expired long ago."""
    keys = {id_: key for id_, key in keys_of(user).items() if key["ExpiresAt"] >= now - LIFETIME}
    if any(key["Name"] == terms["Name"] for key in keys.values()):
        raise KeyNameTaken(terms["Name"])
    if len(keys) >= MOST_KEYS:
        raise TooManyKeys
    key: Document = {
        **terms,
        "CreatedAt": now,
        "Secrets": [{"Digest": digest, "EndsAt": terms["ExpiresAt"]}],
        "Lifetime": _seconds(now, terms["ExpiresAt"]),
    }
    given = {name: value for name, value in key.items() if value is not None}
    return with_keys({**keys, key_id: given}, key_id)


def with_new_secret(
    key: Document, digest: str, overlap: timedelta, expires_at: datetime | None, now: datetime
) -> Document:
    """Return a key with a new secret; the former one still works during the overlap.

    Without expires_at, the key starts its original lifetime again.
    """
    if expires_at is None:
        expires_at = now + timedelta(seconds=key.get("Lifetime", LIFETIME.total_seconds()))
    return {
        **key,
        "ExpiresAt": expires_at,
        "Secrets": [{"Digest": digest, "EndsAt": expires_at}, *_former(key, now, overlap)],
        "Lifetime": _seconds(now, expires_at),
    }


def _former(key: Document, now: datetime, overlap: timedelta) -> list[Document]:
    """Return the former secrets of a key that still work next to a new one."""
    ends = min(key["ExpiresAt"], now + overlap)
    former = [{**secret, "EndsAt": min(secret["EndsAt"], ends)} for secret in key["Secrets"]]
    return [secret for secret in former if overlap and secret["EndsAt"] > now][:MOST_FORMER]


# What an empty budget is served as.
NO_LIMITS = dict.fromkeys(("LargestQuantity", "ItemsPerDay", "Items"))


def public_keys(user: Document, now: datetime, used_today: Mapping[str, int]) -> list[Document]:
    """Return the keys of an account as its owner sees them, the newest first."""
    records = [_public_key(id_, key, now, used_today[id_]) for id_, key in keys_of(user).items()]
    return sorted(records, key=lambda key: (key["CreatedAt"], key["Id"]), reverse=True)


def _public_key(id_: str, key: Document, now: datetime, used_today: int) -> Document:
    former = [secret["EndsAt"] for secret in key["Secrets"][1:] if secret["EndsAt"] > now]
    budget = key.get("Budget")
    return {
        "Id": id_,
        "Name": key["Name"],
        "Scopes": scopes_of(key),
        "CreatedAt": key["CreatedAt"],
        "ExpiresAt": key["ExpiresAt"],
        "FormerEndsAt": max(former, default=None),
        **{name: key.get(name) for name in ("LastUsedAt", "Addresses")},
        "Budget": None if budget is None else {**NO_LIMITS, **budget},
        "UsedToday": used_today,
    }


def _seconds(now: datetime, expires_at: datetime) -> int:
    return max(1, round((expires_at - now).total_seconds()))


def with_keys(keys: Document, answer: str) -> Change:
    digests = [secret["Digest"] for key in keys.values() for secret in key["Secrets"]]
    return Change({"Keys": keys, "KeyDigests": digests}, answer)
