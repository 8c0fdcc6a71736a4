"""Callers: the account behind an access token, with its current roles."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from app.auth.roles import Role, roles_of
from app.auth.tokens import Claims
from app.errors import RoleMissing, Unauthorized
from app.penalties import BAN, BAN_STATE, is_in_force
from app.storage.client import Storage

CACHE_SIZE = 10_000


class Caller(NamedTuple):
    """An account that uses the API."""

    id: str
    name: str
    roles: frozenset[Role]

    def require(self, role: Role) -> None:
        if role not in self.roles:
            raise RoleMissing(role.value)


class Callers:
    """Caches callers for a few seconds, so that a change of roles or tokens soon takes effect."""

    def __init__(
        self, storage: Storage, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = storage.db
        self._database_clock = storage.clock
        self._seconds = seconds
        self._clock = clock
        self._cache: dict[str, tuple[float, Caller]] = {}

    def get(self, claims: Claims) -> Caller:
        """Return the caller, or raise Unauthorized if its chain or its account is gone."""
        cached = self._cache.get(claims.chain)
        now = self._clock()
        if cached and now < cached[0]:
            return cached[1]
        caller = self._read(claims)
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        self._cache[claims.chain] = (now + self._seconds, caller)
        return caller

    def forget(self) -> None:
        """Empty the cache, after a change that this worker made itself."""
        self._cache.clear()

    def _read(self, claims: Claims) -> Caller:
        # A chain is valid while one of its refresh tokens is unused.
        chain = {"Chain": claims.chain, "Used": False, "UserId": claims.user_id}
        fields = dict.fromkeys(("Name", "Power", "PasswordVersion", *BAN_STATE), 1)
        user = self._db["users"].find_one({"_id": claims.user_id}, fields)
        token = self._db["refresh_tokens"].find_one(chain, {"PasswordVersion": 1})
        if user is None or token is None:
            raise Unauthorized
        # A change of password and a revocation increment it, which voids all earlier tokens.
        if token.get("PasswordVersion") != user["PasswordVersion"]:
            raise Unauthorized
        if user.get(BAN.flag) and is_in_force(user, BAN, self._database_clock.now()):
            raise Unauthorized
        return Caller(user["_id"], user["Name"], roles_of(user["Power"]))
