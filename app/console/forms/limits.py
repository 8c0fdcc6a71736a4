"""Sentences about the limits of the person who is signed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.auth.spending import limits_today
from app.console.forms.declared import Target
from app.core.operations import Operation
from app.core.types import Document


def about_items(_: Target | None = None) -> Iterable[str]:
    """Yield how many items the person may move."""
    limits = limits_today()
    at_once, a_day = limits["LargestQuantity"], limits["ItemsPerDay"]
    parts = [] if at_once is None else [f"You can move {at_once:,} of an item at once"]
    if a_day is not None:
        parts.append(f"{limits['LeftToday']:,} of {a_day:,} items left today")
    if parts:
        yield f"{'; '.join(parts)}."


def over_limit(operation: Operation | None, args: Document) -> Iterable[str]:
    """Yield that a previewed change is over a limit of the person, if it is."""
    found = operation.moves(args) if operation else None
    moved = sum(found.values()) if isinstance(found, Mapping) else 0
    limits = limits_today()
    most = [one for one in (limits["LargestQuantity"], limits["LeftToday"]) if one is not None]
    if most and moved > min(most):
        yield "This is over your limit: a colleague has to approve it."


def about_batches() -> Iterable[str]:
    """Yield what the person may do with one batch."""
    most = limits_today()["RowsPerBatch"]
    if most is not None:
        yield f"You can run batches of {most:,} rows. A colleague can approve more."
    yield from about_items()
