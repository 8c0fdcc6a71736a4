"""Sign-ins in MongoDB: chains of refresh tokens, and console sessions.

A chain starts with a sign-in and grows with every refresh. Tokens are hashed and single-use. If a
token is used twice, one of the two clients has stolen it, so the whole chain is revoked. A session
is a chain of one token, which the browser keeps in a cookie, and which cannot be refreshed.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pymongo.errors import PyMongoError

from app.core.errors import NotOwned
from app.core.paging import CursorPage
from app.core.types import Document
from app.storage import bulk
from app.storage.client import Storage
from app.storage.fence import ERASURES, require_not_erased
from app.storage.paging import newest_first
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import COUNT, FLAG, GUID, MOMENT, TEXT, object_shape
from app.storage.transactions import after_commit
from app.users.oauth.domain import SignIn

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
MOST_SIGN_INS = 100
LAST_TO_END_FIRST = [("ExpiresAt", -1), ("_id", 1)]

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

    def issue(self, user_id: str, password_version: int) -> Issued:
        """Start a token chain for this version of the password."""
        return self._begin(user_id, password_version, self._lifetime)

    def begin_session(
        self, user_id: str, password_version: int, seconds: int, browser: str, **about: Any
    ) -> Issued:
        """Start a console session with this lifetime."""
        about = {"IsSession": True, "Browser": browser, "Method": "password", **about}
        return self._begin(user_id, password_version, timedelta(seconds=seconds), **about)

    def _begin(
        self, user_id: str, password_version: int, lifetime: timedelta, **about: Any
    ) -> Issued:
        now, chain = self._clock.now(), str(uuid.uuid4())
        facts = {"BeganAt": now, **about}
        add = partial(self._add, user_id, password_version, chain, now + lifetime, **facts)
        issued = self._run(add)
        self._trim(user_id, is_session=bool(about))
        # Store when an account last signed in, at most once an hour; nothing depends on it.
        long_ago = {"_id": user_id, "LastSignInAt": {"$not": {"$gt": now - timedelta(hours=1)}}}
        try:
            self._users.update_one(long_ago, {"$set": {"LastSignInAt": now}})
        except PyMongoError as error:
            log.warning("The last sign-in of an account could not be stored: %s", error)
        return issued

    def session(self, token: str) -> Session | None:
        found = self._tokens.find_one({"_id": _hash(token)})
        if not found or not found.get("IsSession") or found["ExpiresAt"] <= self._clock.now():
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

    def sign_ins(self, user_id: str) -> list[SignIn]:
        """Return the newest active sign-ins of an account, the newest first."""
        found = self._tokens.find({"UserId": user_id, "Used": False})
        newest = found.sort(LAST_TO_END_FIRST).limit(MOST_SIGN_INS)
        return sorted(self._sign_ins(newest), key=lambda sign_in: sign_in.at, reverse=True)

    def list_sign_ins(self, user: Document, size: int, after: bytes = b"") -> CursorPage:
        """Return a page of an account's sign-ins, in descending order of their end."""
        where = self._in_use(user)
        list_name = f"sign-ins {user['_id']}"
        if after:
            at, id_ = newest_first.parse(list_name, after)
            where["ExpiresAt"]["$lte"] = at
            where["$or"] = [{"ExpiresAt": {"$lt": at}}, {"_id": {"$gt": id_}}]
        found = list(self._tokens.find(where).sort(LAST_TO_END_FIRST).limit(size + 1))
        shown = found[:size]
        if len(found) <= size:
            return CursorPage(self._sign_ins(shown), None)
        last = {**shown[-1], "At": shown[-1]["ExpiresAt"]}
        return CursorPage(self._sign_ins(shown), newest_first.position(list_name, last))

    def walk(self, user: Document) -> Iterator[SignIn]:
        """Yield all active sign-ins of an account, page by page."""
        after: bytes | None = b""
        while after is not None:
            page = self.list_sign_ins(user, MOST_SIGN_INS, after)
            yield from page.values
            after = page.next

    def _in_use(self, user: Document) -> Document:
        """Return the filter for the valid tokens and sessions of an account."""
        return {
            "UserId": user["_id"],
            "Used": False,
            "PasswordVersion": user["PasswordVersion"],
            "ExpiresAt": {"$gt": self._clock.now()},
        }

    def _sign_ins(self, tokens: Iterable[Document]) -> list[SignIn]:
        """Return the sign-ins of tokens that are sorted by descending end."""
        found: dict[str, SignIn] = {}
        for token in tokens:
            ends = token["ExpiresAt"]
            sign_in = SignIn(
                token["Chain"],
                # Older releases did not store when a chain started.
                token.get("BeganAt") or ends - self._lifetime,
                ends,
                bool(token.get("IsSession")),
                token.get("Browser"),
                token.get("Method"),
            )
            # Until 0.4.0, a crash during a refresh left a chain with two tokens.
            found.setdefault(token["Chain"], sign_in)
        return list(found.values())

    def _add(
        self, user_id: str, password_version: int, chain: str, ends: datetime, **about: Any
    ) -> Issued:
        issued = Issued(user_id, chain, str(uuid.uuid4()))
        require_not_erased(self._erasures, (), {"By": {"UserId": user_id}})
        self._tokens.insert_one(
            {
                "_id": _hash(issued.token),
                "Chain": issued.chain,
                "UserId": user_id,
                "PasswordVersion": password_version,
                "Used": False,
                "ExpiresAt": ends,
                **about,
            }
        )
        return issued

    def _trim(self, user_id: str, is_session: bool) -> None:
        """Delete the oldest unused tokens or the oldest sessions of an account beyond the limit.

        Each sign-in counts after its own insert, so the last of concurrent ones sees all. Tokens
        and sessions are counted separately: sessions end before most tokens, so a new session would
        be the first to be deleted.
        """
        unused = {"UserId": user_id, "Used": False, **({"IsSession": True} if is_session else {})}
        # For tokens, the index "user" covers this: skipping a thousand takes a millisecond.
        surplus = self._tokens.find(unused, ["_id"], skip=self._most, limit=TRIMMED)
        try:
            ids = [token["_id"] for token in surplus.sort(LAST_TO_END_FIRST).batch_size(TRIMMED)]
            if ids:
                of_kind = {"IsSession": True if is_session else {"$ne": True}}
                self._tokens.delete_many({"_id": {"$in": ids}, **of_kind})
        except PyMongoError as error:
            log.warning(
                "Tokens beyond the limit were not removed, the next sign-in retries: %s", error
            )

    def rotate(self, token: str, require: Callable[[Document], None]) -> Issued | None:
        """Exchange a token for the next one of its chain; None if it is unknown, used or expired.

        If it was used before, the whole chain is revoked. ``require`` raises unless the account may
        still use the token, which then stays as it is.
        """

        def exchange() -> Issued | None:
            found, now = self._tokens.find_one({"_id": _hash(token)}), self._clock.now()
            if found is None or found["ExpiresAt"] <= now or found.get("IsSession"):
                return None
            chain = found["Chain"]
            if found["Used"]:
                self._revoke(chain)
                return None
            require(found)
            began = {"BeganAt": found["BeganAt"]} if "BeganAt" in found else {}
            ends = now + self._lifetime
            issued = self._add(found["UserId"], found["PasswordVersion"], chain, ends, **began)
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
        self._tokens.delete_many({"Chain": chain, "Used": False})
        # Used tokens are swept: they are void anyway.
        after_commit(partial(bulk.sweep, self._tokens, {"Chain": chain}))

    def end_sign_in(self, user: Document, chain: str) -> None:
        self._run(partial(self._end, user, {"Chain": chain, **self._in_use(user)}, "sign-in"))

    def revoke_token(self, user: Document, token: str) -> None:
        own = {"UserId": user["_id"], "PasswordVersion": user["PasswordVersion"]}
        self._run(partial(self._end, user, {"_id": _hash(token), **own}, "token"))

    def _end(self, user: Document, where: Document, what: str) -> None:
        found = self._tokens.find_one(where, ["Chain"])
        if found is None:
            raise NotOwned(what, user["Name"])
        self._revoke(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()
