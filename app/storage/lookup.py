"""Finding a document by its lookup key."""

from __future__ import annotations

from typing import Any

from app.keys import Lookup


def by_key(key: Lookup) -> dict[str, Any]:
    """Return the filter for whom a path means."""
    return {"_id": key.id} if key.id else {"NameKey": key.name_key}
