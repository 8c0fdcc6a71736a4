"""Moving items within the budget of the key that a caller uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app import metrics
from app.auth import guard
from app.auth.api_keys import AccessKey, Budget
from app.changes import Applied
from app.errors import Busy, Forbidden, QuartermasterError, Unavailable
from app.http.context import current
from app.storage.limits.quotas import Budgets

budgets = current(Budgets)


class OverBudget(Forbidden):
    """A key has not the budget for what it asks; field is the limit that it lacks."""

    sentence = "The budget of the key '{key}' does not allow it: {why} ({field})."


def spend(
    moved: Mapping[str, int] | str | None,
    change: Callable[[], Applied],
    find_earlier: Callable[[], Applied | None],
) -> Applied:
    """Make a change that moves so many of these items, if the budget of the caller's key allows it.

    A text says what is done where nobody knows how much that moves.
    """
    key = guard.caller().key
    if key is None or key.budget is None or moved is None:
        return change()
    if isinstance(moved, str):
        raise _refused(key, f"{moved} is not for a key with a budget", "Budget")
    _require_within(key, key.budget, moved)
    if key.budget.items_per_day is None:
        return change()
    return _spend_of_day(key, key.budget.items_per_day, sum(moved.values()), change, find_earlier)


def _spend_of_day(
    key: AccessKey,
    limit: int,
    total: int,
    change: Callable[[], Applied],
    find_earlier: Callable[[], Applied | None],
) -> Applied:
    reservation = budgets.reserve(key.id, total, limit)
    if reservation is None:
        # A repetition of what was done before moves nothing, and needs no budget.
        if earlier := find_earlier():
            return earlier
        why = f"fewer than {total} of its {limit} items are left for today"
        raise _refused(key, why, "ItemsPerDay")
    try:
        applied = change()
    except QuartermasterError as error:
        # Of an outcome that is unknown, the worst is assumed: that the items have been moved.
        if isinstance(error, Busy) or not isinstance(error, Unavailable):
            budgets.give_back(reservation)
        raise
    if applied.replayed:
        budgets.give_back(reservation)
    return applied


def refuse_budgets(what: str, key: AccessKey | None = None) -> None:
    """Refuse a caller whose key has a budget, where nobody can say what would be moved."""
    key = key or guard.caller().key
    if key is not None and key.budget is not None:
        raise _refused(key, f"{what} is not for a key with a budget", "Budget")


def _require_within(key: AccessKey, budget: Budget, quantities: Mapping[str, int]) -> None:
    for item, quantity in quantities.items():
        if budget.items is not None and item not in budget.items:
            raise _refused(key, f"it may not move the item {item}", "Items")
        if budget.largest_quantity is not None and quantity > budget.largest_quantity:
            most = budget.largest_quantity
            why = f"it may move {most} of an item at once, not {quantity}"
            raise _refused(key, why, "LargestQuantity")


def _refused(key: AccessKey, why: str, field: str) -> OverBudget:
    metrics.BUDGET_REFUSALS.labels(field).inc()
    return OverBudget(key.name, why, field)
