"""Roles in MongoDB, and the accounts of staff."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pymongo.database import Database

from app.core.changes import Applied, Change, Intent, Rule
from app.core.errors import Conflict, NotFound
from app.core.naming import Lookup
from app.core.penalties import BAN, BAN_STATE, is_in_force
from app.core.permissions import RIGHTS, new_role, rights_of, shipped_roles
from app.core.services import current
from app.core.types import Document
from app.storage.changes import Changes
from app.storage.client import Storage
from app.storage.events import LOCKS
from app.storage.history import NOTED
from app.storage.schema.plan import CollectionPlan
from app.users.domain import revoke_tokens
from app.users.staff.domain import ADMINISTERING, READS, SHAPE, SUBJECT, LastAdministrator
from app.users.store import USERS, Users

ROLES = CollectionPlan(SUBJECT.collection, SHAPE, (NOTED,))
# Changes of who manages staff take turns: each writes the same document.
TURN = "staff"
# The fields of an account by which a person signs in.
WAYS_IN = ("PasswordHash", "OpenId")
IS_STAFF: Document = {
    "$or": [
        {"Power.Api": True},
        {"Roles": {"$type": "string"}},
        {"GroupRoles": {"$type": "string"}},
    ]
}


def has_way_in(user: Document, ways_in: Sequence[str] = WAYS_IN) -> bool:
    """Tell whether somebody can sign in: with a password, unless they are off, or by the company.

    Who has not accepted an invitation cannot.
    """
    return any(map(user.get, ways_in))


def missing_power_role(db: Database[Document], name: str) -> str | None:
    """Return a sentence if a role never existed. The limits of a removed one still apply."""
    if not name or name in shipped_roles() or db[ROLES.name].find_one({"_id": name}, ["_id"]):
        return None
    return (
        f"QM_POWER_ROLE is '{name}', and there is no such role: its limits would not apply. Make "
        "it with quartermaster run create-role, or name another one."
    )


class Roles(Changes):
    """The named roles, and who manages staff. A shipped role is stored when it is first changed."""

    def __init__(self, storage: Storage, ways_in: Sequence[str]) -> None:
        super().__init__(storage, SUBJECT)
        self.ways_in = ways_in
        self._users = storage.db["users"]
        self._locks = storage.db[LOCKS.name]

    def all(self) -> dict[str, Document]:
        """Return the roles by name, the shipped ones first."""
        stored = {
            role["_id"]: self.readable(role, READS) for role in self._documents.find({}, [*READS])
        }
        found = {**shipped_roles(), **dict(sorted(stored.items()))}
        return {name: role for name, role in found.items() if not role.get("RemovedAt")}

    def get(self, name: str) -> Document:
        role = self.all().get(name)
        if role is None:
            raise NotFound("role", name)
        return role

    def count_holders(self, role: str) -> int:
        """Return how many accounts have a role, which may have been removed."""
        held = [{field: role} for field in ("Roles", "GroupRoles")]
        return self._users.count_documents({"$or": held})

    def change(self, key: str, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to a role, which is a removed one if there was none of this name."""
        apply = partial(super().change, key, reads, rule, intent)

        def change() -> Applied:
            if not self._documents.find_one({"_id": key}, ["_id"]):
                self._documents.insert_one(self._default_role(key))
            return apply()

        return self.keep_administrator(change, intent)

    def _default_role(self, name: str) -> Document:
        blank = {**new_role(name, [], None), "RemovedAt": self.now()}
        return shipped_roles().get(name, blank)

    def read_for_change(self, key: str, reads: tuple[str, ...]) -> Document:
        try:
            return super().read_for_change(key, reads)
        except NotFound:  # a preview stores nothing
            return self._default_role(key)

    def _where(self, key: str) -> Document:
        return {"_id": key}

    def keep_administrator(self, step: Callable[[], Applied], intent: Intent) -> Applied:
        """Take a step in a transaction, or raise LastAdministrator if nobody manages staff then.

        Each writes the same document, so of two at the same time only one commits: two
        administrators could remove each other.
        """

        def kept() -> Applied:
            had_one = any(self.administrators())
            applied = step()
            # After the step: its refusal is proved by a commit, so long as nothing is written.
            self._locks.update_one({"_id": TURN}, {"$set": {"By": "", "Until": self.now()}}, True)
            if had_one and not any(self.administrators()):
                raise LastAdministrator
            return applied

        return self.in_transaction(kept, intent, TURN)

    def administrators(self) -> Iterator[Document]:
        """Yield the accounts that manage staff, and can sign in."""
        roles, now = self.all(), self.now()
        fields = ["Name", *RIGHTS, *BAN_STATE, *WAYS_IN]
        for found in self._users.find(IS_STAFF, fields):
            user = USERS.readable(found, fields)
            can_sign_in = has_way_in(user, self.ways_in) and not is_in_force(user, BAN, now)
            if can_sign_in and ADMINISTERING in rights_of(user, roles).permissions:
                yield user


class Staff(Users):
    """The accounts that have a role, or that may use the API without one."""

    def __init__(self, storage: Storage, roles: Roles) -> None:
        super().__init__(storage)
        self._roles = roles

    def walk(self, *fields: str) -> Iterator[Document]:
        """Return the accounts of staff, by name."""
        for user in self._documents.find(IS_STAFF, [*fields], sort=[("NameKey", 1)]):
            yield self.readable(user, fields)

    def change(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to what an account may do."""
        step = partial(super().change, key, reads, rule, intent)
        return self._roles.keep_administrator(step, intent)

    def link(self, key: Lookup, identity: Document | None, intent: Intent) -> Applied:
        """Link an account to a company account, or remove the link; end its groups and sign-ins."""

        def link(user: Document) -> Change:
            linked = identity and self.find_linked(identity)
            if linked and linked["_id"] != user["_id"]:
                raise Conflict("Another account is linked to this company account.")
            fields: Document = {"OpenId": identity, "GroupRoles": []}
            return Change({**revoke_tokens(user).fields, **fields}, None)

        return self.change(key, (*RIGHTS, *WAYS_IN, "PasswordVersion"), link, intent)


staff = current(Staff)


roles = current(Roles)
