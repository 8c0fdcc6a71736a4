"""Batches in MongoDB: a document for each batch, and one for each of its rows.

What changes a batch is a transaction (app/storage/transactions.py). A lease in the batch says which
worker carries it out, portion by portion: one transaction changes the players of a portion, notes
the results of their rows, and counts them in the batch. It writes the batch last, so that whoever
pauses or cancels it waits for no more than the rest of a portion.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any, TypeVar, cast

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne
from pymongo.read_preferences import ReadPreference

from app.batches.domain import (
    OPEN,
    PROGRESS,
    AllDone,
    Cancelled,
    NotEnded,
    NotPlanned,
    NotRunning,
    Paused,
    PlannedTooLong,
    StillPlanning,
    number_of,
    row_id,
)
from app.core import metrics
from app.core.errors import Busy, Conflict, KeyReused, NotFound
from app.core.paging import CursorPage
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage
from app.storage.fence import ERASURES, BeingErased, erased_people, require_not_erased
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import (
    ARRAY,
    COUNT,
    GUID,
    MOMENT,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    object_shape,
)
from app.storage.search_fields import row_words
from app.storage.transactions import after_commit

# A planner notes with each portion of rows that it is alive. After this time it is dead.
PLANNING = timedelta(seconds=30)
# Each portion renews the lease. After this time without one, another worker goes on.
LEASE = timedelta(seconds=10)
BATCHES = CollectionPlan(
    "batches",
    object_shape(
        {
            "_id": GUID,
            "Name": TEXT,
            "Reason": TEXT_OR_NULL,
            "At": MOMENT,
            "By": OBJECT,
            "Via": TEXT,
            "State": TEXT,
            "Rows": COUNT,
            "Counts": OBJECT,
        },
        {
            "StartedBy": OBJECT,
            "ApprovedBy": OBJECT,
            "PausedWhy": TEXT_OR_NULL,
            "Lease": OBJECT,
            "RequestKey": TEXT,
            "Fingerprint": TEXT,
            "ExpiresAt": MOMENT,
        },
    ),
    (
        index("time", "At", "_id"),
        index("author", "By.UserId"),
        index("starter", "StartedBy.UserId", sparse=True),
        index("approver", "ApprovedBy.UserId", sparse=True),
        index("planning", "At", partialFilterExpression={"State": "planning"}),
        index("running", "BegunAt", partialFilterExpression={"State": "running"}),
        index("request_key", "RequestKey", unique=True, sparse=True),
        expiry(),
    ),
)
BATCH_ROWS = CollectionPlan(
    "batch_rows",
    object_shape(
        {
            "_id": TEXT,
            "Batch": GUID,
            "Player": TEXT_OR_NULL,
            "Subject": {"bsonType": ["object", "null"]},
            "Operation": TEXT_OR_NULL,
            "Arguments": OBJECT,
            "Verdict": TEXT,
            "Why": TEXT_OR_NULL,
            "Replanned": {"bsonType": "bool"},
        },
        {"Sent": OBJECT, "Words": ARRAY},
    ),
    (
        index("verdict", "Batch", "Verdict", "_id"),
        index("replanned", "Batch", "_id", partialFilterExpression={"Replanned": True}),
        # Only rows of unknown players have words: an erasure finds those that name somebody.
        index("words", "Words", partialFilterExpression={"Words": {"$exists": True}}),
        index("subject", "Subject.Id", "_id"),
        expiry(),
    ),
)

Method = TypeVar("Method", bound=Callable[..., Any])


def in_transaction(method: Method) -> Method:
    """Run a method of Batches as a transaction; to repeat any of them does no harm."""

    @wraps(method)
    def run(self: Batches, *args: Any, **options: Any) -> Any:
        step = partial(method, self, *args, **options)
        return self.transactions.run(step, "batch", has_key=True)

    return cast(Method, run)


class Batches:
    def __init__(self, storage: Storage) -> None:
        # A secondary may lag behind what another worker has just written.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._rows = primary[BATCH_ROWS.name]
        self._erasures = primary[ERASURES.name]
        self._entries = storage.entries
        self.transactions = storage.transactions
        self.now = storage.clock.now

    @in_transaction
    def find_earlier(self, fields: Document, key: str | None = None) -> Document | None:
        """Return the batch that an earlier attempt of the same request made, if any."""
        request_key = fields.get("RequestKey")
        found = self._batches.find_one({"RequestKey": request_key}) if request_key else None
        if found and found["Fingerprint"] != fields["Fingerprint"]:
            raise KeyReused(key)
        if found and found["State"] == "planning":
            raise Busy("batch")
        return found

    def forget_request(self, request_key: str) -> None:
        """Let the same request make another batch."""
        former = {"RequestKey": request_key}
        self._batches.update_one(former, {"$unset": {"RequestKey": "", "Fingerprint": ""}})

    @in_transaction
    def begin(self, fields: Document, key: str | None = None) -> Document:
        """Store a batch that is about to be planned, unless the same request has made one before.

        Return that one, or the new one, which has the state "planning".
        """
        if earlier := self.find_earlier(fields, key):
            return earlier
        now = self.now()
        stored = {
            "_id": str(uuid.uuid4()),
            "At": now,
            "State": "planning",
            "PlannedUntil": now + PLANNING,
            "Counts": dict.fromkeys(PROGRESS, 0),
            **fields,
            **self._entries.expiry_of(now),
        }
        require_not_erased(self._erasures, [], stored)
        self._batches.insert_one(stored)
        return stored

    @in_transaction
    def add_rows(self, batch: Document, rows: Sequence[Document]) -> None:
        """Store rows of a batch, and count their verdicts."""
        erased = erased_people(self._erasures, [r["Subject"]["Id"] for r in rows if r["Subject"]])
        for row in rows if erased else ():
            # Of people who are being erased, nothing is kept.
            if row["Subject"] and row["Subject"]["Id"] in erased:
                row |= {"Player": None, "Subject": None, "Arguments": {}, "Sent": {}}
                row |= {"Verdict": "refused", "Why": str(BeingErased())}
        verdicts = Counter(f"Counts.{row['Verdict'].capitalize()}" for row in rows)
        alive = {"PlannedUntil": self.now() + PLANNING}
        self._plan(batch, {"$inc": dict(verdicts), "$set": alive})
        of_batch = {"Batch": batch["_id"], **self._entries.expiry_of(batch["At"])}
        self._rows.insert_many([{**row, **of_batch, **row_words(row)} for row in rows])

    def _plan(self, batch: Document, update: Document) -> Document:
        """Update a batch that is being planned, and return it."""
        require_not_erased(self._erasures, [], batch)
        still = {"_id": batch["_id"], "State": "planning"}
        planned: Document | None = self._batches.find_one_and_update(
            still, update, return_document=ReturnDocument.AFTER
        )
        if planned is None:
            raise PlannedTooLong
        return planned

    @in_transaction
    def complete(self, batch: Document, found: Document) -> Document:
        """Mark the plan of a batch as complete, and return the batch."""
        planned = self._plan(batch, {"$set": {**found, "State": "planned"}})
        if planned["Counts"]["Ready"]:
            return planned
        return self._set(planned, State="done", EndedAt=self.now())

    def remove(self, batch_id: str) -> None:
        """Delete a batch whose plan is incomplete; do nothing if the plan is complete.

        The planner may not know which is true, because the answer to its last write may be lost. No
        rows are added once the batch is gone.
        """
        if self._batches.delete_one({"_id": batch_id, "State": "planning"}).deleted_count:
            self._rows.delete_many({"Batch": batch_id})

    def remove_stale(self) -> None:
        """Delete the batches whose planner has died."""
        now = self.now()
        stale = {"State": "planning", "At": {"$lt": now}, "PlannedUntil": {"$lt": now}}
        for batch in self._batches.find(stale, ["_id"]):
            self.remove(batch["_id"])

    def is_planned_since_before(self, moment: datetime) -> bool:
        """Tell whether a plan that began before a moment still stores rows."""
        planning = {"State": "planning", "At": {"$lte": moment}}
        return self._batches.find_one(planning, ["_id"]) is not None

    def get(self, batch_id: str) -> Document:
        """Return a batch as the primary has it; a majority confirms a NotFound."""
        return self._batches.find_one({"_id": batch_id}) or self._find(batch_id)

    @in_transaction
    def _find(self, batch_id: str, **refusals: type[Conflict]) -> Document:
        """Return a batch, or raise the refusal for its state."""
        batch = self._batches.find_one({"_id": batch_id})
        if batch is None:
            raise NotFound("batch", batch_id)
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

    def requested_by(self, user_id: str) -> Iterator[Document]:
        own = [{"By.UserId": user_id}, {"StartedBy.UserId": user_id}]
        yield from self._batches.find({"$or": own}, sort=NEWEST_FIRST)

    @in_transaction
    def start(self, batch_id: str, by: Document, resumes: bool = True) -> Document:
        """Start a batch, which a worker carries out on behalf of an account; return it.

        A batch that is running or done is returned unchanged.
        """
        paused = {} if resumes else {"paused": Paused}
        batch = self._find(batch_id, planning=StillPlanning, cancelled=Cancelled, **paused)
        if batch["State"] in ("running", "done"):
            return batch
        require_not_erased(self._erasures, [], {"By": by})
        begun = {"BegunAt": self.now()} if batch["State"] == "planned" else {}
        return self._set(batch, State="running", StartedBy=by, PausedWhy=None, **begun)

    @in_transaction
    def approve(self, batch_id: str, by: Document, for_id: str) -> None:
        """Let an account run a planned batch beyond its limits."""
        batch = self._find(batch_id)
        if batch["State"] == "planned":
            require_not_erased(self._erasures, [], {"By": by})
            self._set(batch, ApprovedBy=by, ApprovedFor=for_id)
        elif batch.get("ApprovedFor") != for_id:
            raise NotPlanned

    @in_transaction
    def pause(self, batch_id: str, why: str | None = None) -> Document:
        """Pause a batch until it is started again, and return it.

        A batch that has finished meanwhile is returned unchanged.
        """
        refusals = {"planning": StillPlanning, "planned": NotRunning, "cancelled": Cancelled}
        batch = self._find(batch_id, **refusals)
        if batch["State"] != "running":
            return batch
        return self._set(batch, State="paused", PausedWhy=why)

    @in_transaction
    def cancel(self, batch_id: str) -> Document:
        """Cancel a batch, and return it."""
        batch = self._find(batch_id, planning=StillPlanning, done=AllDone)
        if batch["State"] not in OPEN:
            return batch
        return self._set(batch, State="cancelled", EndedAt=self.now())

    def require_ended(self, batch_id: str) -> Document:
        """Return a batch, or raise NotEnded if rows of it may still be carried out."""
        return self._find(batch_id, planning=StillPlanning, **dict.fromkeys(OPEN, NotEnded))

    def find_waiting(self) -> Sequence[Document]:
        """Return the started batches that no worker is carrying out, the oldest first."""
        return list(self._batches.find(self._waiting(), sort=[("BegunAt", 1)]))

    def _waiting(self) -> Document:
        started = {"State": "running", "StartedBy": {"$exists": True}}
        return {**started, "Lease.Until": {"$not": {"$gt": self.now()}}}

    def lease(self, batch_id: str) -> str | None:
        """Return a lease of a running batch; None if another worker has one."""
        lease = str(ObjectId())
        free = {"_id": batch_id, **self._waiting()}
        taken = self._batches.update_one(free, {"$set": {"Lease": self._new_lease(lease)}})
        return lease if taken.matched_count else None

    def release(self, batch_id: str, lease: str) -> None:
        """Let another worker go on at once."""
        own = {"_id": batch_id, "Lease.Id": lease}
        self._batches.update_one(own, {"$unset": {"Lease": ""}})

    def _new_lease(self, lease: str) -> Document:
        return {"Id": lease, "Until": self.now() + LEASE}

    def ready_rows(self, batch_id: str, most: int) -> Sequence[Document]:
        """Return the first rows of a batch that are not carried out yet."""
        ready = {"Batch": batch_id, "Verdict": "ready"}
        return list(self._rows.find(ready, sort=[("_id", 1)]).hint("verdict").limit(most))

    def is_leased(self, batch_id: str, lease: str) -> bool:
        """Tell whether rows may be carried out, in the transaction that does so.

        Not if the batch was paused or cancelled, or if another worker has taken it over.
        """
        return self._batches.find_one(_lease_filter(batch_id, lease), ["_id"]) is not None

    def note(self, batch_id: str, lease: str, results: Mapping[str, Document]) -> None:
        """Store results of rows, in the transaction that carries them out; the batch comes last."""
        counts = Counter(Ready=-len(results))
        for result in results.values():
            counts.update({result["Verdict"].capitalize(): 1, "Replanned": result["Replanned"]})
            after_commit(metrics.BATCH_ROWS.labels(result["Verdict"]).inc)
        updates = [UpdateOne({"_id": id_}, {"$set": result}) for id_, result in results.items()]
        self._rows.bulk_write(updates, ordered=False)
        self._batches.update_one(
            _lease_filter(batch_id, lease),
            {
                "$inc": {f"Counts.{name}": count for name, count in counts.items()},
                "$set": {"Lease": self._new_lease(lease)},
            },
        )

    def finish(self, batch_id: str, lease: str) -> None:
        """Mark a batch as done of which no row is left; an erasure may have deleted some."""
        done = {"State": "done", "EndedAt": self.now(), "Counts.Ready": 0}
        self._batches.update_one(_lease_filter(batch_id, lease), {"$set": done})

    def list_rows(
        self, batch_id: str, verdict: str | None, subject_id: str | None, size: int, after: bytes
    ) -> CursorPage:
        where: Document = {"Subject.Id": subject_id} if subject_id else {}
        if verdict:
            where |= {"Replanned": True} if verdict == "replanned" else {"Verdict": verdict}
        filters = batch_id, where
        last = int(newest_first.within(filters, after)) if after else 0
        found = list(self.walk_rows(batch_id, last, size + 1, **where))
        if len(found) <= size:
            return CursorPage(found, None)
        position = newest_first.digest(filters) + str(number_of(found[size - 1])).encode()
        return CursorPage(found[:size], position)

    def walk_rows(
        self, batch_id: str, after: int = 0, most: int = 0, order: int = 1, **where: Any
    ) -> Iterator[Document]:
        """Yield the rows with these values after a number, in order; 0 means no limit."""
        ids = {"_id": {"$gt": row_id(batch_id, after), "$lt": f"{batch_id};"}}
        found = self._rows.find({"Batch": batch_id, **ids, **where}, sort=[("_id", order)])
        yield from found.limit(most)

    def rows_about(self, ids: Sequence[str]) -> Iterator[Document]:
        yield from self._rows.find({"Subject.Id": {"$in": ids}}, sort=[("_id", 1)])


def _lease_filter(batch_id: str, lease: str) -> Document:
    return {"_id": batch_id, "State": "running", "Lease.Id": lease}


batches = current(Batches)
