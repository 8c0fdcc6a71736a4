"""Accounts in MongoDB."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from pymongo.errors import DuplicateKeyError

from app.changes import Change, Intent
from app.errors import EmailTaken, NameTaken, NotFound
from app.keys import Lookup
from app.storage.client import Storage
from app.storage.search import by_key
from app.storage.swap import swap
from app.users.domain import new_account

Document = dict[str, Any]


class Users:
    """The accounts of one application."""

    def __init__(self, storage: Storage) -> None:
        self._users = storage.db["users"]

    def get(self, key: Lookup, *fields: str) -> Document:
        """Return these fields of an account, or all of them."""
        user = self._users.find_one(by_key(key), list(fields) or None)
        if user is None:
            raise NotFound("user", key)
        return user

    def credentials(self, name_key: str) -> Document | None:
        """Return what signing in needs to know of an account, if there is one."""
        return self._users.find_one({"NameKey": name_key}, ["Name", "PasswordHash", "Power"])

    def create(self, name: str, email: str, password_hash: str | None) -> Document:
        """Add an account without any power; the indexes hold names and addresses unique."""
        now = datetime.now(timezone.utc)
        user = new_account(str(uuid.uuid4()), name, email, password_hash, now)
        try:
            self._users.insert_one(user)
        except DuplicateKeyError as error:
            if "EmailKey" in (error.details or {}).get("keyPattern", {}):
                raise EmailTaken(email) from None
            raise NameTaken(name) from None
        return user

    def change_power(self, key: Lookup, rule: Callable[[Document], Document]) -> Document:
        """Apply a rule to an account's Power and return the new one."""

        def change(user: Document) -> Change:
            power = rule(user["Power"])
            return Change({"Power": power}, power)

        where = by_key(key)
        power: Document = swap(self._users, where, ("Power",), change, Intent("power")).answer
        return power

    def has_hash(self, user_id: str, password_hash: str) -> bool:
        """Tell whether a password is still the one that was checked."""
        same = {"_id": user_id, "PasswordHash": password_hash}
        return self._users.find_one(same, ["_id"]) is not None

    def renew_hash(self, user_id: str, old: str, new: str) -> None:
        """Store the same password at today's cost, unless it was changed meanwhile."""
        same = {"_id": user_id, "PasswordHash": old}
        self._users.update_one(same, {"$set": {"PasswordHash": new}})
