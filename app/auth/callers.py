"""Callers: the account of an access token or a key, with its current roles."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from cachetools import TTLCache, cached

from app.auth.api_keys import (
    AccessKey,
    access_key,
    access_key_by_id,
    digest_of,
)
from app.auth.tokens import Claims
from app.core.errors import (
    Forbidden,
    KeyNotAllowed,
    PermissionMissing,
    QuartermasterError,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
)
from app.core.penalties import BAN, BAN_STATE, is_in_force
from app.core.permissions import (
    RIGHTS,
    KeyAccess,
    Permission,
    Rights,
    Role,
    rights_of,
    role_names,
    shipped_roles,
)
from app.core.services import current
from app.core.types import Document
from app.http.tracing import loggable_name
from app.storage.client import Storage
from app.storage.commands import read_one
from app.storage.errors import DatabaseError
from app.storage.schema.explain_validator import readable
from app.storage.schema.shapes import Shape
from app.storage.transactions import after_commit

log = logging.getLogger("quartermaster")

CACHE_SIZE = 10_000


class NotPeer(Forbidden):
    sentence = "This account may do more than yours. Ask somebody who may do as much."


class CallerGone(QuartermasterError):
    """The caller of work that continues after a request no longer has access."""


class Caller(NamedTuple):
    """An account that uses the API, and its key if it uses one."""

    id: str
    name: str
    rights: Rights
    key: AccessKey | None = None
    # Whether a role requires a second factor, and the account has none.
    lacks_factor: bool = False

    @property
    def log_name(self) -> str:
        """The name in log lines, including that of the key."""
        return f"{self.name} (key {loggable_name(self.key.name)})" if self.key else self.name

    def require(
        self, *permissions: Permission, of_key: Sequence[Permission] | KeyAccess | None = None
    ) -> None:
        """Raise unless the account has these permissions, and its key the same, or those of_key."""
        if not self.rights.permissions:
            raise RoleMissing(Role.API.value)
        for permission in permissions:
            if permission not in self.rights.permissions:
                if self.rights.roles or permission is Permission.APPROVE:
                    raise PermissionMissing(permission.value)
                raise RoleMissing(permission.role.value)
        if self.key is None:
            return
        needed = permissions if of_key is None else of_key
        if needed is KeyAccess.NONE:
            raise KeyNotAllowed
        if needed is KeyAccess.ANY:
            if self.key.permissions == {Permission.LEADERBOARD_READ}:
                raise ScopeMissing(Permission.PLAYERS_READ.value)
            return
        for permission in needed:
            if permission not in self.key.permissions:
                raise ScopeMissing(permission.value)

    def may(self, *permissions: Permission) -> bool:
        try:
            self.require(*permissions)
        except Forbidden:
            return False
        return True


class Callers:
    """Caches callers for a few seconds: changed roles and revoked tokens take effect soon."""

    def __init__(
        self,
        storage: Storage,
        shapes: Mapping[str, Shape],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        power_role: str = "",
    ) -> None:
        self._db = storage.db
        # By collection: accounts and roles that break their validator open nothing.
        self._shapes = shapes
        self._transactions = storage.transactions
        self._power_role = power_role
        self._database_clock = storage.clock
        cached_by = partial(cached, TTLCache(CACHE_SIZE, seconds, clock), lock=Lock())
        of_token = cached_by(key=lambda claims: claims.chain)
        # Returns a caller, or raises Unauthorized if its token chain or account no longer exists.
        self.get: Callable[[Claims], Caller] = of_token(partial(self._certain, self._of_token))
        by_key = cached_by(key=str)(partial(self._certain, self._of_key))
        self._get_by_key: Callable[[str], Caller] = by_key

    def get_by_key(self, secret: str) -> Caller:
        """Return the caller of a key, or raise Unauthorized for an unknown or expired key."""
        caller = self._get_by_key(secret)
        # It may expire while it is cached.
        if caller.key is None or caller.key.ends_at <= self._database_clock.time():
            raise Unauthorized
        return caller

    def find(self, user_id: str, key_id: str | None) -> Caller:
        """Return the current state of a caller from an earlier request, or raise CallerGone."""
        user = self._find_user({"_id": user_id}, "Keys")
        if user is None:
            raise CallerGone("the account is gone")
        if self._is_banned(user):
            raise CallerGone("the account is banned")
        key = access_key_by_id(user, key_id) if key_id else None
        if key_id and (key is None or key.ends_at <= self._database_clock.time()):
            raise CallerGone("the key no longer works")
        return self._caller(user, key)

    def _certain(self, read: Callable[[Any], Caller], of: Any) -> Caller:
        """Return a caller, or raise Unauthorized if a majority holds why.

        A primary that is cut off by a split may be the only one that holds a revocation.
        """
        try:
            return read(of)
        except Unauthorized:
            return self._transactions.run(partial(read, of))

    def _of_key(self, secret: str) -> Caller:
        digest = digest_of(secret)
        user = self._find_user({"KeyDigests": digest}, "Keys")
        key = access_key(user, digest) if user else None
        if user is None or key is None or self._is_banned(user):
            raise Unauthorized
        after_commit(partial(self._note_use, user, key))
        return self._caller(user, key)

    def _of_token(self, claims: Claims) -> Caller:
        user = self._find_user({"_id": claims.user_id}, "PasswordVersion")
        if user is None or self._is_banned(user):
            raise Unauthorized
        # A chain is valid while one of its refresh tokens is unused. A change of password or a
        # revocation increments the version, which invalidates all earlier tokens.
        own = {"UserId": user["_id"], "PasswordVersion": user["PasswordVersion"]}
        chain = {"Chain": claims.chain, "Used": False, **own}
        if read_one(self._db["refresh_tokens"], chain, ["_id"]) is None:
            raise Unauthorized
        return self._caller(user)

    def _find_user(self, where: Document, field: str) -> Document | None:
        fields = ["Name", *RIGHTS, "SecondFactor", field, *BAN_STATE]
        found = read_one(self._db["users"], where, fields)
        return readable(self._shapes["users"], found, fields) if found else None

    def _is_banned(self, user: Document) -> bool:
        return is_in_force(user, BAN, self._database_clock.now())

    def _note_use(self, user: Document, key: AccessKey) -> None:
        """Store when a key was last used, to the minute.

        Nothing depends on it, so the request continues if this fails.
        """
        minute = self._database_clock.now().replace(second=0, microsecond=0)
        if user["Keys"][key.id].get("LastUsedAt") == minute:
            return
        path = f"Keys.{key.id}"
        try:
            self._db["users"].update_one(
                {"_id": user["_id"], path: {"$exists": True}},
                {"$max": {f"{path}.LastUsedAt": minute}},
            )
        except DatabaseError as error:
            log.warning("The last use of a key could not be stored: %s", error)

    def rights(self, user: Document) -> Rights:
        """Return what an account may do, from its fields RIGHTS."""
        names = [*role_names(user), *filter(None, [self._power_role])]
        if not names:
            return rights_of(user, {})
        found = self._db["roles"].find({"_id": {"$in": names}})
        stored = {role["_id"]: readable(self._shapes["roles"], role) for role in found}
        return rights_of(user, {**shipped_roles(), **stored}, self._power_role)

    def _caller(self, user: Document, key: AccessKey | None = None) -> Caller:
        rights = self.rights(user)
        lacks_factor = rights.needs_second_factor and user.get("SecondFactor") is None
        return Caller(user["_id"], str(user.get("Name")), rights, key, lacks_factor)


callers = current(Callers)
