"""Roles in MongoDB, and the accounts of staff."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from pymongo.errors import DuplicateKeyError

from app.auth.permissions import RIGHTS, Permission, permissions_of_role, rights_of
from app.auth.shipped_roles import new_role, shipped_roles
from app.changes import Applied, Intent, Rule
from app.errors import NotFound, Unavailable
from app.moderation.penalties import BAN, BAN_STATE, is_in_force
from app.staff.domain import (
    READS,
    SHAPE,
    SUBJECT,
    LastAdministrator,
    public_role,
)
from app.storage.client import Storage
from app.storage.documents import ChangeableDocuments
from app.storage.journal import NOTED, UNMOVED
from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import MOMENT, TEXT, object_shape
from app.types import Document

ROLES = CollectionPlan(SUBJECT.collection, SHAPE, (UNMOVED, NOTED))
LOCKS = CollectionPlan("locks", object_shape({"_id": TEXT, "By": TEXT, "Until": MOMENT}))
# A process that dies with the lock blocks others for so long.
LONGEST = timedelta(seconds=30)
# The fields of an account by which a person signs in.
WAYS_IN = ("PasswordHash", "OpenId")
IS_STAFF: Document = {
    "$or": [
        {"Power.Api": True},
        {"Roles": {"$type": "string"}},
        {"GroupRoles": {"$type": "string"}},
    ]
}


class Roles(ChangeableDocuments):
    """The named roles. A shipped role is stored when it is first changed."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, SUBJECT, 0)

    def all(self) -> dict[str, Document]:
        """Return the roles by name, the shipped ones first."""
        stored = {role["_id"]: role for role in self._documents.find({}, [*READS])}
        found = {**shipped_roles(), **dict(sorted(stored.items()))}
        return {name: role for name, role in found.items() if not role.get("RemovedAt")}

    def get(self, name: str) -> Document:
        role = self.all().get(name)
        if role is None:
            raise NotFound("role", name)
        return public_role(role)

    def create(self, name: str, wanted: Document, restore: Rule, intent: Intent) -> Applied:
        """Add a role; a removed one of this name is restored by the rule."""
        role = {**new_role(name, [], None), **wanted}
        if name not in shipped_roles():
            with suppress(DuplicateKeyError):
                return Applied(public_role(role), entry=self._swapper.insert(role, intent))
        return self.change(name, READS, restore, intent)

    def change(self, key: str, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        if role := shipped_roles().get(key):
            del role["_id"]
            self._documents.update_one({"_id": key}, {"$setOnInsert": role}, upsert=True)
        return super().change(key, reads, rule, intent)

    def _where(self, key: str) -> Document:
        return {"_id": key}


class Staff:
    """The accounts that have a role, or a Power flag for the API."""

    def __init__(self, storage: Storage, roles: Roles) -> None:
        self._users = storage.db["users"]
        self._locks = storage.db[LOCKS.name]
        self._clock = storage.clock
        self._roles = roles

    def walk(self, *fields: str) -> Iterator[Document]:
        """Yield the accounts of staff, by name."""
        yield from self._users.find(IS_STAFF, [*fields], sort=[("NameKey", 1)])

    def count_with(self, role: str) -> int:
        """Return how many accounts have a role, which may have been removed."""
        held = [{field: role} for field in ("Roles", "GroupRoles")]
        return self._users.count_documents({"$or": held})

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Let one change of staff at a time pass: two administrators could remove each other."""
        mine, now = str(uuid.uuid4()), self._clock.now()
        free = {"_id": "staff", "Until": {"$lte": now}}
        taken = {"$set": {"By": mine, "Until": now + LONGEST}}
        try:
            self._locks.update_one(free, taken, upsert=True)
        except DuplicateKeyError:
            raise Unavailable("Somebody is changing staff right now; please try again.") from None
        try:
            yield
        finally:
            self._locks.update_one({"_id": "staff", "By": mine}, {"$set": {"Until": now}})

    def require_administrator(
        self, but: str | None = None, changed: dict[str, Document] | None = None
    ) -> None:
        """Raise LastAdministrator unless some account manages staff."""
        if next(self.administrators(but, changed), None) is None:
            raise LastAdministrator

    def administrators(
        self, but: str | None = None, changed: dict[str, Document] | None = None
    ) -> Iterator[Document]:
        """Yield the accounts that manage staff.

        The account whose id is in but does not count, and changed has roles as they would become.
        """
        roles, now = {**self._roles.all(), **(changed or {})}, self._clock.now()
        naming = [
            name
            for name, role in roles.items()
            if Permission.STAFF_MANAGE in permissions_of_role(role)
        ]
        held = [{field: {"$in": naming}} for field in ("Roles", "GroupRoles")]
        where = {"$or": [{"Power.Api": True}, *held], "_id": {"$ne": but}}
        for user in self._users.find(where, ["Name", *RIGHTS, *BAN_STATE, *WAYS_IN]):
            may = rights_of(user, roles).permissions
            # Somebody who has not accepted an invitation yet cannot sign in.
            can_sign_in = any(map(user.get, WAYS_IN)) and not is_in_force(user, BAN, now)
            if Permission.STAFF_MANAGE in may and can_sign_in:
                yield user
