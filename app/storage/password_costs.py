"""The argon2 costs of all stored password hashes, one document each, shared by all workers.

A cost is recorded before a hash is stored, and never removed: an unused account keeps its hash.
"""

from __future__ import annotations

import re

from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import TEXT, object_shape
from app.types import Document

PASSWORD_COSTS = CollectionPlan("password_costs", object_shape({"_id": TEXT}))
# Passes times KiB: a hundred times the usual, some seconds. Hashing at a higher cost, stored by
# mistake, would block a thread for minutes.
MOST_WORK = 4_000_000
_COST = re.compile(r"\$argon2(?:id?|d)\$v=\d+\$m=(\d{1,10}),t=(\d{1,10}),p=\d{1,3}", re.ASCII)


def cost_of(stored: str | None) -> str | None:
    """Return the part of a hash that encodes its cost: all but the salt and the digest."""
    cost, _, rest = (stored or "").rpartition("$")[0].rpartition("$")
    return cost if rest and is_usable(cost) else None


def is_usable(cost: str) -> bool:
    """Tell whether a password can be hashed at a cost within a request."""
    found = _COST.fullmatch(cost)
    return found is not None and int(found[1]) * int(found[2]) <= MOST_WORK


def record_all(db: Database[Document]) -> None:
    """Record the costs of all accounts by a scan."""
    found = db["users"].find({"PasswordHash": {"$type": "string"}}, ["PasswordHash"])
    record(db, *{cost_of(user["PasswordHash"]) for user in found})


def record(db: Database[Document], *costs: str | None) -> None:
    for cost in filter(None, costs):
        try:
            db[PASSWORD_COSTS.name].update_one(
                {"_id": cost}, {"$setOnInsert": {"_id": cost}}, upsert=True
            )
        except DuplicateKeyError:  # a concurrent upsert has just inserted it
            continue


class PasswordCosts:
    """The recorded costs, with a cache of those that this process has recorded."""

    def __init__(self, db: Database[Document]) -> None:
        self._db = db
        self._recorded: set[str] = set()

    def record(self, cost: str | None) -> None:
        """Record a cost for all workers, before a hash is stored at it."""
        if cost and cost not in self._recorded:
            record(self._db, cost)
            self._recorded.add(cost)

    def in_use(self) -> set[str]:
        found = self._db[PASSWORD_COSTS.name].find({}, ["_id"])
        return {cost["_id"] for cost in found if is_usable(cost["_id"])}
