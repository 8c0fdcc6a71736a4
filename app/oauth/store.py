"""Refresh tokens in MongoDB: stored hashed, each good for one use, linked in chains.

A chain begins with a password and grows with every refresh. A token that comes back after it was
used has been stolen, by whoever came first or second, so the whole chain ends.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from app.errors import NotFound
from app.oauth.domain import bad_refresh_token
from app.storage.client import Storage

Document = dict[str, Any]


class Issued(NamedTuple):
    """A refresh token, which is never seen in clear again."""

    user_id: str
    chain: str
    token: str


class RefreshTokens:
    """The refresh tokens of one application."""

    def __init__(self, storage: Storage, lifetime: int) -> None:
        self._tokens = storage.db["refresh_tokens"]
        self._lifetime = timedelta(seconds=lifetime)

    def issue(self, user_id: str, credentials: int, chain: str | None = None) -> Issued:
        """Add a token to a chain, or begin one, for a password that was changed so many times."""
        issued = Issued(user_id, chain or str(uuid.uuid4()), str(uuid.uuid4()))
        self._tokens.insert_one(
            {
                "_id": _hash(issued.token),
                "Chain": issued.chain,
                "UserId": user_id,
                "Credentials": credentials,
                "Used": False,
                "ExpiresAt": datetime.now(timezone.utc) + self._lifetime,
            }
        )
        return issued

    def find(self, token: str) -> Document:
        """Return what is known of a token that may still be used."""
        found = self._tokens.find_one({"_id": _hash(token)})
        if found is None or found["ExpiresAt"] <= datetime.now(timezone.utc):
            raise bad_refresh_token()
        if found["Used"]:
            self.revoke_chain(found["Chain"])
            raise bad_refresh_token()
        return found

    def rotate(self, found: Document) -> Issued:
        """Exchange a token for the next of its chain."""
        # The new one comes first: if we die in between, the old one still works.
        issued = self.issue(found["UserId"], found["Credentials"], found["Chain"])
        unused = {"_id": found["_id"], "Used": False}
        if not self._tokens.update_one(unused, {"$set": {"Used": True}}).matched_count:
            self.revoke_chain(found["Chain"])
            raise bad_refresh_token()
        return issued

    def revoke_chain(self, chain: str) -> None:
        self._tokens.delete_many({"Chain": chain})

    def revoke_user(self, user_id: str) -> None:
        """End all chains of a user."""
        self._tokens.delete_many({"UserId": user_id})

    def revoke_token(self, user: Document, token: str) -> None:
        """End the chain that a user's token belongs to."""
        found = self._tokens.find_one({"_id": _hash(token), "UserId": user["_id"]}, ["Chain"])
        if found is None:
            raise NotFound("refresh token of that id", user["Name"])
        self.revoke_chain(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()
