"""Refresh tokens in MongoDB: stored hashed, each good for one use, linked in chains.

A chain begins with a password and grows with every refresh. A token that comes back after it was
used has been stolen, by whoever came first or second, so the whole chain ends.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from datetime import timedelta
from typing import NamedTuple

from pymongo.errors import PyMongoError

from app.errors import NotFound
from app.oauth.domain import bad_refresh_token
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import COUNT, FLAG, GUID, MOMENT, TEXT, object_shape
from app.types import Document

log = logging.getLogger("quartermaster")

REFRESH_TOKENS = CollectionPlan(
    "refresh_tokens",
    object_shape(
        {
            "_id": TEXT,
            "Chain": GUID,
            "UserId": GUID,
            "PasswordVersion": COUNT,
            "Used": FLAG,
            "ExpiresAt": MOMENT,
        }
    ),
    (
        index("chain", "Chain", "Used"),
        index("user", "UserId", "Used", "-ExpiresAt", "_id"),
        expiry(),
    ),
)
# How many tokens beyond the limit one sign-in ends; it begins no more than one.
TRIMMED = 100


class Issued(NamedTuple):
    """A refresh token, which is never seen in clear again."""

    user_id: str
    chain: str
    token: str


class RefreshTokens:
    """The refresh tokens of one application."""

    def __init__(self, storage: Storage, lifetime: int, most: int) -> None:
        self._tokens = storage.db[REFRESH_TOKENS.name]
        self._clock = storage.clock
        self._lifetime = timedelta(seconds=lifetime)
        self._most = most

    def issue(self, user_id: str, password_version: int) -> Issued:
        """Begin a chain of tokens, for the password of this version."""
        issued = self._add(user_id, password_version, str(uuid.uuid4()))
        self._trim(user_id)
        return issued

    def _add(self, user_id: str, password_version: int, chain: str) -> Issued:
        issued = Issued(user_id, chain, str(uuid.uuid4()))
        self._tokens.insert_one(
            {
                "_id": _hash(issued.token),
                "Chain": issued.chain,
                "UserId": user_id,
                "PasswordVersion": password_version,
                "Used": False,
                "ExpiresAt": self._clock.now() + self._lifetime,
            }
        )
        return issued

    def _trim(self, user_id: str) -> None:
        """End the oldest living tokens of an account beyond the most that it may have.

        Everybody looks after its own token is there, so whoever looks last sees them all.
        """
        living = {"UserId": user_id, "Used": False}
        newest_first = [("ExpiresAt", -1), ("_id", 1)]
        # The index "user" has all of this: a thousand keys are passed over in a millisecond.
        surplus = self._tokens.find(living, ["_id"], skip=self._most, limit=TRIMMED)
        try:
            ids = [token["_id"] for token in surplus.sort(newest_first).batch_size(TRIMMED)]
            if ids:
                self._tokens.delete_many({"_id": {"$in": ids}})
        except PyMongoError as error:
            log.warning("Tokens beyond the limit are left to the next sign-in: %s", error)

    def find(self, token: str) -> Document | None:
        """Return what is known of a token that may still be used."""
        found = self._tokens.find_one({"_id": _hash(token)})
        if found is None or found["ExpiresAt"] <= self._clock.now():
            return None
        if found["Used"]:
            self.revoke_chain(found["Chain"])
            return None
        return found

    def rotate(self, found: Document) -> Issued:
        """Exchange a token for the next of its chain."""
        # The new one comes first: if we die in between, the old one still works.
        issued = self._add(found["UserId"], found["PasswordVersion"], found["Chain"])
        unused = {"_id": found["_id"], "Used": False}
        if not self._tokens.update_one(unused, {"$set": {"Used": True}}).matched_count:
            self.revoke_chain(found["Chain"])
            raise bad_refresh_token()
        return issued

    def revoke_chain(self, chain: str) -> None:
        """End a chain: without a token that may still be used, nothing of it is worth anything.

        There is one such token, or a few if somebody died amid a refresh. How many were used
        before, and are swept here, does not matter.
        """
        self._tokens.delete_many({"Chain": chain, "Used": False})
        bulk.sweep(self._tokens, {"Chain": chain})

    def revoke_token(self, user: Document, token: str) -> None:
        """End the chain that a user's token belongs to."""
        mine = {
            "_id": _hash(token),
            "UserId": user["_id"],
            "PasswordVersion": user["PasswordVersion"],
        }
        found = self._tokens.find_one(mine, ["Chain"])
        if found is None:
            raise NotFound("refresh token of that id", user["Name"])
        self.revoke_chain(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()
