"""What a caller may do with batches, and the requests that make one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from app.auth import guard
from app.auth.api_keys import Budget
from app.auth.approval import require_no_approval
from app.auth.callers import Caller, CallerGone, Callers
from app.auth.spending import Allowance, OverLimit, allowances_of, refuse_budgets
from app.batches.changes import row_arguments
from app.batches.choosing import Choosing
from app.batches.domain import Made, NewBatch, Row, RowFilters, follow_up, public_row, row_key
from app.batches.planning import Planner
from app.batches.rows import RowSource
from app.batches.running import Runner
from app.batches.schemas import BatchHeadArgs
from app.batches.store import Batches
from app.core.changes import Origin
from app.core.errors import InvalidField
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import NAMES, Permission
from app.core.request_scope import working
from app.core.types import Document
from app.history.access import (
    NEEDED,
    hidden_kinds,
    require_own,
    visible_kinds,
    with_current_names,
)
from app.history.store import History
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import origin, sent_key
from app.http.masking import masked
from app.http.parser import load
from app.players.store import Players

HEAD = BatchHeadArgs()

batches = current(Batches)
callers = current(Callers)
choosing = current(Choosing)
cursors = current(Cursors)
history = current(History)
planner = current(Planner)
players = current(Players)
runner = current(Runner)


def plan(source: RowSource, digest: str, name: str = "") -> Made:
    """Plan a batch from the rows of a body, or from the changes or players that it chooses.

    The argument name overrides the name in the body.
    """
    refuse_budgets("a batch", guard.caller())
    sent, earlier = _find_earlier(digest)
    if earlier:
        return Made(earlier, replayed=True)
    with working(planner.limiter):
        head = read_head(source, {"Name": name} if name else {})
        fields = {"Name": masked(head["Name"]), **_author(head["Reason"])}
        rows: Iterable[Row] = source
        if "Undo" in head:
            guard.caller().require(Permission.HISTORY_READ, Permission.UNDO_OWN)
            fields["Undo"] = filters_as_json(head["Undo"])
            rows = choosing.changes(head["Undo"], visible_kinds())
        if "Players" in head:
            rows = choosing.players(head["Players"], head["Row"])
        return planner.plan(rows, NewBatch(fields, *sent), require_undo)


def read_head(source: RowSource, given: Document) -> Document:
    """Return the fields of a batch in a body, without its rows; given fields override them."""
    fields = {name: value for name, value in source.head.items() if name != "Rows"}
    head: Document = load(HEAD, {**fields, **given})
    sources = [name for name in ("Rows", "Undo", "Players") if name in source.head]
    if len(sources) > 1:
        raise InvalidField(sources[1], f"Excludes {sources[0]}.")
    if ("Players" in head) != ("Row" in head):
        raise InvalidField("Row", "Is for Players, and Players need it.")
    return head


def filters_as_json(chosen: Document) -> Document:
    return {
        name: value if isinstance(value, str | bool) else value.isoformat().replace("+00:00", "Z")
        for name, value in chosen.items()
    }


def plan_undo(batch_id: str, is_partial: bool) -> Made:
    """Plan the batch that undoes another one, or as much of it as possible."""
    guard.caller().require(Permission.UNDO_OWN)
    digest = f"{batch_id} partial" if is_partial else batch_id
    return _plan_from(batch_id, choosing.done_rows(batch_id, is_partial), digest, "Undo", "Undoes")


def plan_retry(batch_id: str) -> Made:
    """Plan a batch with the rows that another one has not carried out."""
    return _plan_from(
        batch_id, choosing.rows_left(batch_id), f"{batch_id} retry", "Rest", "Retries"
    )


def _plan_from(batch_id: str, rows: Iterable[Row], digest: str, *names: str) -> Made:
    """Plan a batch from the rows of another one, which has ended."""
    refuse_budgets("a batch", guard.caller())
    visible_batch(batch_id)
    batch = batches.require_ended(batch_id)
    sent, earlier = _find_earlier(digest)
    if earlier:
        return Made(earlier, replayed=True)
    reason = batch["Reason"] if "Retries" in names else None
    new = NewBatch({**follow_up(batch, *names), **_author(reason)}, *sent)
    return planner.plan(rows, new, require_undo)


def _find_earlier(digest: str) -> tuple[tuple[str | None, str, str], Document | None]:
    """Return what identifies this request, and the batch that it already made, if any."""
    key = sent_key()
    if not key:
        return (None, digest, ""), None
    request_key = hashlib.sha256(f"{guard.caller().id} {key}".encode()).hexdigest()
    return (request_key, digest, key), batches.find_earlier(request_key, digest, key)


def _author(reason: str | None) -> Document:
    by = origin(otherwise=reason)
    key = {} if by.key is None else {"Key": by.key}
    author = {"UserId": by.user_id, "Name": by.name, **key}
    return {"Reason": by.reason, "By": author, "Via": by.via}


def require_undo(row: Document) -> Permission:
    """Raise unless the caller may see and undo the entry of a row; return what running it needs."""
    caller = guard.caller()
    caller.require(Permission.UNDO_OWN)
    if needed := NEEDED.get(row["Subject"]["Kind"]):
        caller.require(needed)
    if caller.may(Permission.UNDO_ANY):
        # Whose entry it is was not looked up.
        return Permission.UNDO_ANY
    require_own(history.get(row["Arguments"]["id"]))
    return Permission.UNDO_OWN


def visible_batch(batch_id: str) -> Document:
    """Return a batch whose rows the caller may see."""
    batch = batches.get(batch_id)
    guard.caller().require(*_to_see(batch))
    return batch


def _to_see(batch: Document) -> list[Permission]:
    """Return the permissions that the subjects of a batch need."""
    needs = batch.get("Needs", ())
    return [needed for kind, needed in NEEDED.items() if f"{kind}s" in needs]


def hidden_needs() -> list[str]:
    """Return what marks a batch whose rows the caller may not see."""
    return [f"{kind}s" for kind in hidden_kinds()]


def require_run(caller: Caller, batch: Document) -> None:
    """Raise unless a caller may carry out a batch, within the limits or approved."""
    require_permissions(caller, batch)
    if not is_approved(batch, caller):
        require_no_approval("batches", batch["Rows"])
        require_limits(caller, batch)


def is_approved(batch: Document, caller: Caller) -> bool:
    """Tell whether somebody who may still approve has approved a batch for a caller."""
    if batch.get("ApprovedFor") != caller.id:
        return False
    try:
        return callers.find(batch["ApprovedBy"]["UserId"], None).may(Permission.APPROVE)
    except CallerGone:
        return False


def require_permissions(caller: Caller, batch: Document) -> None:
    """Raise unless a caller has the permissions for a batch: those of single calls."""
    caller.require(Permission.BATCHES_RUN)
    needs = batch.get("Needs", ())
    caller.require(*_to_see(batch))
    if "undo" in needs:
        is_own = batch["By"]["UserId"] == caller.id
        caller.require(Permission.UNDO_OWN if is_own else Permission.UNDO_ANY)
    caller.require(*(NAMES[name] for name in needs if name in NAMES))
    refuse_budgets("a batch", caller)


def require_limits(caller: Caller, batch: Document) -> None:
    """Raise if a batch is over the limits of a caller, whatever is left today."""
    most, rows = caller.limits.rows_per_batch, batch["Rows"]
    if most is not None and rows > most:
        why = f"you may run batches of {most} rows, not {rows}"
        raise OverLimit(why, "RowsPerBatch", rows, most)
    # Batches of older releases did not record what they move.
    moves = batch.get("Moves") or {"IsUnknown": True}
    for one in allowances_of(caller):
        is_unknown = moves["IsUnknown"]
        one.require("a batch with unknown quantities" if is_unknown else {"": moves["Largest"]})


def executor(caller: Caller, batch: Document) -> tuple[Origin, list[Allowance]]:
    """Return who carries out the rows of a batch that a caller may run, and what limits them."""
    key = caller.key.name if caller.key else None
    by = Origin(caller.id, caller.name, "batch", key=key)
    if is_approved(batch, caller):
        return by._replace(approved_by=batch["ApprovedBy"]), _allowances_of_approver(caller, batch)
    return by, allowances_of(caller)


def _allowances_of_approver(caller: Caller, batch: Document) -> list[Allowance]:
    """Return the daily limit of who approved a batch: its items count to that person's day."""
    try:
        approver = callers.find(batch["ApprovedBy"]["UserId"], None)
    except CallerGone:
        return allowances_of(caller)
    return [
        one._replace(budget=Budget(items_per_day=one.budget.items_per_day))
        for one in allowances_of(approver)
    ]


def rows_page(batch: Document, args: Document, size: int) -> Document:
    """Return a page of the public rows of a visible batch, and the cursor of the next page."""
    page = list_rows(batch, args, size)
    return {"Values": page.values, "Next": cursors.write(page.next)}


def list_rows(batch: Document, args: Document, size: int) -> CursorPage:
    """Return a page of the public rows of a visible batch."""
    subject = players.get_id_ever(Lookup.parse(args["player"])) if "player" in args else None
    filters = RowFilters(batch["_id"], args.get("verdict"), subject)
    page = batches.list_rows(filters, size, cursors.read(args.get("after", "")))
    entries = history.ids_by_key([row_key(row) for row in page.values])
    values = [public_row(row, row_arguments(row), entries.get(row_key(row))) for row in page.values]
    return page._replace(values=with_current_names(values))


def advance(batch_id: str) -> Document:
    """Start a batch as ``start`` does, but for a paused one, and wait for its end for a while."""
    return runner.wait(start(batch_id, resumes=False))


def start(batch_id: str, resumes: bool = True) -> Document:
    """Start a batch, which the service carries out as the caller, and return it."""
    return batches.start(batch_id, _starter_of(batches.get(batch_id)), resumes)


def pause(batch_id: str) -> Document:
    """Pause a batch, and return it."""
    return batches.pause(visible_batch(batch_id)["_id"])


def cancel(batch_id: str) -> Document:
    """Cancel a batch, and return it."""
    return batches.cancel(visible_batch(batch_id)["_id"])


def _starter_of(batch: Document) -> Document:
    """Return the stored identity that the service continues with, or raise if it may not run."""
    caller = guard.caller()
    require_run(caller, batch)
    is_limited = batch["State"] == "planned" and not is_approved(batch, caller)
    for one in allowances_of(caller) if is_limited else ():
        one.require_day(batch["Moves"]["Items"])
    key = {"Key": caller.key.name, "KeyId": caller.key.id} if caller.key else {}
    return {"UserId": caller.id, "Name": caller.name, **key}
