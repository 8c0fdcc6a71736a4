"""Callers: the account behind an access token or a key, with its current roles."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from cachetools import TTLCache, cached

from app.auth.api_keys import (
    AccessKey,
    access_key,
    access_key_by_id,
    digest_of,
    is_well_formed,
)
from app.auth.roles import Role, roles_of
from app.auth.scopes import KeyAccess, Scope
from app.auth.tokens import Claims
from app.errors import (
    KeyNotAllowed,
    QuartermasterError,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
)
from app.http.tracing import loggable_name
from app.moderation.penalties import BAN, BAN_STATE, is_in_force
from app.storage.client import Storage
from app.storage.errors import DatabaseError
from app.types import Document

log = logging.getLogger("quartermaster")

CACHE_SIZE = 10_000
# A key that is used all the time says so once a minute.
MINUTE = timedelta(minutes=1)


class CallerGone(QuartermasterError):
    """Somebody for whom work goes on after a request could not send that request any more."""


class Caller(NamedTuple):
    """An account that uses the API, and the key that it does so with, if it is one."""

    id: str
    name: str
    roles: frozenset[Role]
    key: AccessKey | None = None
    # How log lines name it, where that is not its name.
    logged: str | None = None

    def require(self, role: Role) -> None:
        if role not in self.roles:
            raise RoleMissing(role.value)

    def require_scope(self, scope: Scope | KeyAccess) -> None:
        """Raise unless it has no key, whose account alone counts, or a key with this scope."""
        if self.key is None or scope is KeyAccess.ANY:
            return
        if isinstance(scope, KeyAccess):
            raise KeyNotAllowed
        if scope not in self.key.scopes:
            raise ScopeMissing(scope.value)

    def may(self, role: Role, scope: Scope) -> bool:
        """Tell whether it has a role and, if it has a key, a scope."""
        return role in self.roles and (self.key is None or scope in self.key.scopes)


class Callers:
    """Caches callers for a few seconds, so that a change of roles or tokens soon takes effect."""

    def __init__(
        self, storage: Storage, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = storage.db
        self._database_clock = storage.clock
        cached_by = partial(cached, TTLCache(CACHE_SIZE, seconds, clock), lock=Lock())
        read = cached_by(key=lambda claims: claims.chain)(self._read)
        self.get: Callable[[Claims], Caller] = read
        self._get_by_key: Callable[[str], Caller] = cached_by(key=str)(self._read_key)
        # Empties the cache, after a change that this worker made itself.
        self.forget: Callable[[], None] = read.cache_clear

    def get_by_key(self, secret: str) -> Caller:
        """Return the caller of a key, or raise Unauthorized if it is unknown or no longer works."""
        caller = self._get_by_key(secret)
        # It may end while it is cached.
        if caller.key is None or caller.key.ends_at <= self._database_clock.time():
            raise Unauthorized
        return caller

    def find(self, user_id: str, key_id: str | None) -> Caller:
        """Return a caller whose request was answered before, as it is now; raise CallerGone."""
        fields = dict.fromkeys(("Name", "Power", "Keys", *BAN_STATE), 1)
        user = self._db["users"].find_one({"_id": user_id}, fields)
        now = self._database_clock.now()
        if user is None:
            raise CallerGone("the account is gone")
        if self._is_banned(user, now):
            raise CallerGone("the account is banned")
        key = access_key_by_id(user, key_id) if key_id else None
        if key_id and (key is None or key.ends_at <= now.timestamp()):
            raise CallerGone("the key no longer works")
        return Caller(user["_id"], str(user.get("Name")), roles_of(user.get("Power")), key)

    def _read_key(self, secret: str) -> Caller:
        if not is_well_formed(secret):
            raise Unauthorized
        digest = digest_of(secret)
        fields = dict.fromkeys(("Name", "Power", "Keys", *BAN_STATE), 1)
        user = self._db["users"].find_one({"KeyDigests": digest}, fields)
        now = self._database_clock.now()
        key = access_key(user, digest) if user else None
        if user is None or key is None or self._is_banned(user, now):
            raise Unauthorized
        self._note_use(user, key, now)
        name = str(user.get("Name"))
        logged = f"{name} (key {loggable_name(key.name)})"
        return Caller(user["_id"], name, roles_of(user.get("Power")), key, logged)

    def _note_use(self, user: Document, key: AccessKey, now: datetime) -> None:
        """Store when a key was used, to the minute: once a minute, however many workers there are.

        Nothing depends on it, so a failure is no reason to refuse the request.
        """
        path = f"Keys.{key.id}.LastUsedAt"
        minute = now.replace(second=0, microsecond=0)
        last: Any = user["Keys"][key.id].get("LastUsedAt")
        if isinstance(last, datetime) and minute <= last < now + MINUTE:
            return
        try:
            self._db["users"].update_one({"_id": user["_id"], path: last}, {"$set": {path: minute}})
        except DatabaseError as error:
            log.warning("When a key was used could not be stored: %s", error)

    def _is_banned(self, user: Document, now: datetime) -> bool:
        return bool(user.get(BAN.flag)) and is_in_force(user, BAN, now)

    def _read(self, claims: Claims) -> Caller:
        """Return a caller, or raise Unauthorized if its chain or its account is gone."""
        # A chain is valid while one of its refresh tokens is unused.
        chain = {"Chain": claims.chain, "Used": False, "UserId": claims.user_id}
        fields = dict.fromkeys(("Name", "Power", "PasswordVersion", *BAN_STATE), 1)
        user = self._db["users"].find_one({"_id": claims.user_id}, fields)
        token = self._db["refresh_tokens"].find_one(chain, {"PasswordVersion": 1})
        if user is None or token is None:
            raise Unauthorized
        # A change of password and a revocation increment it, which voids all earlier tokens.
        version = user.get("PasswordVersion")
        if version is None or token.get("PasswordVersion") != version:
            raise Unauthorized
        if user.get(BAN.flag) and self._is_banned(user, self._database_clock.now()):
            raise Unauthorized
        return Caller(user["_id"], str(user.get("Name")), roles_of(user.get("Power")))
