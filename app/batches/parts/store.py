"""The rows of batches, and their parts: groups of rows that one caller carries out at a time.

A caller leases a part for some seconds. After a crash, the lease expires and the next caller takes
the part over. The lease only saves work. The Idempotency-Key of a row guarantees that it is carried
out once: each attempt first looks for it in the Journal and in history (app/storage/bulk_swap.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pymongo import ReturnDocument, UpdateOne
from pymongo.read_preferences import ReadPreference

from app import metrics
from app.batches.collections import BATCH_PARTS, BATCH_ROWS
from app.batches.domain import PORTION_ROWS, number_of, row_id
from app.paging import CursorPage
from app.storage.bulk import batches as in_chunks
from app.storage.client import Storage
from app.storage.committed import NO_CHANGE
from app.storage.paging import newest_first
from app.types import Document

LEASE = timedelta(seconds=10)
# Results are stored only while the lease certainly holds.
SURE_SECONDS = LEASE.total_seconds() / 2
NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
CHUNK = 500


class Lease(NamedTuple):
    """A part that one caller carries out, and when the lease expires."""

    id: str
    batch_id: str
    part: int
    until: datetime
    taken_at: float


class RowFilters(NamedTuple):
    """Which rows a list shows; None: all."""

    batch_id: str
    verdict: str | None = None
    subject_id: str | None = None


class Settled(NamedTuple):
    """The result of a row: done, or refused with a sentence; and whether it was replanned."""

    id: str
    why: str | None
    replanned: bool
    warning: str | None = None


class Parts:
    def __init__(self, storage: Storage) -> None:
        # A secondary may lag behind what another worker has just written.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._rows = primary[BATCH_ROWS.name]
        self._parts = primary[BATCH_PARTS.name]
        self.now = storage.clock.now

    def count(self, batch_id: str) -> Document:
        """Return how many rows of a batch have each verdict, and how many were replanned.

        A row that is settled during the count moves within the index of verdicts. So ready rows are
        not counted: their number is the total minus the others.
        """
        decided = {"Batch": batch_id, "Verdict": {"$in": ["done", "refused"]}}
        by_verdict = self._count_by(decided, "$Verdict", "verdict")
        total = self._count_by(ids_within(batch_id), None, "_id_").get(None, 0)
        done, refused = by_verdict.get("done", 0), by_verdict.get("refused", 0)
        replanned = self._rows.count_documents({"Batch": batch_id, "Replanned": True})
        counts = {"Ready": total - done - refused, "Done": done, "Refused": refused}
        return {**counts, "Replanned": replanned}

    def _count_by(self, where: Document, by: str | None, hint: str) -> dict[str | None, int]:
        group = {"$group": {"_id": by, "Count": {"$sum": 1}}}
        found = self._rows.aggregate([{"$match": where}, group], hint=hint)
        return {one["_id"]: one["Count"] for one in found}

    def list_rows(self, filters: RowFilters, size: int, after: bytes) -> CursorPage:
        last = int(newest_first.within(filters, after)) if after else 0
        found = list(self.walk_rows(filters, last, size + 1))
        if len(found) <= size:
            return CursorPage(found, None)
        position = newest_first.digest(filters) + str(number_of(found[size - 1])).encode()
        return CursorPage(found[:size], position)

    def walk_rows(self, filters: RowFilters, after: int = 0, most: int = 0) -> Iterator[Document]:
        """Yield the rows after a number, in order; at most "most" of them, or all if it is 0."""
        batch_id, verdict, subject_id = filters
        where: Document = {"Batch": batch_id, **ids_within(batch_id)}
        where["_id"]["$gt"] = row_id(batch_id, after)
        if verdict:
            is_replanned = verdict == "replanned"
            where |= {"Replanned": True} if is_replanned else {"Verdict": verdict}
        if subject_id:
            where["Subject.Id"] = subject_id
        yield from self._rows.find(where, sort=[("_id", 1)]).limit(most)

    def rows_about(self, ids: Sequence[str]) -> Iterator[Document]:
        yield from self._rows.find({"Subject.Id": {"$in": ids}}, sort=[("_id", 1)])

    def walk_done(self, batch_id: str) -> Iterator[Sequence[Document]]:
        """Yield chunks of the rows that were carried out, the last first."""
        done = {"Batch": batch_id, "Verdict": "done"}
        yield from in_chunks(self._rows.find(done, sort=[("_id", -1)]).batch_size(CHUNK), CHUNK)

    def abandoned_rows(self, batch_id: str) -> Iterator[Sequence[Document]]:
        """Yield the rows that a dead caller may have carried out without storing results."""
        abandoned = {"Batch": batch_id, "LeasedUntil": {"$gt": NEVER, "$lt": self.now()}}
        parts = [part["Part"] for part in self._parts.find(abandoned, ["Part"])]
        left = {"Batch": batch_id, "Part": {"$in": parts}, "Verdict": "ready"}
        found = self._rows.find(left, ["Retries"]).hint("part")
        yield from in_chunks(found if parts else (), CHUNK)

    def has_parts(self, batch_id: str) -> bool:
        """Tell whether parts of a batch are left that are, or could be, carried out."""
        return self._parts.find_one({"Batch": batch_id}, ["_id"]) is not None

    def lease(self, batch_id: str) -> Lease | None:
        """Lease a part that nobody else holds; return None if there is none."""
        now, taken_at = self.now(), time.monotonic()
        part = self._parts.find_one_and_update(
            {"Batch": batch_id, "LeasedUntil": {"$lt": now}},
            {"$set": {"LeasedUntil": now + LEASE}},
            sort=[("LeasedUntil", 1)],
            return_document=ReturnDocument.AFTER,
        )
        if part is None:
            return None
        return Lease(part["_id"], batch_id, part["Part"], part["LeasedUntil"], taken_at)

    def renew(self, lease: Lease) -> Lease | None:
        """Extend a lease by some seconds; return None if another caller has taken the part over."""
        until, taken_at = self.now() + LEASE, time.monotonic()
        own = {"_id": lease.id, "LeasedUntil": lease.until}
        if not self._parts.update_one(own, {"$set": {"LeasedUntil": until}}).matched_count:
            return None
        return lease._replace(until=until, taken_at=taken_at)

    def release(self, lease: Lease) -> None:
        """Release a part for other callers; delete it if no row is left."""
        own = {"_id": lease.id, "LeasedUntil": lease.until}
        if self._rows.find_one_and_update(_ready(lease), NO_CHANGE, ["_id"], hint="part"):
            self._parts.update_one(own, {"$set": {"LeasedUntil": NEVER}})
        else:
            self._parts.delete_one({"_id": lease.id})

    def ready_rows(self, lease: Lease, after: str = "") -> Sequence[Document]:
        """Return the next ready rows of a part, in order."""
        left = {**_ready(lease), "_id": {"$gt": after}}
        # Without a hint, MongoDB may choose the index of verdicts, and read all ready rows.
        found = self._rows.find(left, sort=[("_id", 1)]).hint("part")
        return list(found.limit(PORTION_ROWS))

    def settle(self, lease: Lease, settled: Sequence[Settled]) -> bool:
        """Store results of rows; return False without storing if the lease may have expired."""
        if time.monotonic() >= lease.taken_at + SURE_SECONDS:
            return False
        done: dict[tuple[bool, str | None], list[str]] = {}
        for one in settled:
            if not one.why:
                done.setdefault((one.replanned, one.warning), []).append(one.id)
        for (replanned, warning), ids in done.items():
            noted: Document = {"Verdict": "done", "Why": None, "Warning": warning}
            noted |= {"Replanned": True} if replanned else {}
            self._rows.update_many({"_id": {"$in": ids}}, {"$set": noted})
        refused = [
            # If another caller has settled the row meanwhile, its result stays.
            UpdateOne(
                {"_id": one.id, "Verdict": "ready"},
                {"$set": {"Verdict": "refused", "Why": one.why, "Replanned": one.replanned}},
            )
            for one in settled
            if one.why
        ]
        if refused:
            self._rows.bulk_write(refused, ordered=False)
        metrics.BATCH_ROWS.labels("done").inc(len(settled) - len(refused))
        metrics.BATCH_ROWS.labels("refused").inc(len(refused))
        return True


def ids_within(batch_id: str) -> Document:
    """Return the filter of the rows of a batch, or of its parts, by their ids."""
    return {"_id": {"$gte": f"{batch_id}:", "$lt": f"{batch_id};"}}


def _ready(lease: Lease) -> Document:
    return {"Batch": lease.batch_id, "Part": lease.part, "Verdict": "ready"}
