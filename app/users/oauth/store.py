"""Sign-ins in MongoDB: chains of refresh tokens, and console sessions.

A chain starts with a sign-in and grows with every refresh. Tokens are hashed and single-use. If a
token is used twice, one of the two clients has stolen it, so the whole chain is revoked. A session
is a chain of one token, which the browser keeps in a cookie, and which cannot be refreshed.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pymongo.errors import PyMongoError

from app.core.errors import NotOwned
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage
from app.storage.fence import ERASURES, require_not_erased
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import COUNT, FLAG, GUID, MOMENT, TEXT, object_shape
from app.users.oauth.domain import public_sign_in

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
        {
            # When the chain started.
            "BeganAt": MOMENT,
            # Whether it is a console session, and its browser.
            "IsSession": FLAG,
            "Browser": TEXT,
            # When its person last typed the password again.
            "ProvedAt": MOMENT,
            # How it began: password or openid.
            "Method": TEXT,
        },
    ),
    (
        index("chain", "Chain", "Used"),
        index("user", "UserId", "Used", "-ExpiresAt", "_id"),
        expiry(),
    ),
)
# The maximum number of surplus tokens that one sign-in deletes.
TRIMMED = 100

Result = TypeVar("Result")


class Issued(NamedTuple):
    """A new refresh token; only its hash is stored."""

    user_id: str
    chain: str
    token: str


class Session(NamedTuple):
    """An active console session."""

    user_id: str
    chain: str
    expires_at: datetime
    # When its person last proved who they are: at sign-in, or again since.
    proved_at: datetime
    is_company: bool = False


class RefreshTokens:
    def __init__(self, storage: Storage, lifetime: int, most: int) -> None:
        self._tokens = storage.db[REFRESH_TOKENS.name]
        self._users = storage.db["users"]
        self._erasures = storage.db[ERASURES.name]
        self._transactions = storage.transactions
        self._clock = storage.clock
        self._lifetime = timedelta(seconds=lifetime)
        self._most = most

    def issue(self, user_id: str, password_version: int, **about: Any) -> Issued:
        """Start a token chain for this version of the password, or a session."""
        now, chain = self._clock.now(), str(uuid.uuid4())
        facts = {"ExpiresAt": now + self._lifetime, "BeganAt": now, **about}
        issued = self._run(partial(self._add, user_id, password_version, chain, **facts))
        # Store when an account last signed in, at most once an hour.
        long_ago = {"_id": user_id, "LastSignInAt": {"$not": {"$gt": now - timedelta(hours=1)}}}
        try:
            self._trim(user_id)
            self._users.update_one(long_ago, {"$set": {"LastSignInAt": now}})
        except PyMongoError as error:  # nothing depends on it
            log.warning("Tokens beyond the limit stay until the next sign-in: %s", error)
        return issued

    def begin_session(
        self, user_id: str, password_version: int, seconds: int, browser: str, **about: Any
    ) -> Issued:
        """Start a console session with this lifetime."""
        about |= {"IsSession": True, "Browser": browser}
        expires_at = self._clock.now() + timedelta(seconds=seconds)
        return self.issue(user_id, password_version, ExpiresAt=expires_at, **about)

    def session(self, token: str) -> Session | None:
        in_force = {"IsSession": True, "ExpiresAt": {"$gt": self._clock.now()}}
        found = self._tokens.find_one({"_id": _hash(token), **in_force})
        if found is None:
            return None
        proved_at = found.get("ProvedAt") or found["BeganAt"]
        is_company = found.get("Method") == "openid"
        return Session(found["UserId"], found["Chain"], found["ExpiresAt"], proved_at, is_company)

    def renew_proof(self, chain: str) -> None:
        """Record that the person of a session has just proved who they are."""
        self._tokens.update_one({"Chain": chain}, {"$set": {"ProvedAt": self._clock.now()}})

    def outlive_change(self, chain: str) -> None:
        """Keep a session whose person has just made a change that ends all sign-ins.

        It counts as their PasswordVersion does. If the password has changed as well, it ends.
        """
        self._tokens.update_one({"Chain": chain}, {"$inc": {"PasswordVersion": 1}})

    def stored_sign_ins(self, user_id: str) -> list[Document]:
        """Return the sign-ins of an account that are still stored, the newest first."""
        return self._list({"UserId": user_id})

    def sign_ins(self, user: Document) -> list[Document]:
        """Return the active sign-ins of an account, the newest first."""
        return self._list(self._of(user))

    def _list(self, where: Document) -> list[Document]:
        found = map(public_sign_in, self._tokens.find({**where, "Used": False}))
        return sorted(found, key=lambda sign_in: (sign_in["At"], sign_in["Id"]), reverse=True)

    def _of(self, user: Document) -> Document:
        """Return the filter for the valid tokens and sessions of an account."""
        return {
            "UserId": user["_id"],
            "PasswordVersion": user["PasswordVersion"],
            "ExpiresAt": {"$gt": self._clock.now()},
        }

    def _add(self, user_id: str, password_version: int, chain: str, **about: Any) -> Issued:
        issued = Issued(user_id, chain, str(uuid.uuid4()))
        require_not_erased(self._erasures, (), {"By": {"UserId": user_id}})
        self._tokens.insert_one(
            {
                "_id": _hash(issued.token),
                "Chain": chain,
                "UserId": user_id,
                "PasswordVersion": password_version,
                "Used": False,
                **about,
            }
        )
        return issued

    def _trim(self, user_id: str) -> None:
        """Delete the oldest unused tokens of an account beyond the limit, but no sessions.

        Each sign-in counts after its own insert, so the last of concurrent ones sees all. Sessions
        end before most tokens, so a new session would be the first to be deleted.
        """
        # The index "user" covers this: skipping a thousand takes a millisecond.
        surplus = self._tokens.find(
            {"UserId": user_id, "Used": False},
            ["_id"],
            skip=self._most,
            limit=TRIMMED,
            sort=[("ExpiresAt", -1), ("_id", 1)],
            batch_size=TRIMMED,
        )
        if ids := [token["_id"] for token in surplus]:
            self._tokens.delete_many({"_id": {"$in": ids}, "IsSession": {"$ne": True}})

    def rotate(self, token: str, require: Callable[[Document], None]) -> Issued | None:
        """Exchange a token for the next one of its chain; None if it is unknown, used or expired.

        If it was used before, the whole chain is revoked. ``require`` raises unless the account may
        still use the token, which then stays as it is.
        """

        def exchange() -> Issued | None:
            now = self._clock.now()
            in_force = {"IsSession": {"$ne": True}, "ExpiresAt": {"$gt": now}}
            found = self._tokens.find_one({"_id": _hash(token), **in_force})
            if found is None:
                return None
            chain = found["Chain"]
            if found["Used"]:
                self._revoke(chain)
                return None
            require(found)
            times = {"ExpiresAt": now + self._lifetime, "BeganAt": found.get("BeganAt", now)}
            issued = self._add(found["UserId"], found["PasswordVersion"], chain, **times)
            self._tokens.update_one({"_id": found["_id"]}, {"$set": {"Used": True}})
            return issued

        return self._run(exchange)

    def _run(self, step: Callable[[], Result]) -> Result:
        # Nobody need look before repeating it.
        return self._transactions.run(step, "sign-in", has_key=True)

    def revoke_chain(self, chain: str) -> None:
        """Revoke a chain by deleting its unused token; without it the chain is invalid."""
        self._run(partial(self._revoke, chain))

    def _revoke(self, chain: str) -> None:
        # Used tokens are void anyway, and stay until they expire.
        self._tokens.delete_many({"Chain": chain, "Used": False})

    def end_sign_in(self, user: Document, chain: str) -> None:
        self._run(partial(self._end, user, "sign-in", {"Chain": chain, "Used": False}))

    def revoke_token(self, user: Document, token: str) -> None:
        self._run(partial(self._end, user, "token", {"_id": _hash(token)}))

    def _end(self, user: Document, what: str, where: Document) -> None:
        found = self._tokens.find_one({**self._of(user), **where}, ["Chain"])
        if found is None:
            raise NotOwned(what, user["Name"])
        self._revoke(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()


refresh_tokens = current(RefreshTokens)
