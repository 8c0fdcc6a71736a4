"""Accounts in MongoDB."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pymongo.errors import PyMongoError

from app.core.changes import Applied, Intent, Rule
from app.core.errors import EmailTaken, NameTaken, NotFound
from app.core.former_names import KEY_PATH, only_one
from app.core.naming import Lookup, email_key, name_key
from app.core.paging import Page, Window
from app.core.penalties import BAN, BAN_STATE, MUTE, Penalty
from app.core.permissions import RIGHTS
from app.core.types import Document
from app.storage.bulk import SWEEP_SECONDS, sweep
from app.storage.changes import fresh_version
from app.storage.client import Storage
from app.storage.documents import NamedDocuments
from app.storage.history import NOTED
from app.storage.paging.orders import order
from app.storage.schema.plan import CollectionPlan, index
from app.storage.transactions import after_commit
from app.users.domain import (
    SHAPE,
    SUBJECT,
    change_email,
    change_power,
    new_account,
    rename,
    revoke_tokens,
    usable,
)

log = logging.getLogger("quartermaster")

RECORD = ("Name", "Email", *RIGHTS, "Reset", *MUTE)
HAS_KEYS: Document = {"KeyDigests": {"$exists": True}}
USERS = CollectionPlan(
    "users",
    SHAPE,
    (
        index("name", "NameKey", unique=True),
        index("name_tails", "NameTails", "NameKey"),
        index("former_name", KEY_PATH, sparse=True),
        index("email", "EmailKey", unique=True),
        index("openid", "OpenId.Subject", "OpenId.Issuer", unique=True, sparse=True),
        index("key", "KeyDigests", partialFilterExpression=HAS_KEYS),
        NOTED,
        # Few accounts are of staff.
        index("staff_power", "Power.Api", partialFilterExpression={"Power.Api": True}),
        *(
            index(name, field, partialFilterExpression={field: {"$type": "string"}})
            for name, field in (
                ("staff_roles", "Roles"),
                ("group_roles", "GroupRoles"),
                ("banned", BAN.by),
                ("muted", MUTE.by),
            )
        ),
        *(
            index(
                penalty.flag, penalty.flag, "NameKey", partialFilterExpression={penalty.flag: True}
            )
            for penalty in (BAN, MUTE)
        ),
    ),
)
# What a change of the address reads.
ADDRESS = ("Email", "EmailKey", "FormerEmails", "Reset", "Invitation", "PasswordHash")
# The orders of lists, by field and direction, each with its index.
ORDERS = {
    ("name", True): order("name", "NameKey"),
    ("name", False): order("name", "-NameKey"),
    ("email", True): order("email", "EmailKey"),
    ("email", False): order("email", "-EmailKey"),
}


class Users(NamedDocuments):
    orders = ORDERS
    record = dict.fromkeys(RECORD, 1)
    record_with_former_names = {**record, "FormerNames": 1}

    def __init__(
        self, storage: Storage, total_seconds: float = 0, sweep_seconds: float = SWEEP_SECONDS
    ) -> None:
        taken = {
            "NameKey": lambda user: NameTaken(user["Name"]),
            "EmailKey": lambda user: EmailTaken(user["Email"]),
        }
        super().__init__(storage, SUBJECT, total_seconds, taken)
        self._sweep_seconds = sweep_seconds
        self._tokens = storage.db["refresh_tokens"]

    def get(self, key: Lookup, *fields: str) -> Document:
        """Return the given fields of an account; without any, those of its record."""
        wanted = list(fields or RECORD)
        return self._usable(self._read(key, wanted), wanted)

    def get_id_by_any_name(self, key: Lookup) -> str:
        """Return the id of an account by its name, or by a former name that only it had."""
        try:
            id_: str | None = self.get(key, "_id")["_id"]
        except NotFound:
            had = self._documents.find({KEY_PATH: key.name_key}, ["_id"])
            id_ = only_one("user", key.text, (user["_id"] for user in had))
            if id_ is None:
                raise
        return str(id_)

    def by_address(self, beginning: str, limit: int) -> Sequence[Document]:
        """Return some accounts whose email address begins with a text, sorted by address."""
        key = {"$regex": f"^{re.escape(name_key(beginning))}"}
        found = self._documents.find({"EmailKey": key}, list(RECORD), sort=[("EmailKey", 1)])
        return self._serve([*found.limit(limit)])

    def list_punished(self, penalty: Penalty, window: Window) -> Page:
        """Return a page of the accounts with this penalty in force, by name."""
        # The second condition also matches a penalty without an end.
        where = {penalty.flag: {"$eq": True}, penalty.until: {"$not": {"$lte": self.now()}}}
        fields = dict.fromkeys((*RECORD, *penalty), 1)
        order, flag = ORDERS["name", True], penalty.flag
        page = self._pages.walk(window, order, fields, where, flag, flag)
        return page._replace(values=[self._usable(user, list(fields)) for user in page.values])

    def credentials(self, key: str) -> Document | None:
        """Return the fields of an account that signing in needs, by name key, or None."""
        return self._credentials({"NameKey": key})

    def credentials_by_identity(self, identity: Document) -> Document | None:
        """Return the same fields of the account that is linked to a company account, or None."""
        return self._credentials({f"OpenId.{name}": text for name, text in identity.items()})

    def _credentials(self, where: Document) -> Document | None:
        fields = ["Name", "PasswordHash", *RIGHTS, "PasswordVersion", "SecondFactor", *BAN_STATE]
        user = self._documents.find_one(where, fields)
        return self._usable(user, fields) if user else None

    def create(
        self,
        name: str,
        email: str,
        password_hash: str | None,
        intent: Intent,
        id_: str | None = None,
        **fields: Any,
    ) -> Applied:
        """Add an account without Power flags, and return it."""
        guid = id_ or str(uuid.uuid4())
        user = {**new_account(guid, name, email, password_hash, self.now()), **fields}
        return self._changes.insert(user, intent)._replace(answer=user)

    def require_unused(self, name: str, email: str) -> None:
        """Raise if a name or an address is taken; unique indexes still refuse later duplicates."""
        if self._transactions.holds(self._documents, {"NameKey": name_key(name)}):
            raise NameTaken(name)
        if self._transactions.holds(self._documents, {"EmailKey": email_key(email)}):
            raise EmailTaken(email)

    def change_power(
        self, key: Lookup, change: Callable[[Document], Document], intent: Intent
    ) -> Document:
        """Change an account's Power and return the new one."""
        rule = partial(change_power, change=change)
        power: Document = self.change(key, ("Power",), rule, intent).answer
        return power

    def change_email(
        self, key: Lookup, new: str, intent: Intent, checked: str | None = None
    ) -> Applied:
        rule = partial(change_email, new=new, checked=checked)
        return self.change(key, (*ADDRESS, *RIGHTS), rule, intent)

    def rename(self, key: Lookup, name: str, intent: Intent) -> Applied:
        reads = ("Name", "NameKey", "NameTails", "FormerNames")
        return self.change(key, reads, partial(rename, name=name), intent)

    def change_password(self, key: Lookup, rule: Rule, intent: Intent) -> Applied:
        """Apply a rule that may change the password, and delete tokens that became void."""
        reads = ("PasswordHash", "PasswordVersion", "Reset", "Invitation", *RIGHTS)
        return self.change_and_sweep(key, reads, rule, intent)

    def change_and_sweep(
        self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Applied:
        """Apply a rule that may make tokens void, and delete those."""
        applied = self.change(key, reads, rule, intent)
        self.sweep_tokens(key)
        return applied

    def revoke_tokens(self, key: Lookup, intent: Intent) -> Applied:
        """Make all tokens of an account void with one write, however many there are."""
        return self.change_and_sweep(key, ("PasswordVersion",), revoke_tokens, intent)

    def sweep_tokens(self, key: Lookup) -> None:
        """Delete tokens of earlier password versions. Best effort: they are void anyway."""

        def sweep_now() -> None:
            try:
                user = self.get(key, "PasswordVersion")
            except (PyMongoError, NotFound) as error:
                log.warning("Revoked tokens were not removed: %s", error)
                return
            former = {"$lt": user["PasswordVersion"]}
            void = {"UserId": user["_id"], "PasswordVersion": former}
            sweep(self._tokens, void, self._sweep_seconds)

        after_commit(sweep_now)

    def renew_hash(self, user_id: str, old: str, new: str) -> None:
        """Replace the hash of the same password, unless it was changed meanwhile."""
        same = {"_id": user_id, "PasswordHash": old}
        self._documents.update_one(same, {"$set": {"PasswordHash": new}})

    def _usable(self, document: Document, fields: Sequence[str]) -> Document:
        return usable(document, fields, fresh_version)

    def _serve(self, documents: Sequence[Document]) -> list[Document]:
        return [self._usable(user, RECORD) for user in documents]

    def _checked(self, reads: tuple[str, ...], rule: Rule) -> tuple[tuple[str, ...], Rule]:
        return reads, lambda user: rule(self._usable(user, (*reads, "Name")))
