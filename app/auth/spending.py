"""Enforces the item budget of an API key."""

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
    """The budget of a key does not allow a change; field is the exceeded limit."""

    sentence = "The budget of the key '{key}' does not allow it: {why} ({field})."


def spend(
    moved: Mapping[str, int] | str | None,
    change: Callable[[], Applied],
    find_earlier: Callable[[], Applied | None],
) -> Applied:
    """Make a change that moves these quantities, if the budget of the caller's key allows it.

    If moved is a text, the quantities are unknown; the text names the change in the error.
    """
    key = guard.caller().key
    if key is None or key.budget is None or moved is None:
        return change()
    if isinstance(moved, str):
        raise _refusal(key, f"{moved} is not for a key with a budget", "Budget")
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
        # A repeated request moves nothing, and needs no budget.
        if earlier := find_earlier():
            return earlier
        why = f"fewer than {total} of its {limit} items are left for today"
        raise _refusal(key, why, "ItemsPerDay")
    try:
        applied = change()
    except QuartermasterError as error:
        # If the outcome is unknown, assume that the items were moved.
        if isinstance(error, Busy) or not isinstance(error, Unavailable):
            budgets.give_back(reservation)
        raise
    if applied.replayed:
        budgets.give_back(reservation)
    return applied


def refuse_budgets(what: str, key: AccessKey | None = None) -> None:
    """Refuse a key with a budget, because the quantities that would be moved are unknown."""
    key = key or guard.caller().key
    if key is not None and key.budget is not None:
        raise _refusal(key, f"{what} is not for a key with a budget", "Budget")


def _require_within(key: AccessKey, budget: Budget, quantities: Mapping[str, int]) -> None:
    for item, quantity in quantities.items():
        if budget.items is not None and item not in budget.items:
            raise _refusal(key, f"it may not move the item {item}", "Items")
        if budget.largest_quantity is not None and quantity > budget.largest_quantity:
            most = budget.largest_quantity
            why = f"it may move {most} of an item at once, not {quantity}"
            raise _refusal(key, why, "LargestQuantity")


def _refusal(key: AccessKey, why: str, field: str) -> OverBudget:
    metrics.BUDGET_REFUSALS.labels(field).inc()
    return OverBudget(key.name, why, field)
