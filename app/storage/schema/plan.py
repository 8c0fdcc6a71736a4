"""The definition of a collection for db init. Each feature declares its own next to its store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pymongo import ASCENDING, DESCENDING, IndexModel

from app.core.types import Document
from app.storage.schema.explain_validator import readable


class CollectionPlan(NamedTuple):
    """A collection: its name, the shape for its validator, and its indexes."""

    name: str
    shape: Document
    indexes: tuple[IndexModel, ...] = ()

    def readable(self, document: Document, fields: Iterable[str] | None = None) -> Document:
        """Return a document as the shape describes it, however it was stored."""
        read: Document = readable(self.shape, document, fields)
        return read


def sort_keys(*keys: str) -> list[tuple[str, int]]:
    """Return the keys of an index or a sort order; a leading minus means descending."""
    return [
        (key.removeprefix("-"), DESCENDING if key.startswith("-") else ASCENDING) for key in keys
    ]


def index(name: str, *keys: str, **options: Any) -> IndexModel:
    return IndexModel(sort_keys(*keys), name=name, **options)


def expiry() -> IndexModel:
    """Return a TTL index for documents with their own expiry time."""
    return index("expiry", "ExpiresAt", expireAfterSeconds=0)
