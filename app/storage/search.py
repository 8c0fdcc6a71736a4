"""Finding names by any part of them, through an index of their ends."""

from __future__ import annotations

import re
from typing import Any


def named_like(text: str) -> dict[str, Any]:
    """Return the filter for names that hold a text, both as name keys.

    A rare text is looked up among the ends of names. A common one is found sooner by walking the
    names in order; for that the name itself is compared too. MongoDB tries both and chooses.
    """
    pattern = re.escape(text)
    return {"NameTails": {"$regex": f"^{pattern}"}, "NameKey": {"$regex": pattern}}
