"""Roles in MongoDB, and the accounts of staff."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pymongo.database import Database

from app.core.changes import Applied, Change, Intent, Rule, field_changes
from app.core.errors import Conflict, NotFound
from app.core.naming import Lookup
from app.core.penalties import BAN, BAN_STATE, is_in_force
from app.core.permissions import RIGHTS, permissions_of_role, rights_of
from app.core.shipped_roles import new_role, shipped_roles
from app.core.types import Document
from app.storage.client import Storage
from app.storage.documents import ChangeableDocuments
from app.storage.events import LOCKS
from app.storage.history import NOTED
from app.storage.schema.plan import CollectionPlan
from app.storage.transactions import after_commit
from app.users.domain import revoke_tokens
from app.users.staff.domain import ADMINISTERING, READS, SHAPE, SUBJECT, LastAdministrator
from app.users.store import Users

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
        "it with quartermaster role create, or name another one."
    )


class Roles(ChangeableDocuments):
    """The named roles, and who manages staff. A shipped role is stored when it is first changed."""

    def __init__(
        self,
        storage: Storage,
        forget_callers: Callable[[], None],
        ways_in: Sequence[str] = WAYS_IN,
    ) -> None:
        self.ways_in = ways_in
        super().__init__(storage, SUBJECT, 0)
        self._users = storage.db["users"]
        self._locks = storage.db[LOCKS.name]
        self._forget_callers = forget_callers

    def all(self) -> dict[str, Document]:
        """Return the roles by name, the shipped ones first."""
        stored = {role["_id"]: role for role in self._documents.find({}, [*READS])}
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
        step = partial(self._change, key, reads, rule, intent)
        return self.in_transaction(step, intent, TURN)

    def _change(self, key: str, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        if earlier := self.find_earlier(key, intent):
            return earlier
        if self._documents.find_one({"_id": key}, ["_id"]):
            decision = self.decide(key, reads, self._guarded(rule), intent)
            self.write_staff()
            return self.write(decision)
        role = self._unstored(key)
        change = self._guarded(rule)(role)
        changes = field_changes(SUBJECT, role, change.fields)
        self.write_staff()
        stored = {**role, **change.fields}
        return self._changes.insert(stored, intent, changes, change.answer)

    def _unstored(self, name: str) -> Document:
        blank = {**new_role(name, [], None), "RemovedAt": self.now()}
        return shipped_roles().get(name, blank)

    def preview(self, key: str, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document:
        role = self._documents.find_one({"_id": key}, [*reads]) or self._unstored(key)
        change = self._guarded(rule)(role)
        return {"Changes": field_changes(SUBJECT, role, change.fields)}

    def _guarded(self, rule: Rule) -> Rule:
        """Return a rule that also raises LastAdministrator if nobody would manage staff."""

        def guarded(role: Document) -> Change:
            change = rule(role)
            after = {**role, **change.fields}
            if ADMINISTERING in permissions_of_role(role) - permissions_of_role(after):
                self.require_administrator(changed={role["_id"]: after})
            return change

        return guarded

    def _where(self, key: str) -> Document:
        return {"_id": key}

    def write_staff(self) -> None:
        """Write the document of staff, in the transaction of each change of who manages it.

        So of two at the same time only one commits: two administrators could remove each other.
        """
        self._locks.update_one({"_id": "staff"}, {"$set": {"By": "", "Until": self.now()}}, True)
        after_commit(self._forget_callers)

    def keep_one(self, user: Document) -> None:
        """Raise if an account is closed, in this transaction, without which nobody manages staff.

        user has the fields RIGHTS of the account.
        """
        if ADMINISTERING in rights_of(user, self.all()).permissions:
            self.require_administrator(but=user["_id"])
            self.write_staff()

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
        roles, now = {**self.all(), **(changed or {})}, self.now()
        naming = [
            name for name, role in roles.items() if ADMINISTERING in permissions_of_role(role)
        ]
        held = [{field: {"$in": naming}} for field in ("Roles", "GroupRoles")]
        where = {"$or": [{"Power.Api": True}, *held], "_id": {"$ne": but}}
        for user in self._users.find(where, ["Name", *RIGHTS, *BAN_STATE, *WAYS_IN]):
            can_sign_in = has_way_in(user, self.ways_in) and not is_in_force(user, BAN, now)
            if can_sign_in and ADMINISTERING in rights_of(user, roles).permissions:
                yield user


class Staff:
    """The accounts that have a role, or that may use the API without one."""

    def __init__(self, storage: Storage, roles: Roles, users: Users) -> None:
        self._collection = storage.db["users"]
        self._roles = roles
        self._users = users
        self.find_earlier = users.find_earlier

    def walk(self, *fields: str) -> Iterator[Document]:
        """Yield the accounts of staff, by name."""
        yield from self._collection.find(IS_STAFF, [*fields], sort=[("NameKey", 1)])

    def change(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to what an account may do, and delete the tokens that became void."""
        step = partial(self._change, key, reads, self._guarded(rule), intent)
        applied = self._users.in_transaction(step, intent, TURN)
        self._users.sweep_tokens(key)
        return applied

    def _change(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        if earlier := self.find_earlier(key, intent):
            return earlier
        decision = self._users.decide(key, reads, rule, intent)
        self._roles.write_staff()
        return self._users.write(decision)

    def link(self, key: Lookup, identity: Document | None, intent: Intent) -> Applied:
        """Link an account to a company account, or remove the link; end its groups and sign-ins."""

        def linked(user: Document) -> Change:
            known = {f"OpenId.{name}": text for name, text in (identity or {}).items()}
            if known and self._collection.find_one({**known, "_id": {"$ne": user["_id"]}}, ["_id"]):
                raise Conflict("Another account is linked to this company account.")
            fields: Document = {"OpenId": identity, "GroupRoles": []}
            return Change({**revoke_tokens(user).fields, **fields}, None)

        return self.change(key, (*RIGHTS, *WAYS_IN, "PasswordVersion"), linked, intent)

    def preview(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document:
        return self._users.preview(key, reads, self._guarded(rule), intent)

    def _guarded(self, rule: Rule) -> Rule:
        """Return a rule that also raises LastAdministrator if nobody would manage staff."""

        def guarded(user: Document) -> Change:
            change, roles = rule(user), self._roles.all()
            after = {**user, **change.fields}
            held, kept = (rights_of(one, roles).permissions for one in (user, after))
            is_shut_out = "OpenId" in change.fields and not has_way_in(after, self._roles.ways_in)
            if ADMINISTERING in (held if is_shut_out else held - kept):
                self._roles.require_administrator(but=user["_id"])
            return change

        return guarded
