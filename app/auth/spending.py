"""Enforces how many items may be moved, and what needs two people by the setting QM_APPROVAL.

A key moves items within its budget, and a person within the limits of their roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from app.auth import guard
from app.auth.api_keys import Budget
from app.auth.callers import Caller
from app.core import metrics
from app.core.changes import Applied
from app.core.errors import Busy, Forbidden, QuartermasterError, Unavailable
from app.core.operations import Moved
from app.core.permissions import LIMIT_NAMES
from app.core.types import Document
from app.http.context import setting
from app.storage.limits import Use, budgets

NAMES = {
    "batches": "batches of more than {most:,} rows",
    "erasures": "erasures",
    "roles": "changes of roles",
}


class NeedsApproval(Forbidden):
    """A rule of the settings wants two people for a change."""

    sentence = "Here, {what} need two people (QM_APPROVAL). You can ask a colleague to approve it."


def require_no_approval(name: str, count: int = 1) -> None:
    """Raise NeedsApproval if the settings want a second person for this."""
    for rule in setting("APPROVAL"):
        named, _, most = rule.replace(" ", "").partition(">")
        if named == name and count > int(most or 0):
            raise NeedsApproval(NAMES[name].format(most=int(most or 0)))


class OverBudget(Forbidden):
    """The budget of a key does not allow a change; field is the exceeded limit."""

    sentence = "The budget of the key '{key}' does not allow it: {why} ({field})."


class OverLimit(Forbidden):
    """A limit of the caller's roles does not allow a change; field is the exceeded limit."""

    sentence = "This is over your limit: {why} ({field}). You can ask a colleague to approve it."
    why: str
    field: str

    def __init__(
        self, why: str, field: str, wanted: int | None = None, left: int | None = None
    ) -> None:
        super().__init__(why, field)
        self.wanted, self.left = wanted, left


class OverFixedLimit(OverLimit):
    """The same for a change that nobody can ask a colleague for."""

    code = "OVER_LIMIT"
    sentence = "This is over your limit: {why} ({field})."


class OverOwnLimit(OverLimit):
    """The approver's own limit does not allow the change."""

    code = "OVER_LIMIT"
    sentence = (
        "You cannot approve this: it is over your own limit: {why} ({field}). A colleague with a "
        "higher limit can."
    )


class Allowance(NamedTuple):
    """How many items a person, or a key by its name, may move."""

    id: str
    budget: Budget
    key: str | None = None
    # Whether the person may ask a colleague for more.
    can_ask: bool = True

    def require(self, moved: Mapping[str, int] | str) -> None:
        """Raise unless one request may move these quantities. A text means that they are unknown.

        The text names the change in the error.
        """
        if isinstance(moved, str):
            who = "a person with a limit" if self.key is None else "a key with a budget"
            raise self.refusal(f"{moved} is not for {who}", "Budget")
        most = self.budget.largest_quantity
        for item, quantity in moved.items():
            if self.budget.items is not None and item not in self.budget.items:
                raise self.refusal(f"it may not move the item {item}", "Items")
            if most is not None and quantity > most:
                who = "you" if self.key is None else "it"
                why = f"{who} may move {most} of an item at once, not {quantity}"
                raise self.refusal(why, "LargestQuantity", quantity, most)

    def require_day(self, total: int) -> None:
        """Raise if fewer items are left for today."""
        left = self.left_today()
        if left is not None and total > left:
            raise self.over_day(total)

    def left_today(self) -> int | None:
        """Return how many items are left for today; None: no limit."""
        most = self.budget.items_per_day
        return None if most is None else max(0, most - budgets.used_today([self.id])[self.id])

    def over_day(self, total: int) -> Forbidden:
        whose = "your" if self.key is None else "its"
        left, most = self.left_today() or 0, self.budget.items_per_day
        why = f"{left} of {whose} {most} items are left for today, fewer than {total}"
        return self.refusal(why, "ItemsPerDay", total, left)

    def refusal(
        self, why: str, field: str, wanted: int | None = None, left: int | None = None
    ) -> Forbidden:
        if self.key is None:
            kind = OverLimit if self.can_ask else OverFixedLimit
            return kind(why, "Limits" if field == "Budget" else field, wanted, left)
        metrics.BUDGET_REFUSALS.labels(field).inc()
        return OverBudget(self.key, why, field)


def allowances_of(caller: Caller) -> list[Allowance]:
    """Return what limits a caller: the budget of the key, and the limits of the person."""
    found = []
    if caller.key and caller.key.budget:
        found.append(Allowance(caller.key.id, caller.key.budget, caller.key.name))
    own = own_allowance(caller)
    return found if own.budget == Budget() else [*found, own]


def own_allowance(caller: Caller) -> Allowance:
    limits = caller.rights.limits
    budget = Budget(limits.largest_quantity, limits.items_per_day)
    return Allowance(caller.id, budget, can_ask=bool(caller.rights.roles))


def spend(
    moved: Moved, change: Callable[[], Applied], find_earlier: Callable[[], Applied | None] | None
) -> Applied:
    """Make a change that moves these quantities, if the caller's key and the caller may.

    If moved is a text, the quantities are unknown; the text names the change in the error.
    """
    allowances = allowances_of(guard.caller())
    if moved is None or not allowances:
        return change()
    total = 0 if isinstance(moved, str) else sum(moved.values())
    try:
        for one in allowances:
            one.require(moved)
        reserved = reserve(allowances, total)
    except Forbidden:
        # A repeated request moves nothing, and needs no budget.
        if find_earlier and (earlier := find_earlier()):
            return earlier
        raise
    try:
        applied = change()
    except QuartermasterError as error:
        # If the outcome is unknown, assume that the items were moved.
        if isinstance(error, Busy) or not isinstance(error, Unavailable):
            give_back(reserved, total)
        raise
    if applied.replayed:
        give_back(reserved, total)
    return applied


def reserve(allowances: Sequence[Allowance], total: int) -> list[Use]:
    """Reserve items of today in all allowances, or raise and reserve nothing."""
    reserved: list[Use] = []
    for one in allowances:
        most = one.budget.items_per_day
        if most is None:
            continue
        made = budgets.reserve(one.id, total, most)
        if made is None:
            give_back(reserved, total)
            raise one.over_day(total)
        reserved.append(made)
    return reserved


def give_back(reserved: Iterable[Use], total: int) -> None:
    """Give back items that were reserved, but not moved."""
    for one in reserved if total else ():
        budgets.give_back(one._replace(amount=total))


@contextmanager
def unaskable() -> Iterator[None]:
    """Let refusals suggest no colleague, because approvals do not know this change."""
    try:
        yield
    except OverLimit as error:
        raise OverFixedLimit(error.why, error.field, error.wanted, error.left) from None


def refuse_unknown(what: str) -> None:
    """Refuse a key with a budget and a person with a limit: what is moved is unknown."""
    for one in allowances_of(guard.caller()):
        one.require(what)


def refuse_budgets(what: str, caller: Caller) -> None:
    """Refuse a key with a budget."""
    for one in allowances_of(caller):
        if one.key is not None:
            one.require(what)


def limits_today() -> Document:
    """Return the limits of the caller's roles, and how many items are left today; None: no limit.

    The budget of a key is not included.
    """
    caller = guard.caller()
    limits = dict(zip(LIMIT_NAMES, caller.rights.limits, strict=True))
    return {**limits, "LeftToday": own_allowance(caller).left_today()}
