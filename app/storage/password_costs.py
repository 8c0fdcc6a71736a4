"""At which costs the stored passwords were hashed: a document for each, so that all workers know.

Learned where a hash is stored or met, and kept, since accounts that nobody uses keep theirs too.
"""

from __future__ import annotations

import re

from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import TEXT, object_shape
from app.types import Document

PASSWORD_COSTS = CollectionPlan("password_costs", object_shape({"_id": TEXT}))
# Passes times KiB: a hundred times what is usual, some seconds. To hash at a cost beyond it, by
# somebody's mistake, would hold a place for minutes or for ever.
MOST_WORK = 4_000_000
_COST = re.compile(r"\$argon2(?:id?|d)\$v=\d+\$m=(\d{1,10}),t=(\d{1,10}),p=\d{1,3}", re.ASCII)


def cost_of(stored: str | None) -> str | None:
    """Return the beginning of a hash that tells its cost: all but the salt and the digest."""
    cost, _, rest = (stored or "").rpartition("$")[0].rpartition("$")
    return cost if rest and is_usable(cost) else None


def is_usable(cost: str) -> bool:
    """Tell whether a password can be hashed at a cost within a request."""
    found = _COST.fullmatch(cost)
    return found is not None and int(found[1]) * int(found[2]) <= MOST_WORK


def learn(db: Database[Document]) -> None:
    """Note the costs of all accounts, which takes a look at each."""
    found = db["users"].find({"PasswordHash": {"$type": "string"}}, ["PasswordHash"])
    note(db, *{cost_of(user["PasswordHash"]) for user in found})


def note(db: Database[Document], *costs: str | None) -> None:
    for cost in filter(None, costs):
        try:
            db[PASSWORD_COSTS.name].update_one(
                {"_id": cost}, {"$setOnInsert": {"_id": cost}}, upsert=True
            )
        except DuplicateKeyError:  # somebody else was just faster
            continue


class PasswordCosts:
    """The costs that one application knows of."""

    def __init__(self, db: Database[Document]) -> None:
        self._db = db
        self._noted: set[str] = set()

    def note(self, cost: str | None) -> None:
        """Remember a cost for all workers and for ever, before anything is stored at it."""
        if cost and cost not in self._noted:
            note(self._db, cost)
            self._noted.add(cost)

    def in_use(self) -> set[str]:
        found = self._db[PASSWORD_COSTS.name].find({}, ["_id"])
        return {cost["_id"] for cost in found if is_usable(cost["_id"])}
