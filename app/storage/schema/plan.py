"""What db init makes of a collection: each feature declares its own plan beside its store."""

from __future__ import annotations

from typing import Any, NamedTuple

from pymongo import ASCENDING, DESCENDING, IndexModel

from app.types import Document


class CollectionPlan(NamedTuple):
    """A collection: its name, the shape that its validator asks for, and its indexes."""

    name: str
    shape: Document
    indexes: tuple[IndexModel, ...] = ()


def index(name: str, *keys: str, **options: Any) -> IndexModel:
    """Return an index on these keys; a leading minus is descending."""
    order = [
        (key.removeprefix("-"), DESCENDING if key.startswith("-") else ASCENDING) for key in keys
    ]
    return IndexModel(order, name=name, **options)


def expiry() -> IndexModel:
    """Return the TTL index of documents that say themselves when they expire."""
    return index("expiry", "ExpiresAt", expireAfterSeconds=0)
