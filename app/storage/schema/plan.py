"""The definition of a collection for db init. Each feature declares its own next to its store."""

from __future__ import annotations

from typing import Any, NamedTuple

from pymongo import ASCENDING, DESCENDING, IndexModel

from app.core.types import Document


class CollectionPlan(NamedTuple):
    """A collection: its name, the shape for its validator, and its indexes."""

    name: str
    shape: Document
    indexes: tuple[IndexModel, ...] = ()


def index(name: str, *keys: str, **options: Any) -> IndexModel:
    """Return an index on these keys; a leading minus means descending."""
    order = [
        (key.removeprefix("-"), DESCENDING if key.startswith("-") else ASCENDING) for key in keys
    ]
    return IndexModel(order, name=name, **options)


def expiry() -> IndexModel:
    """Return a TTL index for documents with their own expiry time."""
    return index("expiry", "ExpiresAt", expireAfterSeconds=0)
