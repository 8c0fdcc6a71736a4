"""Sentences about the limits of the person who is signed in."""

from __future__ import annotations

from collections.abc import Iterable

from app.auth.spending import limits_today
from app.console.forms.declared import Target


def about_items(_: Target | None = None) -> Iterable[str]:
    """Yield how many items the person may move."""
    limits = limits_today()
    at_once, a_day = limits["LargestQuantity"], limits["ItemsPerDay"]
    parts = [] if at_once is None else [f"You can move {at_once:,} of an item at once"]
    if a_day is not None:
        parts.append(f"{limits['LeftToday']:,} of {a_day:,} items left today")
    if parts:
        yield f"{'; '.join(parts)}."


def about_batches() -> Iterable[str]:
    """Yield what the person may do with one batch."""
    most = limits_today()["RowsPerBatch"]
    if most is not None:
        yield f"You can run batches of {most:,} rows. A colleague can approve more."
    yield from about_items()
