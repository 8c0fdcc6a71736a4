"""Carries out started batches in portions, each of which is one transaction.

A thread of each worker does so, even after the callers disconnect. It acts as the account or key
that started the batch, for as long as that one may still start it. If the worker is killed, another
one goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from app.auth.callers import CallerGone, callers
from app.auth.spending import Allowance, NeedsApproval, OverBudget, OverLimit, give_back, reserve
from app.batches.access import executor, require_run
from app.batches.domain import refusal_text, row_arguments, row_key
from app.batches.store import batches
from app.core.changes import Applied, Intent, Origin
from app.core.errors import (
    Conflict,
    NotFound,
    PermissionMissing,
    QuartermasterError,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
    Unavailable,
)
from app.core.limits import Limiter, working
from app.core.naming import Lookup
from app.core.operations import Inverse, Moved, batch_operations
from app.core.services import current
from app.core.types import Document
from app.history.access import UNDO, undo_entry
from app.history.domain import inverse_of
from app.history.store import history
from app.players.store import players
from app.storage.background import Background
from app.storage.changes import Wanted
from app.storage.client import storage
from app.storage.errors import DatabaseError

log = logging.getLogger("quartermaster")

# How long a worker carries out one batch before it looks at the others, and how long a caller of
# advance waits.
SECONDS = 2.0
PAUSE_SECONDS = 0.05
# The players of a portion. It is smaller after one that failed or took longer than this.
MOST_AT_ONCE, LONGEST_SECONDS = 50, 0.5
# Why a batch is paused; the sentences name no person.
REASONS: dict[type[QuartermasterError], str] = {
    RoleMissing: "The account that started it no longer has the role '{0.role}'.",
    PermissionMissing: "The account that started it no longer has '{0.permission}'.",
    ScopeMissing: "The key that it was started with no longer has the scope '{0.scope}'.",
    OverBudget: "The key that it was started with has a budget now.",
    NeedsApproval: "It needs an approval now.",
    OverLimit: "It is over a limit of the account that started it ({0.field}).",
    CallerGone: "The account that started it can no longer run it: {0}.",
    Unauthorized: "The account that started it is being erased.",
}


class Alone(NamedTuple):
    """An undo that cannot be combined with other changes, such as that of a deletion."""

    entry: Document
    intent: Intent


Change = Wanted | Alone | QuartermasterError
Made = Applied | QuartermasterError
# By row, the fields that it gets.
Results = Mapping[str, Document]


class Run(NamedTuple):
    """A batch under a lease: who carries it out, and how many items they may move."""

    batch_id: str
    lease: str
    origin: Origin
    allowances: Sequence[Allowance]


class _Failed(Exception):
    """The transaction of a portion was ended by an error, which one of its rows may have caused."""


class BatchWorker(Background):
    failure = "Batches cannot continue"

    def __init__(
        self,
        context: Callable[[], AbstractContextManager[object]],
        is_ready: Callable[[], bool],
        places: int,
    ) -> None:
        super().__init__(is_ready)
        # Rows look up their services in the application context.
        self._context = context
        # Limits how many threads of a worker wait for batches, so that the others serve requests.
        self._limiter = Limiter("Others are running batches", places)
        self.sleep = time.sleep

    def wait(self, batch: Document) -> Document:
        """Wait for the end of a batch, for some seconds at most; return it as it is then."""
        end = time.monotonic() + SECONDS
        with working(self._limiter):
            while batch["State"] == "running" and time.monotonic() < end:
                self.sleep(PAUSE_SECONDS)
                batch = batches.get(batch["_id"])
        return batch

    def step(self) -> float | None:
        return 0.0 if self.work() else None

    def work(self) -> bool:
        """Work on each started batch for some seconds; return whether there was anything to do."""
        with self._context():
            gone_on = [self._go_on(batch) for batch in batches.find_waiting()]
        return any(gone_on)

    def _go_on(self, batch: Document) -> bool:
        by = batch["StartedBy"]
        try:
            if by["UserId"] is None:
                # Whoever may run commands may do everything.
                return self.carry_out(batch, Origin(None, by["Name"], "batch"))
            caller = callers.find(by["UserId"], by.get("KeyId"))
            require_run(caller, batch)
            return self.carry_out(batch, *executor(caller, batch))
        except tuple(REASONS) as gone:
            sentence = next(text for kind, text in REASONS.items() if isinstance(gone, kind))
            why = f"{sentence.format(gone)} Somebody else can resume it."
            log.warning("The batch %s is paused. %s", batch["_id"], why)
            # Somebody else may have paused or cancelled it.
            with suppress(Conflict):
                batches.pause(batch["_id"], why)
            return False

    def carry_out(
        self, batch: Document, origin: Origin, allowances: Sequence[Allowance] = ()
    ) -> bool:
        """Carry out rows of a batch for some seconds; False if another worker is doing so."""
        lease = batches.lease(batch["_id"])
        if lease is None:
            return False
        run = Run(batch["_id"], lease, origin._replace(reason=batch["Reason"]), allowances)
        end, size = time.monotonic() + SECONDS, MOST_AT_ONCE
        try:
            while size and time.monotonic() < end and not self.ended.is_set():
                began = time.monotonic()
                most = _carry_out_some(run, size)
                took = time.monotonic() - began
                size = min(most, max(1, size // 2)) if took > LONGEST_SECONDS else most
                # Other requests do not wait longer for the GIL and for MongoDB.
                if size and storage.places.in_use:
                    self.sleep(min(took, LONGEST_SECONDS))
        finally:
            batches.release(batch["_id"], lease)
        return True


def _carry_out_some(run: Run, size: int) -> int:
    """Carry out some of the next rows; return how many to look at next, or 0 to stop."""
    rows = batches.ready_rows(run.batch_id, size)
    if not rows:
        batches.finish(run.batch_id, run.lease)
        return 0
    some = _changes_made_together(rows, run.origin)
    items = {row["_id"]: row.get("Items") or 0 for row, _ in some}
    total = sum(items.values())
    # Counted outside of the transaction: all that somebody does is counted in one document.
    reserved = reserve(run.allowances, total)
    try:
        results = _in_transaction(run, some)
    except Unavailable:
        raise
    except (_Failed, QuartermasterError) as error:
        give_back(reserved, total)
        if len(some) > 1:
            return size // 2
        if isinstance(error, _Failed | Unauthorized):
            raise
        reserved = []
        results = _in_transaction(run, [(some[0][0], error)])
    moved = sum(items[id_] for id_, one in (results or {}).items() if one["Verdict"] == "done")
    give_back(reserved, total - moved)
    return 0 if results is None else min(2 * size, MOST_AT_ONCE)


def _changes_made_together(
    rows: Sequence[Document], origin: Origin
) -> list[tuple[Document, Change]]:
    """Return the changes of rows that can be made together, beginning with the first row.

    The rows of one player keep their order: only the first of them is among these.
    """
    firsts: dict[str, Document] = {}
    for row in rows:
        firsts.setdefault(row["Subject"]["Id"], row)
    entries = entries_to_undo(firsts.values())
    found: list[tuple[Document, Change]] = []
    for row in firsts.values():
        change: Change
        try:
            change = change_of(row, entries, origin)
        except QuartermasterError as refusal:
            change = refusal
        if not (found and isinstance(change, Alone)):
            found.append((row, change))
        if isinstance(found[0][1], Alone):
            break
    return found


def _in_transaction(run: Run, some: Sequence[tuple[Document, Change]]) -> Results | None:
    """Make changes of different players, and note the results of their rows.

    Return None if the batch was paused, cancelled or taken over by another worker.
    """

    def make_and_note() -> Results | None:
        if not batches.is_leased(run.batch_id, run.lease):
            return None
        try:
            made = _make_all(some) if len(some) > 1 else [_make_one(some[0][1])]
            results = {
                row["_id"]: _result(row, one) for (row, _), one in zip(some, made, strict=True)
            }
            batches.note(run.batch_id, run.lease, results)
        except DatabaseError as error:
            if len(some) == 1:
                raise
            # Many of these would be repeated as they are, and fail again because of one row.
            raise _Failed from error
        return results

    return storage.transactions.run(make_and_note, "batch", has_key=True)


def _make_all(some: Sequence[tuple[Document, Change]]) -> Sequence[Made]:
    wanted = [change for _, change in some if isinstance(change, Wanted)]
    made = iter(players.change_many(wanted) if wanted else ())
    return [change if isinstance(change, QuartermasterError) else next(made) for _, change in some]


def _make_one(change: Change) -> Made:
    """Make a change as a single call does, which tells why the database does not accept it."""
    if isinstance(change, QuartermasterError):
        return change
    if isinstance(change, Alone):
        return undo_entry(change.entry, change.intent)
    return players.change(Lookup.parse(change.id), *change[1:])


def _result(row: Document, made: Made) -> Document:
    """Return what a row becomes."""
    if isinstance(made, QuartermasterError):
        # The plan found the row ready, so a refusal now is always a new verdict.
        return {"Verdict": "refused", "Why": refusal_text(made), "Replanned": True}
    entry = made.entry or {}
    # An entry has the Version that its change has made.
    has_changed = row["Version"] not in (None, entry.get("Version", 0) - 1)
    return {"Verdict": "done", "Replanned": has_changed, "Warning": entry.get("Warning")}


def entries_to_undo(rows: Iterable[Document]) -> Mapping[str, Document]:
    """Return by id the entries that rows undo."""
    ids = [row["Arguments"]["id"] for row in rows if row["Operation"] == UNDO.name]
    return history.get_many(ids) if ids else {}


def change_of(row: Document, entries: Mapping[str, Document], origin: Origin) -> Wanted | Alone:
    """Return the change of a row, by the rule of a single call; note how many items it moves."""
    arguments = row["Arguments"]
    meant = Intent(row["Operation"], origin, row_arguments(row), *row_key(row))
    if row["Operation"] != UNDO.name:
        operation = batch_operations()[row["Operation"]]
        _note_items(row, operation.moves(arguments))
        prepared = operation.prepare_change(arguments, meant, in_batch=True)
        return Wanted(row["Subject"]["Id"], *prepared)
    entry = entries.get(arguments["id"])
    if entry is None:
        raise NotFound("entry of history", arguments["id"])
    row["Subject"] = entry["Subject"]
    meant = meant._replace(undoes=entry)
    inverse = inverse_of(entry)
    _note_items(row, inverse.moves(entry["Changes"]))
    if isinstance(inverse, Inverse) and inverse.in_bulk and entry["Subject"]["Kind"] == "player":
        return Wanted(entry["Subject"]["Id"], *inverse.prepare(entry["Changes"], meant))
    return Alone(entry, meant)


def _note_items(row: Document, moved: Moved) -> None:
    """Note how many items a row moves, None if that is unknown; and the most of one item."""
    if moved is not None:
        quantities = None if isinstance(moved, str) else moved
        row["Items"] = None if quantities is None else sum(quantities.values())
        row["Largest"] = max((quantities or {}).values(), default=0)


worker = current(BatchWorker)
