"""What a caller may do with batches."""

from __future__ import annotations

from contextlib import suppress

from app.auth import guard
from app.auth.api_keys import Budget
from app.auth.callers import Caller, CallerGone, callers
from app.auth.spending import (
    Allowance,
    OverLimit,
    allowances_of,
    refuse_budgets,
    require_no_approval,
)
from app.batches.domain import public_row, row_key
from app.batches.store import batches
from app.core.changes import Origin
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import NAMES, Permission
from app.core.types import Document
from app.history.access import NEEDED, hidden_kinds, with_current_names
from app.history.store import history
from app.http.cursors import cursors
from app.players.store import players


def visible_batch(batch_id: str) -> Document:
    """Return a batch whose rows the caller may see."""
    batch = batches.get(batch_id)
    guard.caller().require(*_to_see(batch))
    return batch


def _to_see(batch: Document) -> list[Permission]:
    """Return the permissions that the subjects of a batch need."""
    needs = batch.get("Needs", ())
    return [needed for kind, needed in NEEDED.items() if f"{kind}s" in needs]


def list_batches(args: Document, size: int) -> CursorPage:
    """Return a page of the batches whose rows the caller may see."""
    after = cursors.read(args.get("after", ""))
    return batches.list(size, after, [f"{kind}s" for kind in hidden_kinds()])


def list_rows(batch: Document, args: Document, size: int) -> CursorPage:
    """Return a page of the public rows of a visible batch."""
    subject = players.get_id_ever(Lookup.parse(args["player"])) if "player" in args else None
    after = cursors.read(args.get("after", ""))
    page = batches.list_rows(batch["_id"], args.get("verdict"), subject, size, after)
    entries = history.ids_by_key([row_key(row) for row in page.values])
    values = [public_row(row, entries.get(row_key(row))) for row in page.values]
    return page._replace(values=with_current_names(values))


def start(batch_id: str, resumes: bool = True) -> Document:
    """Start a batch, which the service carries out as the caller, and return it."""
    batch, caller = batches.get(batch_id), guard.caller()
    require_run(caller, batch)
    is_limited = batch["State"] == "planned" and not approver_of(batch, caller)
    for one in allowances_of(caller) if is_limited else ():
        one.require_day(batch["Moves"]["Items"])
    key = {"Key": caller.key.name, "KeyId": caller.key.id} if caller.key else {}
    by = {"UserId": caller.id, "Name": caller.name, **key}
    return batches.start(batch_id, by, resumes)


def pause(batch_id: str) -> Document:
    """Pause a batch, and return it."""
    return batches.pause(visible_batch(batch_id)["_id"])


def cancel(batch_id: str) -> Document:
    """Cancel a batch, and return it."""
    return batches.cancel(visible_batch(batch_id)["_id"])


def require_run(caller: Caller, batch: Document) -> None:
    """Raise unless a caller may carry out a batch, within the limits or approved."""
    require_permissions(caller, batch)
    if not approver_of(batch, caller):
        require_no_approval("batches", batch["Rows"])
        require_limits(caller, batch)


def require_permissions(caller: Caller, batch: Document) -> None:
    """Raise unless a caller has the permissions for a batch: those of single calls."""
    needs = batch.get("Needs", ())
    caller.require(Permission.BATCHES_RUN, *_to_see(batch))
    if "undo" in needs:
        is_own = batch["By"]["UserId"] == caller.id
        caller.require(Permission.UNDO_OWN if is_own else Permission.UNDO_ANY)
    caller.require(*(NAMES[name] for name in needs if name in NAMES))
    refuse_budgets("a batch", caller)


def require_limits(caller: Caller, batch: Document) -> None:
    """Raise if a batch is over the limits of a caller, whatever is left today."""
    most, rows = caller.rights.limits.rows_per_batch, batch["Rows"]
    if most is not None and rows > most:
        why = f"you may run batches of {most} rows, not {rows}"
        raise OverLimit(why, "RowsPerBatch", rows, most)
    # Batches of older releases did not record what they move.
    moves = batch.get("Moves") or {"IsUnknown": True}
    for one in allowances_of(caller):
        unknown = "a batch with unknown quantities"
        one.require(unknown if moves["IsUnknown"] else {"": moves["Largest"]})


def approver_of(batch: Document, caller: Caller) -> Caller | None:
    """Return who has approved a batch for a caller, and may still approve."""
    if batch.get("ApprovedFor") == caller.id:
        with suppress(CallerGone):
            approver = callers.find(batch["ApprovedBy"]["UserId"], None)
            return approver if approver.may(Permission.APPROVE) else None
    return None


def executor(caller: Caller, batch: Document) -> tuple[Origin, list[Allowance]]:
    """Return who carries out the rows of a batch that a caller may run, and what limits them."""
    key = caller.key.name if caller.key else None
    by, approver = Origin(caller.id, caller.name, "batch", key=key), approver_of(batch, caller)
    if approver is None:
        return by, allowances_of(caller)
    # Its items count to the day of who approved it.
    days = [
        one._replace(budget=Budget(items_per_day=one.budget.items_per_day))
        for one in allowances_of(approver)
    ]
    return by._replace(approved_by=batch["ApprovedBy"]), days
