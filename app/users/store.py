"""Accounts in MongoDB."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from app.core.changes import Applied, Intent
from app.core.errors import EmailTaken, NameTaken
from app.core.naming import Lookup, email_key, name_key
from app.core.paging import Page, Window
from app.core.penalties import BAN, BAN_STATE, MUTE, Penalty
from app.core.permissions import RIGHTS
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage, begins
from app.storage.documents import BY_NAME, NAME_INDEXES, NamedDocuments
from app.storage.history import NOTED
from app.storage.paging.orders import order
from app.storage.schema.plan import CollectionPlan, index
from app.users.domain import SHAPE, SUBJECT, new_account

RECORD = ("Name", "Email", *RIGHTS, "Reset", *MUTE)
HAS_KEYS: Document = {"KeyDigests": {"$exists": True}}
USERS = CollectionPlan(
    "users",
    SHAPE,
    (
        *NAME_INDEXES,
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
# What a change of the password, and of the address, reads.
PASSWORD = ("PasswordHash", "PasswordVersion", "Reset", "Invitation", *RIGHTS)
ADDRESS = ("Email", "EmailKey", "FormerEmails", "Reset", "Invitation", "PasswordHash")
ORDERS = {
    **BY_NAME,
    ("email", True): order("email", "EmailKey"),
    ("email", False): order("email", "-EmailKey"),
}


class Users(NamedDocuments):
    orders = ORDERS
    record = dict.fromkeys(RECORD, 1)
    record_with_former_names = {**record, "FormerNames": 1}

    def __init__(self, storage: Storage, total_seconds: float = 0) -> None:
        taken = {
            "NameKey": lambda user: NameTaken(user["Name"]),
            "EmailKey": lambda user: EmailTaken(user["Email"]),
        }
        super().__init__(storage, SUBJECT, total_seconds, taken)

    def get(self, key: Lookup, *fields: str) -> Document:
        """Return the given fields of an account; without any, those of its record."""
        return self._read(key, [*(fields or RECORD)])

    def by_address(self, beginning: str, limit: int) -> Sequence[Document]:
        """Return some accounts whose email address begins with a text, sorted by address."""
        where = {"EmailKey": begins(name_key(beginning))}
        found = self._documents.find(where, list(RECORD), sort=[("EmailKey", 1)])
        return [*map(self.present, found.limit(limit))]

    def list_punished(self, penalty: Penalty, window: Window) -> Page:
        """Return a page of the accounts with this penalty in force, by name."""
        # The second condition also matches a penalty without an end.
        where = {penalty.flag: {"$eq": True}, penalty.until: {"$not": {"$lte": self.now()}}}
        fields = dict.fromkeys((*RECORD, *penalty), 1)
        flag = penalty.flag
        page = self._pages.walk(window, ORDERS["name", True], fields, where, flag, flag)
        return page._replace(values=[self.readable(user, fields) for user in page.values])

    def credentials(self, where: Document) -> Document | None:
        """Return the fields of an account that signing in needs, or None."""
        fields = ["Name", "PasswordHash", *RIGHTS, "PasswordVersion", "SecondFactor", *BAN_STATE]
        found = self._documents.find_one(where, fields)
        return self.readable(found, fields) if found else None

    def find_linked(self, identity: Document) -> Document | None:
        """Return the same fields of the account that is linked to a company account, or None."""
        return self.credentials({f"OpenId.{name}": text for name, text in identity.items()})

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
        return self.insert(user, intent)._replace(answer=user)

    def require_unused(self, name: str, email: str) -> None:
        """Raise if a name or an address is taken; unique indexes still refuse later duplicates."""
        keys = {"NameKey": name_key(name), "EmailKey": email_key(email)}
        fields = {"Name": name, "Email": email, **keys}
        self._transactions.run(partial(self._require_free, None, fields))

    def renew_hash(self, user_id: str, old: str, new: str) -> None:
        """Replace the hash of the same password, unless it was changed meanwhile."""
        same = {"_id": user_id, "PasswordHash": old}
        self._documents.update_one(same, {"$set": {"PasswordHash": new}})


users = current(Users)
