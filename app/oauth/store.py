"""Sign-ins in MongoDB: chains of refresh tokens, and console sessions.

A chain starts with a sign-in and grows with every refresh. Tokens are hashed and single-use. If a
token is used twice, one of the two clients has stolen it, so the whole chain is revoked. A session
is a chain of one token, which the browser keeps in a cookie, and which cannot be refreshed.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pymongo.errors import PyMongoError

from app.errors import NotOwned
from app.oauth.domain import SignIn, bad_refresh_token
from app.paging import CursorPage
from app.storage import bulk
from app.storage.client import Storage
from app.storage.committed import confirm, confirm_absent
from app.storage.erasure_records import ErasureRecords
from app.storage.paging import newest_first
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
        self._erasures = ErasureRecords(storage.db)
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
        issued = self._add(user_id, password_version, chain, now + lifetime, BeganAt=now, **about)
        self._trim(user_id, is_session=bool(about))
        self._note_sign_in(user_id, now)
        return issued

    def _note_sign_in(self, user_id: str, now: datetime) -> None:
        """Store when an account last signed in, at most once an hour; nothing depends on it."""
        long_ago = {"_id": user_id, "LastSignInAt": {"$not": {"$gt": now - timedelta(hours=1)}}}
        try:
            self._users.update_one(long_ago, {"$set": {"LastSignInAt": now}})
        except PyMongoError as error:
            log.warning("The last sign-in of an account could not be stored: %s", error)

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
            # During a refresh, or after a crash in one, a chain has two tokens.
            found.setdefault(token["Chain"], self._sign_in(token))
        return list(found.values())

    def _sign_in(self, token: Document) -> SignIn:
        ends = token["ExpiresAt"]
        return SignIn(
            token["Chain"],
            # Older releases did not store when a chain started.
            token.get("BeganAt") or ends - self._lifetime,
            ends,
            bool(token.get("IsSession")),
            token.get("Browser"),
            token.get("Method"),
        )

    def _add(
        self, user_id: str, password_version: int, chain: str, ends: datetime, **about: Any
    ) -> Issued:
        issued = Issued(user_id, chain, str(uuid.uuid4()))
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
        self._erasures.reopen_named({user_id: None})
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

    def find(self, token: str) -> Document | None:
        """Return the document of a valid token; revoke the chain of a used one."""
        id_ = _hash(token)
        found = self._tokens.find_one({"_id": id_})
        if found is None:
            confirm_absent(self._tokens, {"_id": id_})
            return None
        if found["ExpiresAt"] <= self._clock.now() or found.get("IsSession"):
            return None
        if found["Used"]:
            # On a primary that is cut off, the use of the token may still be rolled back.
            confirm(self._tokens, {"_id": id_, "Used": True})
            self.revoke_chain(found["Chain"])
            return None
        return found

    def rotate(self, found: Document) -> Issued:
        """Exchange a token for the next one of its chain."""
        # Insert first: after a crash in between, the old token still works.
        began = {"BeganAt": found["BeganAt"]} if "BeganAt" in found else {}
        ends = self._clock.now() + self._lifetime
        issued = self._add(found["UserId"], found["PasswordVersion"], found["Chain"], ends, **began)
        unused = {"_id": found["_id"], "Used": False}
        if not self._tokens.update_one(unused, {"$set": {"Used": True}}).matched_count:
            self.revoke_chain(found["Chain"])
            raise bad_refresh_token()
        return issued

    def revoke_chain(self, chain: str) -> None:
        """Revoke a chain by deleting its unused tokens; without them the chain is invalid.

        There is one, or a few after crashes during a refresh. Used tokens are swept later.
        """
        self._tokens.delete_many({"Chain": chain, "Used": False})
        bulk.sweep(self._tokens, {"Chain": chain})

    def end_sign_in(self, user: Document, chain: str) -> None:
        if self._tokens.find_one({"Chain": chain, **self._in_use(user)}, ["_id"]) is None:
            raise NotOwned("sign-in", user["Name"])
        self.revoke_chain(chain)

    def revoke_token(self, user: Document, token: str) -> None:
        mine = {
            "_id": _hash(token),
            "UserId": user["_id"],
            "PasswordVersion": user["PasswordVersion"],
        }
        found = self._tokens.find_one(mine, ["Chain"])
        if found is None:
            raise NotOwned("token", user["Name"])
        self.revoke_chain(found["Chain"])


def _hash(token: str) -> str:
    return hashlib.sha256(token.lower().encode()).hexdigest()
