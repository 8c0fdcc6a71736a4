"""Carries out the rows of a batch in portions, each of which is one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.auth.spending import Allowance, give_back, reserve
from app.batches.changes import Alone, changes_of
from app.batches.domain import Result, refusal_text
from app.batches.store import Batches
from app.core.changes import Applied, Origin
from app.core.errors import QuartermasterError, Unauthorized, Unavailable
from app.core.limits import Limiter
from app.core.naming import Lookup
from app.core.request_scope import working
from app.core.types import Document
from app.history.access import undo_as
from app.players.store import Players
from app.storage.changes import Outcome, Wanted
from app.storage.errors import DatabaseError
from app.storage.transactions import Transactions

# How long a worker carries out one batch before it looks at the others, and how long a caller of
# advance waits.
SECONDS = 2.0
PAUSE_SECONDS = 0.05
# The players of a portion. It is smaller after one that failed or took longer than this.
MOST_AT_ONCE, LONGEST_SECONDS = 50, 0.5

Change = Wanted | Alone | QuartermasterError


class Run(NamedTuple):
    """A batch under a lease: who carries it out, and how many items they may move."""

    batch_id: str
    lease: str
    origin: Origin
    allowances: Sequence[Allowance]


class _Failed(Exception):
    """The transaction of a portion was ended by an error, which one of its rows may have caused."""


class Runner:
    def __init__(
        self,
        batches: Batches,
        players: Players,
        transactions: Transactions,
        places: int,
        requests_at_work: Callable[[], int],
    ) -> None:
        self._batches = batches
        self._players = players
        self._transactions = transactions
        # Limits how many threads of a worker wait for batches, so that the others serve requests.
        self._limiter = Limiter("Others are running batches", places)
        self.requests_at_work = requests_at_work
        self.sleep = time.sleep

    def wait(self, batch: Document) -> Document:
        """Wait for the end of a batch, for some seconds at most; return it as it is then."""
        end = time.monotonic() + SECONDS
        with working(self._limiter):
            while batch["State"] == "running" and time.monotonic() < end:
                self.sleep(PAUSE_SECONDS)
                batch = self._batches.get(batch["_id"])
        return batch

    def carry_out(
        self,
        batch: Document,
        origin: Origin,
        allowances: Sequence[Allowance] = (),
        is_ended: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Carry out rows of a batch for some seconds; False if another worker is doing so."""
        lease = self._batches.lease(batch["_id"])
        if lease is None:
            return False
        run = Run(batch["_id"], lease, origin._replace(reason=batch["Reason"]), allowances)
        end, size = time.monotonic() + SECONDS, MOST_AT_ONCE
        try:
            while size and time.monotonic() < end and not is_ended():
                began = time.monotonic()
                most = self._carry_out_some(run, size)
                took = time.monotonic() - began
                size = min(most, max(1, size // 2)) if took > LONGEST_SECONDS else most
                # Other requests do not wait longer for the GIL and for MongoDB.
                if size and self.requests_at_work():
                    self.sleep(min(took, LONGEST_SECONDS))
        finally:
            self._batches.release(batch["_id"], lease)
        return True

    def _carry_out_some(self, run: Run, size: int) -> int:
        """Carry out some of the next rows; return how many to look at next, or 0 to stop."""
        rows = self._batches.ready_rows(run.batch_id, size)
        if not rows:
            self._batches.finish(run.batch_id, run.lease)
            return 0
        some = _combined(rows, run.origin)
        items = {row["_id"]: row.get("Items") or 0 for row, _ in some}
        # Counted outside of the transaction: all that somebody does is counted in one document.
        reserved = reserve(run.allowances, sum(items.values()))
        try:
            results = self._in_transaction(run, some)
        except Unavailable:
            raise
        except (_Failed, QuartermasterError) as error:
            give_back(reserved, sum(items.values()))
            if len(some) > 1:
                return size // 2
            if isinstance(error, _Failed | Unauthorized):
                raise
            reserved = []
            results = self._in_transaction(run, [(some[0][0], error)])
        moved = sum(items[one.id] for one in results or () if one.has_moved)
        give_back(reserved, sum(items.values()) - moved)
        return 0 if results is None else min(2 * size, MOST_AT_ONCE)

    def _in_transaction(
        self, run: Run, some: Sequence[tuple[Document, Change]]
    ) -> Sequence[Result] | None:
        """Make changes of different players, and note the results of their rows.

        Return None if the batch was paused, cancelled or taken over by another worker.
        """
        ids = [row["_id"] for row, _ in some]

        def make_and_note() -> Sequence[Result] | None:
            ready = self._batches.still_ready(run.batch_id, run.lease, ids)
            left = [(row, change) for row, change in some if row["_id"] in (ready or ())]
            if not left:
                return None if ready is None else []
            make = self._make_all if len(some) > 1 else self._make_one
            results = [_result_of(*one) for one in make(left)]
            self._batches.note(run.batch_id, run.lease, results)
            return results

        def make_or_fail() -> Sequence[Result] | None:
            try:
                return make_and_note()
            except DatabaseError as error:
                # Many of these would be repeated as they are, and fail again because of one row.
                raise _Failed from error

        step = make_or_fail if len(some) > 1 else make_and_note
        return self._transactions.run(step, "batch", has_key=True)

    def _make_all(
        self, some: Sequence[tuple[Document, Change]]
    ) -> Sequence[tuple[Document, Outcome]]:
        wanted = [change for _, change in some if isinstance(change, Wanted)]
        outcomes = iter(self._players.change_many(wanted) if wanted else ())
        return [
            (row, Outcome(change) if isinstance(change, QuartermasterError) else next(outcomes))
            for row, change in some
        ]

    def _make_one(
        self, some: Sequence[tuple[Document, Change]]
    ) -> Sequence[tuple[Document, Outcome]]:
        """Make a change as a single call does, which tells why the database does not accept it."""
        ((row, change),) = some
        if isinstance(change, QuartermasterError):
            return [(row, Outcome(change))]
        if isinstance(change, Alone):
            return [(row, Outcome(undo_as(change.entry, change.intent)))]
        applied = self._players.change(Lookup.parse(change.id), *change[1:])
        return [(row, Outcome(applied, _version_before(applied)))]


def _combined(rows: Sequence[Document], origin: Origin) -> list[tuple[Document, Change]]:
    """Return the changes of rows that can be made together, beginning with the first row.

    The rows of one player keep their order: only the first of them is among these.
    """
    firsts: dict[str, Document] = {}
    for row in rows:
        firsts.setdefault(row["Subject"]["Id"], row)
    first, *others = changes_of(list(firsts.values()), origin)
    if isinstance(first[1], Alone):
        return [first]
    return [first, *(other for other in others if not isinstance(other[1], Alone))]


def _result_of(row: Document, made: Outcome) -> Result:
    outcome, version, _ = made
    if isinstance(outcome, QuartermasterError):
        # The plan found the row ready, so a refusal now is always a new verdict.
        return Result(row["_id"], refusal_text(outcome), True)
    if outcome.replayed:
        version = _version_before(outcome)
    has_changed = None not in (version, row["Version"]) and version != row["Version"]
    warning = outcome.entry.get("Warning") if outcome.entry else row.get("Warning")
    return Result(row["_id"], None, has_changed, warning, not outcome.replayed)


def _version_before(applied: Applied) -> int | None:
    """Return the Version of a player before a change."""
    return applied.entry["Version"] - 1 if applied.entry else None
