"""Batches in MongoDB: a document for each batch, and one for each of its rows.

What changes a batch is a transaction (app/storage/transactions.py). A lease in the batch says which
worker carries it out, portion by portion: one transaction changes the players of a portion, notes
the results of their rows, and counts them in the batch. It writes the batch last, so that whoever
pauses or cancels it waits for no more than the rest of a portion.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne
from pymongo.read_preferences import ReadPreference

from app.batches.collections import BATCH_ROWS, BATCHES
from app.batches.domain import (
    OPEN,
    PROGRESS,
    AllDone,
    BatchNotFound,
    Cancelled,
    NewBatch,
    NotEnded,
    NotPlanned,
    NotRunning,
    Paused,
    PlannedTooLong,
    Result,
    RowFilters,
    StillPlanning,
    number_of,
    row_id,
)
from app.core import metrics
from app.core.errors import Conflict, KeyReused
from app.core.paging import CursorPage
from app.core.types import Document
from app.storage.bulk import batches as in_chunks
from app.storage.client import Storage
from app.storage.fence import ERASURES, BeingErased, erased_people, require_not_erased
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.transactions import after_commit

# A planner notes every few seconds that it is alive. After this time without a note it is dead.
PLANNING = timedelta(seconds=30)
# Each portion renews the lease. After this time without one, another worker goes on.
LEASE = timedelta(seconds=10)
CHUNK = 500


class Batches:
    def __init__(self, storage: Storage) -> None:
        # A secondary may lag behind what another worker has just written.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._rows = primary[BATCH_ROWS.name]
        self._players = primary["players"]
        self._erasures = primary[ERASURES.name]
        self._entries = storage.entries
        # To repeat any of these changes of a batch does no harm.
        self._run = partial(storage.transactions.run, what="batch", has_key=True)
        self.now = storage.clock.now

    def find_earlier(
        self, request_key: str, fingerprint: str = "", key: str = ""
    ) -> Document | None:
        """Return the batch that an earlier attempt of the same request made, if any."""

        def find() -> Document | None:
            found = self._batches.find_one({"RequestKey": request_key})
            if found and found["Fingerprint"] != fingerprint:
                raise KeyReused(key)
            return found

        return self._run(find)

    def hand_over(self, request_key: str, batch_id: str) -> None:
        """Assign a request key to another batch."""

        def hand_over() -> None:
            former = {"RequestKey": request_key}
            self._batches.update_one(former, {"$unset": {"RequestKey": "", "Fingerprint": ""}})
            self._set({"_id": batch_id}, **former, Fingerprint="")

        self._run(hand_over)

    def begin(self, by: Document, via: str) -> Document:
        """Store a batch that is about to be planned."""
        now = self.now()
        stored = {
            "_id": str(uuid.uuid4()),
            **{"Name": "", "Reason": None, "By": by, "Via": via, "Rows": 0},
            **{"At": now, "State": "planning", "PlannedUntil": now + PLANNING},
            **{"Counts": dict.fromkeys(PROGRESS, 0), **self._entries.expiry_of(now)},
        }

        def begin() -> None:
            require_not_erased(self._erasures, [], stored)
            self._batches.insert_one(stored)

        self._run(begin)
        return stored

    def describe(self, batch: Document, fields: Document) -> Document:
        """Set fields of a batch, and note that its planner is alive."""
        return self._run(lambda: self._plan(batch, {"$set": fields}))

    def _plan(self, batch: Document, update: Document) -> Document:
        """Update a batch that is being planned, in a transaction of the caller."""
        require_not_erased(self._erasures, [], batch)
        alive = {**update.get("$set", {}), "PlannedUntil": self.now() + PLANNING}
        planned: Document | None = self._batches.find_one_and_update(
            _under_plan(batch["_id"]),
            {**update, "$set": alive},
            return_document=ReturnDocument.AFTER,
        )
        if planned is None:
            raise PlannedTooLong
        return planned

    def add_rows(self, batch: Document, rows: Sequence[Document]) -> None:
        """Store rows of a batch, and count their verdicts."""
        expires = {"ExpiresAt": batch["ExpiresAt"]} if "ExpiresAt" in batch else {}

        def add() -> None:
            self._refuse_erased(rows)
            verdicts = Counter(f"Counts.{row['Verdict'].capitalize()}" for row in rows)
            self._plan(batch, {"$inc": dict(verdicts)})
            self._rows.insert_many([{**row, "Batch": batch["_id"], **expires} for row in rows])

        self._run(add)

    def _refuse_erased(self, rows: Sequence[Document]) -> None:
        """Refuse the rows of people who are being erased, and keep nothing of them."""
        ids = list({row["Subject"]["Id"] for row in rows if row["Subject"]})
        owned = self._players.find({"_id": {"$in": ids}}, ["UserId"])
        owners = {player["_id"]: str(player.get("UserId")) for player in owned}
        erased = erased_people(self._erasures, [*ids, *owners.values()]).keys()
        for row in rows if erased else ():
            if row["Subject"] and {row["Subject"]["Id"], owners.get(row["Subject"]["Id"])} & erased:
                row |= {"Player": None, "Subject": None, "Arguments": {}, "Sent": {}}
                row |= {"Verdict": "refused", "Why": str(BeingErased())}

    def complete(self, batch: Document, found: Document, new: NewBatch) -> Document:
        """Mark the plan of a batch as complete, and return the batch.

        If the same request has made another batch at the same time, return that one instead.
        """

        def complete() -> Document:
            planned: Document = {**found, "State": "planned"}
            if new.request_key:
                if earlier := self.find_earlier(new.request_key, new.fingerprint, new.key):
                    return earlier
                planned |= {"RequestKey": new.request_key, "Fingerprint": new.fingerprint}
            current = self._batches.find_one(_under_plan(batch["_id"]), ["Counts"])
            if current and not current["Counts"]["Ready"]:
                planned |= {"State": "done", "EndedAt": self.now()}
            return self._plan(batch, {"$set": planned})

        completed: Document = self._run(complete)
        if completed["_id"] != batch["_id"]:
            self.remove(batch["_id"])
        return completed

    def remove(self, batch_id: str) -> None:
        """Delete a batch whose plan is incomplete; do nothing if the plan is complete.

        The planner may not know which is true, because the answer to its last write may be lost. So
        the batch is marked before its rows are deleted, and gets no more rows.
        """
        still = {"_id": batch_id, "State": "planning"}
        if self._batches.update_one(still, {"$set": {"IsRemoved": True}}).matched_count:
            self._rows.delete_many(ids_within(batch_id))
            self._batches.delete_one(still)

    def remove_stale(self) -> None:
        """Delete the batches whose planner has died."""
        is_dead = {"PlannedUntil": {"$not": {"$gte": self.now()}}}
        stale = {"State": "planning", "At": {"$lt": self.now() - PLANNING}, **is_dead}
        for batch in self._batches.find(stale, ["_id"]):
            self.remove(batch["_id"])

    def get(self, batch_id: str) -> Document:
        """Return a batch as the primary has it; a majority confirms a NotFound."""
        found = self._batches.find_one({"_id": batch_id})
        return found or self._run(partial(self._read, batch_id))

    def _read(self, batch_id: str, **refusals: type[Conflict]) -> Document:
        """Return a batch, or raise the refusal for its state."""
        batch = self._batches.find_one({"_id": batch_id})
        if batch is None:
            raise BatchNotFound(batch_id)
        if refusal := refusals.get(batch["State"]):
            raise refusal
        return batch

    def _set(self, batch: Document, **fields: Any) -> Document:
        """Set fields of a batch in its transaction, and return it as it is then."""
        self._batches.update_one({"_id": batch["_id"]}, {"$set": fields})
        return {**batch, **fields}

    def list(self, size: int, after: bytes, hidden: Sequence[str]) -> CursorPage:
        """Return a page of batches, the newest first, without those that need what is hidden."""
        where: Document = {"Needs": {"$nin": [*hidden]}} if hidden else {}
        return newest_first.read(self._batches, where, "batches", size, after)

    def made_by(self, user_id: str) -> Iterator[Document]:
        own = [{"By.UserId": user_id}, {"StartedBy.UserId": user_id}]
        yield from self._batches.find({"$or": own}, sort=NEWEST_FIRST)

    def start(self, batch_id: str, by: Document, resumes: bool = True) -> Document:
        """Start a batch, which a worker carries out on behalf of an account; return it.

        A batch that is running or done is returned unchanged.
        """

        def start() -> Document:
            paused = {} if resumes else {"paused": Paused}
            batch = self._read(batch_id, planning=StillPlanning, cancelled=Cancelled, **paused)
            state = batch["State"]
            # A batch that release 0.3.0 began has no StartedBy.
            if state == "done" or (state == "running" and "StartedBy" in batch):
                return batch
            require_not_erased(self._erasures, [], {"By": by})
            begun = {"BegunAt": self.now()} if state == "planned" else {}
            return self._set(batch, State="running", StartedBy=by, PausedWhy=None, **begun)

        return self._run(start)

    def approve(self, batch_id: str, by: Document, for_id: str) -> None:
        """Let an account run a planned batch beyond its limits."""

        def approve() -> None:
            batch = self._read(batch_id)
            if batch["State"] == "planned":
                require_not_erased(self._erasures, [], {"By": by})
                self._set(batch, ApprovedBy=by, ApprovedFor=for_id)
            elif batch.get("ApprovedFor") != for_id:
                raise NotPlanned

        self._run(approve)

    def pause(self, batch_id: str, why: str | None = None) -> Document:
        """Pause a batch until it is started again, and return it.

        A batch that has finished meanwhile is returned unchanged.
        """

        def pause() -> Document:
            refusals = {"planning": StillPlanning, "planned": NotRunning, "cancelled": Cancelled}
            batch = self._read(batch_id, **refusals)
            if batch["State"] != "running":
                return batch
            return self._set(batch, State="paused", PausedWhy=why)

        return self._run(pause)

    def cancel(self, batch_id: str) -> Document:
        """Cancel a batch, and return it."""

        def cancel() -> Document:
            batch = self._read(batch_id, planning=StillPlanning, done=AllDone)
            if batch["State"] not in OPEN:
                return batch
            return self._set(batch, State="cancelled", EndedAt=self.now())

        return self._run(cancel)

    def require_ended(self, batch_id: str) -> Document:
        """Return a batch, or raise NotEnded if rows of it may still be carried out."""
        refusals = {"planning": StillPlanning, **dict.fromkeys(OPEN, NotEnded)}
        return self._run(partial(self._read, batch_id, **refusals))

    def find_waiting(self) -> Sequence[Document]:
        """Return the started batches that no worker is carrying out, the oldest first."""
        waiting = {"State": "running", "StartedBy": {"$exists": True}, **self._is_free()}
        return list(self._batches.find(waiting, sort=[("BegunAt", 1)]))

    def lease(self, batch_id: str) -> str | None:
        """Return a lease of a running batch; None if another worker has one."""
        lease = str(ObjectId())
        free = {"_id": batch_id, "State": "running", **self._is_free()}
        taken = self._batches.update_one(free, {"$set": {"Lease": self._renewed(lease)}})
        return lease if taken.matched_count else None

    def release(self, batch_id: str, lease: str) -> None:
        """Let another worker go on at once."""
        own = {"_id": batch_id, "Lease.Id": lease}
        self._batches.update_one(own, {"$unset": {"Lease": ""}})

    def _is_free(self) -> Document:
        return {"Lease.Until": {"$not": {"$gt": self.now()}}}

    def _renewed(self, lease: str) -> Document:
        return {"Id": lease, "Until": self.now() + LEASE}

    def ready_rows(self, batch_id: str, most: int) -> Sequence[Document]:
        """Return the first rows of a batch that are not carried out yet."""
        ready = {"Batch": batch_id, "Verdict": "ready"}
        return list(self._rows.find(ready, sort=[("_id", 1)]).hint("verdict").limit(most))

    def still_ready(self, batch_id: str, lease: str, row_ids: Sequence[str]) -> set[str] | None:
        """Return which rows are still to be carried out, in a transaction that does so.

        None if the batch was paused or cancelled, or if another worker has taken it over.
        """
        if self._batches.find_one(_leased(batch_id, lease), ["_id"]) is None:
            return None
        ready = {"_id": {"$in": row_ids}, "Verdict": "ready"}
        return {row["_id"] for row in self._rows.find(ready, ["_id"])}

    def note(self, batch_id: str, lease: str, results: Sequence[Result]) -> None:
        """Store results of rows, in the transaction that carries them out; the batch comes last."""
        done: dict[tuple[bool, str | None], list[str]] = {}
        for one in results:
            if not one.why:
                done.setdefault((one.replanned, one.warning), []).append(one.id)
        for (replanned, warning), ids in done.items():
            noted = {"Verdict": "done", "Warning": warning, "Replanned": replanned}
            self._rows.update_many({"_id": {"$in": ids}}, {"$set": noted})
        refused = [
            UpdateOne(
                {"_id": one.id},
                {"$set": {"Verdict": "refused", "Why": one.why, "Replanned": one.replanned}},
            )
            for one in results
            if one.why
        ]
        if refused:
            self._rows.bulk_write(refused, ordered=False)
        counts = {"Ready": -len(results), "Done": len(results) - len(refused)}
        counts |= {"Refused": len(refused), "Replanned": sum(one.replanned for one in results)}
        self._batches.update_one(
            _leased(batch_id, lease),
            {
                "$inc": {f"Counts.{name}": count for name, count in counts.items()},
                "$set": {"Lease": self._renewed(lease)},
            },
        )
        for verdict in ("Done", "Refused"):
            count = partial(metrics.BATCH_ROWS.labels(verdict.lower()).inc, counts[verdict])
            after_commit(count)

    def finish(self, batch_id: str, lease: str) -> None:
        """Mark a batch as done whose rows are all carried out or refused.

        They are counted once more: an erasure deletes rows, and a batch may be from a release that
        counted them now and then.
        """

        def finish() -> None:
            counts = self._count(batch_id)
            batch = self._batches.find_one(_leased(batch_id, lease), ["_id"])
            if batch and not counts["Ready"]:
                self._set(batch, State="done", EndedAt=self.now(), Counts=counts)

        self._run(finish)

    def _count(self, batch_id: str) -> Document:
        """Return how many rows of a batch have each verdict, and how many were replanned."""
        group = {"$group": {"_id": "$Verdict", "Count": {"$sum": 1}}}
        found = self._rows.aggregate([{"$match": {"Batch": batch_id}}, group], hint="verdict")
        counts = {one["_id"].capitalize(): one["Count"] for one in found}
        replanned = self._rows.count_documents({"Batch": batch_id, "Replanned": True})
        return {**dict.fromkeys(PROGRESS, 0), **counts, "Replanned": replanned}

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


def ids_within(batch_id: str) -> Document:
    """Return the filter of the rows of a batch by their ids."""
    return {"_id": {"$gte": f"{batch_id}:", "$lt": f"{batch_id};"}}


def _leased(batch_id: str, lease: str) -> Document:
    return {"_id": batch_id, "State": "running", "Lease.Id": lease}


def _under_plan(batch_id: str) -> Document:
    """Return the filter of a batch whose plan is not marked for removal."""
    return {"_id": batch_id, "State": "planning", "IsRemoved": {"$exists": False}}
