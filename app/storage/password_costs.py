"""At which costs the stored passwords were hashed: a document for each, so that all workers know.

Learned where a hash is stored or met, and kept, since accounts that nobody uses keep theirs too.
"""

from __future__ import annotations

from typing import Any

from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

Document = dict[str, Any]

COLLECTION = "password_costs"


def cost_of(stored: str | None) -> str | None:
    """Return the beginning of a hash that tells its cost: all but the salt and the digest."""
    parts = (stored or "").split("$")
    is_argon2 = len(parts) == 6 and parts[1].startswith("argon2")
    return "$".join(parts[:4]) if is_argon2 else None


def learn(db: Database[Document]) -> None:
    """Note the costs of all accounts, which takes a look at each."""
    found = db["users"].find({"PasswordHash": {"$type": "string"}}, ["PasswordHash"])
    note(db, *{cost_of(user["PasswordHash"]) for user in found})


def note(db: Database[Document], *costs: str | None) -> None:
    for cost in filter(None, costs):
        try:
            db[COLLECTION].update_one({"_id": cost}, {"$setOnInsert": {"_id": cost}}, upsert=True)
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
        return {found["_id"] for found in self._db[COLLECTION].find({}, ["_id"])}
