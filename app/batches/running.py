"""Carries out the rows of a batch in bulk, for as long as a request may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app.auth.spending import Allowance, OverLimit, give_back, reserve
from app.batches.changes import changes_of
from app.batches.domain import in_waves, refusal_text
from app.batches.parts.store import Lease, Settled
from app.batches.store import Batches
from app.changes import Applied, Origin
from app.errors import QuartermasterError, Unavailable
from app.history.access import undo_as
from app.limits import Limiter
from app.naming import Lookup
from app.players.store import Players
from app.request_scope import working
from app.storage.bulk_swap import Swapped, Wanted
from app.types import Document

ADVANCE_SECONDS = 2.0
# How long to wait before looking again for a part that others may release.
PAUSE_SECONDS = 0.05
# While the worker serves other requests, it carries out only this many rows at once, and then
# rests for as long as they took. So other requests do not wait longer for the GIL and for MongoDB.
FEW_ROWS = 40
LONGEST_REST_SECONDS = 0.5
# How often rows are tried in bulk before each is tried alone.
BULK_ATTEMPTS = 3


class Run(NamedTuple):
    """Who carries out rows, how many items they may move, until when, and beside whom."""

    origin: Origin
    is_over: Callable[[], bool]
    are_others_served: Callable[[], bool]
    allowances: Sequence[Allowance] = ()


class Runner:
    def __init__(
        self, batches: Batches, players: Players, places: int, requests_at_work: Callable[[], int]
    ) -> None:
        self._batches = batches
        self._players = players
        # Limits the threads of a worker that carry out batches, so that the others serve requests.
        self.limiter = Limiter("Others are running batches", places)
        self.requests_at_work = requests_at_work
        self._seconds = ADVANCE_SECONDS

    def advance(
        self,
        batch_id: str,
        origin: Origin,
        starter: Document,
        allowances: Sequence[Allowance] = (),
    ) -> Document:
        """Carry out rows for some seconds, and return the batch with its progress."""
        with working(self.limiter):
            batch = self._batches.start(batch_id, starter, resumes=False)
            if batch["State"] == "done":
                return batch
            self._carry_out_parts(batch_id, self._new_run(batch, origin, allowances), waits=True)
        return self._batches.note_progress(batch_id)

    def go_on(
        self,
        batch: Document,
        origin: Origin,
        allowances: Sequence[Allowance],
        is_ended: Callable[[], bool],
    ) -> bool:
        """Carry out rows of a batch in the background; return whether there were any parts to take.

        This does not count against the limit of callers, and yields to all requests.
        """
        batch_id, run = batch["_id"], self._new_run(batch, origin, allowances, is_ended)
        parts = self._carry_out_parts(batch_id, run, waits=False)
        if parts or not self._batches.has_parts(batch_id):
            self._batches.note_progress(batch_id)
        return bool(parts)

    def _new_run(
        self,
        batch: Document,
        origin: Origin,
        allowances: Sequence[Allowance],
        is_ended: Callable[[], bool] = lambda: False,
    ) -> Run:
        end = time.monotonic() + self._seconds
        return Run(
            origin._replace(reason=batch["Reason"]),
            lambda: time.monotonic() >= end or is_ended(),
            # Runs do not count as requests at work, so they do not rest for each other.
            lambda: self.requests_at_work() > 0,
            allowances,
        )

    def _carry_out_parts(self, batch_id: str, run: Run, waits: bool) -> int:
        """Carry out free parts until the time is over; return how many.

        With waits, also wait for parts that others hold and may release.
        """
        parts = 0
        while not run.is_over() and self._batches.is_running(batch_id):
            if lease := self._batches.lease(batch_id):
                self._carry_out(lease, run)
                parts += 1
            elif waits and self._batches.has_parts(batch_id):
                time.sleep(PAUSE_SECONDS)
            else:
                break
        return parts

    def _carry_out(self, lease: Lease, run: Run) -> None:
        """Carry out the rows of a part, and release it if all results are stored.

        Otherwise the lease stays: as after a crash, it marks that rows may have been carried out.
        """
        held: Lease | None = lease
        held_up: set[str] = set()
        rows = self._batches.ready_rows(lease)
        while rows and held:
            try:
                if not self._carry_out_rows(held, rows, held_up, run):
                    return
            except OverLimit:
                self._batches.release(held)
                raise
            if run.is_over():
                break
            rows = self._batches.ready_rows(held, after=rows[-1]["_id"])
            held = self._batches.renew(held) if rows else held
        if held:
            self._batches.release(held)

    def _carry_out_rows(
        self, lease: Lease, rows: Sequence[Document], held_up: set[str], run: Run
    ) -> bool:
        """Carry out some rows of a part until the time is over; False if a result is not stored.

        A row that could not be tried blocks the later rows of its document, to keep their order.
        """
        for wave in in_waves(rows):
            left = [row for row in wave if row["Subject"]["Id"] not in held_up]
            for some in _portions(left, run):
                began = time.monotonic()
                settled = self._settle_within_limits(some, run)
                if not self._batches.settle(lease, settled):
                    return False
                tried = {one.id for one in settled}
                held_up |= {row["Subject"]["Id"] for row in some if row["_id"] not in tried}
                if run.is_over():
                    return True
                if run.are_others_served():
                    time.sleep(min(time.monotonic() - began, LONGEST_REST_SECONDS))
        return True

    def _settle_within_limits(self, rows: Sequence[Document], run: Run) -> list[Settled]:
        """Carry out rows, and count the items that they move, or raise OverLimit before the first.

        The items are reserved, and given back for rows that are refused or were made before.
        """
        items = {row["_id"]: row.get("Items") or 0 for row in rows}
        reserved = reserve(run.allowances, sum(items.values()))
        settled, not_moved = self._settle(rows, run.origin)
        give_back(reserved, sum(items[id_] for id_ in not_moved))
        return settled

    def _settle(
        self, rows: Sequence[Document], origin: Origin
    ) -> tuple[list[Settled], Sequence[str]]:
        """Carry out rows of different documents; return no result for those that were not tried.

        Also return the ids of rows that moved no items now.
        """
        settled: list[Settled] = []
        replayed: list[str] = []
        left: dict[str, tuple[Document, Wanted]] = {}
        for row, outcome in changes_of(rows, origin, undo_as):
            if isinstance(outcome, Wanted):
                left[row["_id"]] = (row, outcome)
            elif isinstance(outcome, QuartermasterError):
                if not isinstance(outcome, Unavailable):
                    settled.append(Settled(row["_id"], refusal_text(outcome), True))
            else:
                settled.append(Settled(row["_id"], None, False))
        for attempt in range(BULK_ATTEMPTS + 1):
            pending = list(left.values())
            wanted = [one for _, one in pending]
            is_last = attempt == BULK_ATTEMPTS
            change = self._change_each if is_last else self._players.change_many
            for (row, _), one in zip(pending, change(wanted) if wanted else (), strict=True):
                if one.outcome is not None:
                    settled.append(_result_of(row, one))
                    if isinstance(one.outcome, Applied) and one.outcome.replayed:
                        replayed.append(row["_id"])
                    del left[row["_id"]]
        return settled, [*replayed, *(one.id for one in settled if one.why)]

    def _change_each(self, wanted: Sequence[Wanted]) -> Iterator[Swapped]:
        """Change players one by one, as single calls do, with their retries and repairs."""
        for one in wanted:
            try:
                key = Lookup.parse(one.id)
                applied = self._players.change(key, one.reads, one.rule, one.intent)
                yield Swapped(applied, _version_before(applied))
            except Unavailable:
                yield Swapped()
            except QuartermasterError as refusal:
                yield Swapped(refusal)


def _portions(rows: Sequence[Document], run: Run) -> Iterator[Sequence[Document]]:
    """Yield all rows at once, or a few at a time while the worker serves other requests."""
    while rows:
        size = FEW_ROWS if run.are_others_served() else len(rows)
        yield rows[:size]
        rows = rows[size:]


def _result_of(row: Document, swapped: Swapped) -> Settled:
    outcome, version, _ = swapped
    if isinstance(outcome, Applied) and outcome.replayed:
        version = _version_before(outcome)
    has_changed = version is not None and version != row["Version"]
    why = refusal_text(outcome) if isinstance(outcome, QuartermasterError) else None
    # The plan found the row ready, so a refusal now is always a new verdict.
    entry = outcome.entry if isinstance(outcome, Applied) else None
    warning = entry.get("Warning") if entry else row.get("Warning")
    return Settled(row["_id"], why, has_changed or why is not None, warning)


def _version_before(applied: Applied) -> int | None:
    """Return the Version of a player before a change."""
    return applied.entry["Version"] - 1 if applied.entry else None
