"""Finding documents by their lookup key, and names by any part of them."""

from __future__ import annotations

import re
from typing import Any

from app.keys import Lookup
from app.storage.pages import Where


def by_key(key: Lookup) -> dict[str, Any]:
    """Return the filter for whom a path means."""
    return {"_id": key.id} if key.id else {"NameKey": key.name_key}


def named_like(text: str) -> Where:
    """Return the filter for names that hold a text, both as name keys.

    A rare text is looked up among the ends of names. A common one is found sooner by walking the
    names in order; for that the name itself is compared too. MongoDB tries both and chooses. To
    count, the ends alone do, without a look at any document.
    """
    pattern = re.escape(text)
    ends = {"NameTails": {"$regex": f"^{pattern}"}}
    return Where({**ends, "NameKey": {"$regex": pattern}}, ends)
