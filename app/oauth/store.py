"""Refresh tokens in MongoDB: hashed, single-use, linked in chains.

A chain begins with a sign-in and grows with every refresh. A token that is presented a second time
has been stolen, by the first or by the second client, so the whole chain is revoked.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pymongo.errors import PyMongoError

from app.oauth.domain import TokenNotFound, bad_refresh_token
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
        },
        # When the chain began, with a sign-in.
        {"BeganAt": MOMENT},
    ),
    (
        index("chain", "Chain", "Used"),
        index("user", "UserId", "Used", "-ExpiresAt", "_id"),
        expiry(),
    ),
)
# How many surplus tokens one sign-in deletes at most.
TRIMMED = 100
MOST_SIGN_INS = 100


class Issued(NamedTuple):
    """A new refresh token; only its hash is stored."""

    user_id: str
    chain: str
    token: str


class SignIn(NamedTuple):
    """A chain of tokens, and when it began."""

    chain: str
    at: datetime


class RefreshTokens:
    """The refresh tokens of one application."""

    def __init__(self, storage: Storage, lifetime: int, most: int) -> None:
        self._tokens = storage.db[REFRESH_TOKENS.name]
        self._clock = storage.clock
        self._lifetime = timedelta(seconds=lifetime)
        self._most = most

    def issue(self, user_id: str, password_version: int) -> Issued:
        """Begin a chain of tokens, for the password of this version."""
        now = self._clock.now()
        issued = self._add(user_id, password_version, str(uuid.uuid4()), now, now)
        self._trim(user_id)
        return issued

    def sign_ins(self, user_id: str) -> list[SignIn]:
        """Return the newest chains of an account that are still in use, the newest first."""
        found = self._tokens.find(
            {"UserId": user_id, "Used": False}, ["Chain", "BeganAt", "ExpiresAt"]
        )
        newest = found.sort([("ExpiresAt", -1), ("_id", 1)]).limit(MOST_SIGN_INS)
        began = {
            # Older programs did not store when a chain began.
            token["Chain"]: token.get("BeganAt") or token["ExpiresAt"] - self._lifetime
            for token in newest
        }
        sign_ins = [SignIn(chain, at) for chain, at in began.items()]
        return sorted(sign_ins, key=lambda sign_in: sign_in.at, reverse=True)

    def _add(
        self, user_id: str, password_version: int, chain: str, now: datetime, began_at: Any
    ) -> Issued:
        issued = Issued(user_id, chain, str(uuid.uuid4()))
        self._tokens.insert_one(
            {
                "_id": _hash(issued.token),
                "Chain": issued.chain,
                "UserId": user_id,
                "PasswordVersion": password_version,
                "Used": False,
                "ExpiresAt": now + self._lifetime,
                **({"BeganAt": began_at} if began_at else {}),
            }
        )
        return issued

    def _trim(self, user_id: str) -> None:
        """Delete the oldest unused tokens of an account beyond the limit.

        Each sign-in counts after its own insert, so of concurrent ones the last sees all.
        """
        unused = {"UserId": user_id, "Used": False}
        newest_first = [("ExpiresAt", -1), ("_id", 1)]
        # Covered by the index "user": skipping a thousand keys takes a millisecond.
        surplus = self._tokens.find(unused, ["_id"], skip=self._most, limit=TRIMMED)
        try:
            ids = [token["_id"] for token in surplus.sort(newest_first).batch_size(TRIMMED)]
            if ids:
                self._tokens.delete_many({"_id": {"$in": ids}})
        except PyMongoError as error:
            log.warning("Tokens beyond the limit are left to the next sign-in: %s", error)

    def find(self, token: str) -> Document | None:
        """Return the document of a token that is valid; revoke the chain of a used one."""
        found = self._tokens.find_one({"_id": _hash(token)})
        if found is None or found["ExpiresAt"] <= self._clock.now():
            return None
        if found["Used"]:
            self.revoke_chain(found["Chain"])
            return None
        return found

    def rotate(self, found: Document) -> Issued:
        """Exchange a token for the next of its chain."""
        # Inserted first: after a crash in between, the old token still works.
        issued = self._add(
            found["UserId"],
            found["PasswordVersion"],
            found["Chain"],
            self._clock.now(),
            found.get("BeganAt"),
        )
        unused = {"_id": found["_id"], "Used": False}
        if not self._tokens.update_one(unused, {"$set": {"Used": True}}).matched_count:
            self.revoke_chain(found["Chain"])
            raise bad_refresh_token()
        return issued

    def revoke_chain(self, chain: str) -> None:
        """Revoke a chain by deleting its unused tokens; without one, all of it is void.

        There is one, or a few after crashes during a refresh. The used ones are swept.
        """
        self._tokens.delete_many({"Chain": chain, "Used": False})
        bulk.sweep(self._tokens, {"Chain": chain})

    def revoke_token(self, user: Document, token: str) -> None:
        """Revoke the chain of one of a user's tokens."""
        mine = {
            "_id": _hash(token),
            "UserId": user["_id"],
            "PasswordVersion": user["PasswordVersion"],
        }
        found = self._tokens.find_one(mine, ["Chain"])
        if found is None:
            raise TokenNotFound(user["Name"])
        self.revoke_chain(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()
