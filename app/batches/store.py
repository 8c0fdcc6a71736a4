"""Batches in MongoDB: one document for each, one for each of its rows, and one for each part.

A part is some rows that one caller carries out at a time. Whoever takes a part has it for some
seconds, by a lease: after a crash, the next one takes it over. The lease only saves work. That no
row is carried out twice follows from its key, which is looked for in the Journal and in history
before each try (app/storage/bulk_swap.py).

Answers rest on what a majority holds, as those of app/storage/swap.py do: what was read is
confirmed by a no-op with write concern majority, whose filter is what the answer rests on. If it no
longer matches, it is read again. What one document says of others is written when a majority holds
it of the others: that no row of a part is ready, before the part goes; that a batch has no part,
before it is done.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from pymongo import ReturnDocument, UpdateOne
from pymongo.collection import Collection
from pymongo.cursor import Cursor
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError
from pymongo.read_preferences import ReadPreference

from app import metrics
from app.batches.domain import (
    OPEN,
    PORTION_ROWS,
    AllDone,
    BatchNotFound,
    Cancelled,
    NotEnded,
    NotRunning,
    Paused,
    PlannedTooLong,
    StillPlanning,
    number_of,
    row_id,
)
from app.errors import Busy, KeyReused
from app.paging import CursorPage
from app.storage.bulk import batches as in_chunks
from app.storage.bulk import rewrite, set_texts
from app.storage.client import Storage
from app.storage.committed import NO_CHANGE, majority_holds
from app.storage.erasure_records import ErasureRecords
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import COUNT, GUID, MOMENT, TEXT, TEXT_OR_NULL, object_shape
from app.types import Document

OBJECT: Document = {"bsonType": "object"}
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
            "PausedWhy": TEXT_OR_NULL,
            "RequestKey": TEXT,
            "Fingerprint": TEXT,
            "ExpiresAt": MOMENT,
        },
    ),
    (
        index("time", "At", "_id"),
        index("author", "By.UserId"),
        index("starter", "StartedBy.UserId", sparse=True),
        index("planning", "At", partialFilterExpression={"State": "planning"}),
        index("running", "BegunAt", partialFilterExpression={"State": "running"}),
        index("abandoned", "IsAbandoned", partialFilterExpression={"IsAbandoned": True}),
        index("request_key", "RequestKey", unique=True, sparse=True),
        expiry(),
    ),
)
# Rows about nobody who is known: only these tell a name that is not their own player's.
UNKNOWN: Document = {"Subject": None}
BATCH_ROWS = CollectionPlan(
    "batch_rows",
    object_shape(
        {
            "_id": TEXT,
            "Batch": GUID,
            "Part": COUNT,
            "Player": TEXT_OR_NULL,
            "Subject": {"bsonType": ["object", "null"]},
            "Operation": TEXT_OR_NULL,
            "Arguments": OBJECT,
            "Verdict": TEXT,
            "Why": TEXT_OR_NULL,
            "Replanned": {"bsonType": "bool"},
        },
    ),
    (
        index("verdict", "Batch", "Verdict", "_id"),
        index("part", "Batch", "Part", "_id", partialFilterExpression={"Verdict": "ready"}),
        index("replanned", "Batch", "_id", partialFilterExpression={"Replanned": True}),
        index("unknown", "Batch", "_id", partialFilterExpression=UNKNOWN),
        index("subject", "Subject.Id", "_id"),
        expiry(),
    ),
)
BATCH_PARTS = CollectionPlan(
    "batch_parts",
    object_shape({"_id": TEXT, "Batch": GUID, "Part": COUNT, "LeasedUntil": MOMENT}),
    (index("free", "Batch", "LeasedUntil"), expiry()),
)
LEASE = timedelta(seconds=10)
# What came of rows is noted only while nobody else can have taken them over.
SURE_SECONDS = LEASE.total_seconds() / 2
NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
# Whoever plans a batch says so every some seconds; after this time without, the worker has died.
PLANNING = timedelta(seconds=30)
CHUNK = 500
# How often a batch is read again that others keep changing, or of which primaries disagree.
MOST_READS = 5
TEXTS = ["Name", "Reason", "Undo"]
ROW_TEXTS = ["Player", "Why", "Arguments"]


class Lease(NamedTuple):
    """A part that one caller carries out, and until when nobody else does."""

    id: str
    batch_id: str
    part: int
    until: datetime
    taken_at: float

    def is_sure(self) -> bool:
        return time.monotonic() < self.taken_at + SURE_SECONDS


class RowFilters(NamedTuple):
    """Which rows a list shows; None: all."""

    batch_id: str
    verdict: str | None = None
    subject_id: str | None = None


class Settled(NamedTuple):
    """What came of a row: done, or refused with a sentence; and whether it was judged anew."""

    id: str
    why: str | None
    replanned: bool


class Batches:
    """The batches of one application."""

    def __init__(self, storage: Storage) -> None:
        # What another worker has just written, a secondary may not have yet.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._rows = primary[BATCH_ROWS.name]
        self._parts = primary[BATCH_PARTS.name]
        self._erasures = ErasureRecords(storage.db)
        self._journals = storage.journals
        self.now = storage.clock.now

    def find_earlier(self, request_key: str, fingerprint: str, key: str) -> Document | None:
        """Return the batch that the same request has made before."""
        found = self.find_of_request(request_key)
        if found and found["Fingerprint"] != fingerprint:
            raise KeyReused(key)
        return found

    def begin(self, author: Document) -> Document:
        """Store a batch that is about to be planned, before anybody is looked up for it.

        From now on, an erasure is not finished before the plan is: what it looks up and stores may
        name the person.
        """
        now = self.now()
        stored = {
            "_id": str(uuid.uuid4()),
            **{"Name": "", "Reason": None, **author, "Rows": 0},
            **{"At": now, "State": "planning", "PlannedUntil": now + PLANNING, "Counts": {}},
            **self._journals.expiry_of(now),
        }
        self._batches.insert_one(stored)
        return stored

    def describe(self, batch: Document, fields: Document) -> Document:
        """Set what is known of a batch that is being planned, and return it.

        Its plan is not taken for dead for some time from now.
        """
        until = {"PlannedUntil": self.now() + PLANNING}
        described = self._update(_planned_still(batch["_id"]), {**fields, **until})
        if described is None:
            raise PlannedTooLong
        self._meet(described["By"], lambda: [described.get(name) for name in TEXTS])
        return described

    def _meet(self, by: Document, texts: Callable[[], Iterable[Any]] | None = None) -> None:
        """Let erasures go on of who has made or started a batch, and whom its texts name."""
        self._erasures.meet({by.get("UserId"): by.get("Name")}, texts)

    def add_rows(self, batch: Document, part: int, rows: Sequence[Document]) -> None:
        """Store rows of a part with their verdicts; those that are ready are carried out by one."""
        expires = {"ExpiresAt": batch["ExpiresAt"]} if "ExpiresAt" in batch else {}
        own = {"Batch": batch["_id"], "Part": part, **expires}
        self._rows.insert_many([{**row, **own} for row in rows], ordered=False)
        self._delete_erased(batch["_id"], rows)
        unknown = [row for row in rows if row["Subject"] is None]
        if unknown:
            self._meet({}, lambda: [row.get(name) for row in unknown for name in ROW_TEXTS])
        if any(row["Verdict"] == "ready" for row in rows):
            # More rows of the same part may have been stored before.
            id_ = {"_id": f"{batch['_id']}:{part:06}"}
            free = {"$setOnInsert": {**own, "LeasedUntil": NEVER}}
            self._parts.update_one(id_, free, upsert=True)

    def _delete_erased(self, batch_id: str, rows: Sequence[Document]) -> None:
        """Delete rows that were just stored about people whose erasure may have looked before.

        Its record comes before it looks for rows: whoever comes second sees the other.
        """
        ids = {row["Subject"]["Id"] for row in rows if row["Subject"]}
        if erased := self._erasures.owners(ids):
            self._rows.delete_many({**_rows_of(batch_id), "Subject.Id": {"$in": list(erased)}})

    def complete(
        self,
        batch: Document,
        told: Document,
        request_key: str | None,
        fingerprint: str,
        key: str = "",
    ) -> Document:
        """Let a batch be carried out whose plan is complete, and return it.

        Or the one that the same request has made at the same time.
        """
        counts = self.count(batch["_id"])
        state = "planned" if counts["Ready"] else "done"
        planned: Document = {**told, "State": state, "Counts": counts}
        if not counts["Ready"]:
            planned["EndedAt"] = self.now()
        if request_key:
            planned |= {"RequestKey": request_key, "Fingerprint": fingerprint}
        try:
            completed = self._update(_planned_still(batch["_id"]), planned)
        except DuplicateKeyError:
            earlier = self.find_earlier(request_key or "", fingerprint, key)
            if earlier is None:
                # It was rolled back, or has expired since.
                raise Busy("batch") from None
            self.remove(batch["_id"])
            return earlier
        if completed is None:
            raise PlannedTooLong
        return completed

    def remove(self, batch_id: str) -> None:
        """Delete a batch that was not planned to its end; one that was stays whole.

        Whoever plans it may not know: the answer to its last write may be lost. So it is marked
        before its rows are deleted, and nobody completes a plan that is marked.
        """
        still = {"_id": batch_id, "State": "planning"}
        marked = self._batches.update_one(still, {"$set": {"IsRemoved": True}}).matched_count
        # A planner that stood still may have stored rows after others had removed its batch.
        if not marked and majority_holds(self._batches, {"_id": batch_id}):
            return
        self._rows.delete_many(_rows_of(batch_id))
        self._parts.delete_many(_rows_of(batch_id))
        self._batches.delete_one(still)

    def stale(self) -> Sequence[str]:
        """Return the batches whose planner has died."""
        is_dead = {"PlannedUntil": {"$not": {"$gte": self.now()}}}
        stale = {"State": "planning", "At": {"$lt": self.now() - PLANNING}, **is_dead}
        return [batch["_id"] for batch in self._batches.find(stale, ["_id"])]

    def get(self, batch_id: str) -> Document:
        """Return a batch as the primary has it; that there is none, a majority confirms."""
        return self._batches.find_one({"_id": batch_id}) or self._get_confirmed(batch_id)

    def _get_confirmed(self, batch_id: str) -> Document:
        """Return a batch whose state a majority holds, so that an answer may rest on it."""
        found = self._confirmed({"_id": batch_id})
        if found is None:
            raise BatchNotFound(batch_id)
        return found

    def _confirmed(self, where: Document) -> Document | None:
        """Return the batch of an id or of a key as a majority holds it, or that it holds none."""
        for _ in range(MOST_READS):
            found = self._batches.find_one(where)
            seen = {"_id": found["_id"], "State": found["State"]} if found else {}
            if majority_holds(self._batches, {**where, **seen}) is bool(found):
                return found
        raise Busy("batch")

    def require_majority(self) -> None:
        """Wait until a majority holds all that the primary has; raise if it is cut off."""
        majority_holds(self._batches, {"_id": ""})

    def _update(self, where: Document, fields: Document) -> Document | None:
        """Set fields of a batch, and return it as it is then, which a majority holds."""
        return self._batches.find_one_and_update(
            where, {"$set": fields}, return_document=ReturnDocument.AFTER
        )

    def list(self, size: int, after: bytes, with_users: bool) -> CursorPage:
        """Return a page of batches, the newest first; those about accounts only with_users."""
        where = newest_first.after(newest_first.parse("batches", after)) if after else {}
        where |= {} if with_users else {"Needs": {"$ne": "users"}}
        found = list(self._batches.find(where, sort=NEWEST_FIRST).limit(size + 1))
        is_last = len(found) <= size
        following = None if is_last else newest_first.position("batches", found[size - 1])
        return CursorPage(found[:size], following)

    def count(self, batch_id: str) -> Document:
        """Return how many rows of a batch have each verdict, and how many were judged anew.

        Rows that get their verdict meanwhile change their place in the index of verdicts, so those
        that are ready are counted as what is left.
        """
        decided = {"Batch": batch_id, "Verdict": {"$in": ["done", "refused"]}}
        by_verdict = self._grouped(decided, "$Verdict", "verdict")
        total = self._grouped(_rows_of(batch_id), None, "_id_").get(None, 0)
        done, refused = by_verdict.get("done", 0), by_verdict.get("refused", 0)
        replanned = self._rows.count_documents({"Batch": batch_id, "Replanned": True})
        counts = {"Ready": total - done - refused, "Done": done, "Refused": refused}
        return {**counts, "Replanned": replanned}

    def _grouped(self, where: Document, by: str | None, hint: str) -> dict[str | None, int]:
        stages: list[Document] = [
            {"$match": where},
            {"$group": {"_id": by, "Count": {"$sum": 1}}},
        ]
        return {group["_id"]: group["Count"] for group in self._rows.aggregate(stages, hint=hint)}

    def list_rows(self, filters: RowFilters, size: int, after: bytes) -> CursorPage:
        """Return a page of rows in their order."""
        first = _after_row(filters, after) if after else f"{filters.batch_id}:"
        where = _query(filters) | {"_id": {"$gt": first, "$lt": f"{filters.batch_id};"}}
        found = list(self._rows.find(where, sort=[("_id", 1)]).limit(size + 1))
        is_last = len(found) <= size
        following = None if is_last else _row_position(filters, found[size - 1])
        return CursorPage(found[:size], following)

    def walk_done(self, batch_id: str) -> Iterator[Sequence[Document]]:
        """Yield the rows that were carried out, the last first, some at once."""
        done = {"Batch": batch_id, "Verdict": "done"}
        yield from in_chunks(self._rows.find(done, sort=[("_id", -1)]).batch_size(CHUNK), CHUNK)

    def start(self, batch_id: str, by: Document, resumes: bool = True) -> Document:
        """Let a batch be carried out as somebody, by callers and by the workers, and return it.

        One that runs already, or is done, is returned as it is.
        """
        running = {"State": "running", "StartedBy": by, "PausedWhy": None}
        # Of one that was begun by an older program, nobody is known.
        begun_before: list[Document] = [{"State": "running", "StartedBy": None}]
        if resumes:
            begun_before.append({"State": "paused"})
        planned = {"_id": batch_id, "State": "planned"}
        batch = (
            self._update(planned, {**running, "BegunAt": self.now()})
            or self._update({"_id": batch_id, "$or": begun_before}, running)
            or self._get_confirmed(batch_id)
        )
        self._meet(by)
        refusals = {"planning": StillPlanning, "cancelled": Cancelled, "paused": Paused}
        if batch["State"] in refusals:
            raise refusals[batch["State"]]
        return batch

    def pause(self, batch_id: str, why: str | None = None) -> Document:
        """Let nothing more of a batch be carried out until it is started again.

        One that has come to its end meanwhile is returned as it is.
        """
        running = {"_id": batch_id, "State": "running"}
        batch = self._update(running, {"State": "paused", "PausedWhy": why})
        batch = batch or self._get_confirmed(batch_id)
        refusals = {"planning": StillPlanning, "planned": NotRunning, "cancelled": Cancelled}
        if batch["State"] in refusals:
            raise refusals[batch["State"]]
        return self.note_progress(batch_id)

    def started(self) -> Sequence[Document]:
        """Return the batches that the workers carry out, the one that was begun first before."""
        running = self._batches.find({"State": "running"}, sort=[("BegunAt", 1)])
        return [batch for batch in running if "StartedBy" in batch]

    def require_ended(self, batch_id: str) -> Document:
        """Return a batch of which no row is carried out any more."""
        batch = self._get_confirmed(batch_id)
        if batch["State"] == "planning":
            raise StillPlanning
        leased = {"Batch": batch_id, "LeasedUntil": {"$gte": self.now()}}
        if batch["State"] in OPEN or majority_holds(self._parts, leased):
            raise NotEnded
        return batch

    def abandoned_rows(self, batch_id: str) -> Iterator[Sequence[str]]:
        """Yield the ids of rows that a caller who died may have carried out without noting it."""
        abandoned = {"Batch": batch_id, "LeasedUntil": {"$gt": NEVER, "$lt": self.now()}}
        parts = [part["Part"] for part in self._parts.find(abandoned, ["Part"])]
        left = {"Batch": batch_id, "Part": {"$in": parts}, "Verdict": "ready"}
        found = self._rows.find(left, ["_id"]).hint("part")
        for some in in_chunks(found if parts else (), CHUNK):
            yield [row["_id"] for row in some]

    def note_made(self, batch_id: str, row_ids: Sequence[str]) -> None:
        """Note that rows of a batch which was cancelled have been carried out; the others stay."""
        done = {"$set": {"Verdict": "done", "Why": None}}
        for some in in_chunks(row_ids, CHUNK):
            self._rows.update_many({"_id": {"$in": some}}, done)
        self._parts.update_many(
            {"Batch": batch_id, "LeasedUntil": {"$lt": self.now()}},
            {"$set": {"LeasedUntil": NEVER}},
        )
        noted = {"$set": {"Counts": self.count(batch_id)}, "$unset": {"IsAbandoned": ""}}
        self._batches.update_one({"_id": batch_id}, noted)

    def abandoned(self) -> Sequence[str]:
        """Return the batches that were cancelled while rows of them were carried out."""
        found = self._batches.find({"IsAbandoned": True}, ["_id"])
        leased = {"$gte": self.now()}
        return [
            batch["_id"]
            for batch in found
            if not self._parts.find_one({"Batch": batch["_id"], "LeasedUntil": leased}, ["_id"])
        ]

    def is_running(self, batch_id: str) -> bool:
        return bool(self.get(batch_id)["State"] == "running")

    def lease(self, batch_id: str) -> Lease | None:
        """Take a part that nobody else carries out; None if there is none."""
        now = self.now()
        free = {"Batch": batch_id, "LeasedUntil": {"$lt": now}}
        until = now + LEASE
        taken_at = time.monotonic()
        part = self._parts.find_one_and_update(
            free,
            {"$set": {"LeasedUntil": until}},
            sort=[("LeasedUntil", 1)],
            return_document=ReturnDocument.AFTER,
        )
        if part is None:
            return None
        return Lease(part["_id"], batch_id, part["Part"], part["LeasedUntil"], taken_at)

    def renew(self, lease: Lease) -> Lease | None:
        """Have a part for some more seconds; None if another has it by now."""
        until, taken_at = self.now() + LEASE, time.monotonic()
        own = {"_id": lease.id, "LeasedUntil": lease.until}
        if not self._parts.update_one(own, {"$set": {"LeasedUntil": until}}).matched_count:
            return None
        return lease._replace(until=until, taken_at=taken_at)

    def release(self, lease: Lease) -> None:
        """Give a part back, for whoever comes next; it goes with its last row."""
        own = {"_id": lease.id, "LeasedUntil": lease.until}
        if self._rows.find_one_and_update(_left(lease), NO_CHANGE, ["_id"], hint="part"):
            self._parts.update_one(own, {"$set": {"LeasedUntil": NEVER}})
        else:
            self._parts.delete_one({"_id": lease.id})

    def has_parts(self, batch_id: str) -> bool:
        """Tell whether somebody carries out rows of a batch, or could."""
        return self._parts.find_one({"Batch": batch_id}, ["_id"]) is not None

    def ready_rows(self, lease: Lease, after: str = "") -> Sequence[Document]:
        """Return the next rows of a part that are still to be carried out, in their order."""
        left = {**_left(lease), "_id": {"$gt": after}}
        # By itself, MongoDB may take the index of verdicts, and read all rows that are ready.
        found = self._rows.find(left, sort=[("_id", 1)]).hint("part")
        return list(found.limit(PORTION_ROWS))

    def settle(self, lease: Lease, settled: Sequence[Settled]) -> bool:
        """Note what came of rows; False if another may carry them out, who will note it then."""
        if not lease.is_sure():
            return False
        for replanned in (False, True):
            done = [one.id for one in settled if not one.why and one.replanned is replanned]
            noted: Document = {"Verdict": "done", "Why": None}
            if replanned:
                noted["Replanned"] = True
            if done:
                self._rows.update_many({"_id": {"$in": done}}, {"$set": noted})
        refused = [one for one in settled if one.why]
        if refused:
            self._rows.bulk_write([*map(_refusal, refused)], ordered=False)
        metrics.BATCH_ROWS.labels("done").inc(len(settled) - len(refused))
        metrics.BATCH_ROWS.labels("refused").inc(len(refused))
        return True

    def note_progress(self, batch_id: str) -> Document:
        """Store how far a batch is, and return it; it is done when nobody has a part of it.

        A caller who has died may hold one, though all rows of it were carried out.
        """
        # Before the rows are counted: whatever a part says of them is true then.
        has_parts = majority_holds(self._parts, {"Batch": batch_id})
        counts = self.count(batch_id)
        noted: Document = {"Counts": counts}
        if not counts["Ready"] and not has_parts:
            noted |= {"State": "done", "EndedAt": self.now()}
        still = {"_id": batch_id, "State": {"$in": OPEN}}
        return {**(self._update(still, noted) or self._get_confirmed(batch_id)), "Counts": counts}

    def cancel(self, batch_id: str) -> Document:
        """Cancel a batch; parts that are being carried out come to their end."""
        # Whoever carries out rows now may have died: what was made is found out later.
        cancelled = {"State": "cancelled", "EndedAt": self.now(), "IsAbandoned": True}
        batch = self._update({"_id": batch_id, "State": {"$in": OPEN}}, cancelled)
        batch = batch or self._get_confirmed(batch_id)
        if batch["State"] == "planning":
            raise StillPlanning
        if batch["State"] == "done":
            raise AllDone
        counts = {"Counts": self.count(batch_id)}
        return self._update({"_id": batch_id, "State": "cancelled"}, counts) or self.get(batch_id)

    def find_of_request(self, request_key: str) -> Document | None:
        return self._confirmed({"RequestKey": request_key})

    def hand_over(self, request_key: str, batch_id: str) -> None:
        """Let another batch be the one that is found by a key."""
        former = {"RequestKey": request_key}
        self._batches.update_one(former, {"$unset": {"RequestKey": "", "Fingerprint": ""}})
        ours = {"RequestKey": request_key, "Fingerprint": ""}
        self._batches.update_one({"_id": batch_id}, {"$set": ours})

    def rows_about(self, ids: Sequence[str]) -> Iterator[Document]:
        """Yield the rows about some documents, of all batches."""
        yield from self._rows.find({"Subject.Id": {"$in": ids}}, sort=[("_id", 1)])

    def made_by(self, user_id: str) -> Iterator[Document]:
        """Yield the batches that an account has made or started."""
        own = [{"By.UserId": user_id}, {"StartedBy.UserId": user_id}]
        yield from self._batches.find({"$or": own}, sort=NEWEST_FIRST)


def _rows_of(batch_id: str) -> Document:
    """Return the filter of the rows of a batch, or of its parts, by their ids."""
    return {"_id": {"$gte": f"{batch_id}:", "$lt": f"{batch_id};"}}


def _planned_still(batch_id: str) -> Document:
    """Return the filter of a batch whose plan nobody has given up."""
    return {"_id": batch_id, "State": "planning", "IsRemoved": {"$exists": False}}


def _left(lease: Lease) -> Document:
    """Return the filter of the rows of a part that are still to be carried out."""
    return {"Batch": lease.batch_id, "Part": lease.part, "Verdict": "ready"}


class BatchTraces:
    """The batches of one database, as far as they tell of people who are erased."""

    def __init__(self, db: Database[Document]) -> None:
        # What a plan has just stored, a secondary may not have yet.
        primary = db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._rows = primary[BATCH_ROWS.name]
        self._erasures = ErasureRecords(db)

    def erase(self, ids: Sequence[str], user_id: str) -> Iterator[int]:
        """Delete the rows about a person, and leave of who has made batches the id."""
        yield self._rows.delete_many({"Subject.Id": {"$in": ids}}).deleted_count
        for author, more in (("By", ("RequestKey", "Fingerprint")), ("StartedBy", ())):
            own = {f"{author}.UserId": user_id, f"{author}.Name": {"$ne": None}}
            hidden = dict.fromkeys((f"{author}.Key", *more), "")
            nameless = {"$set": {f"{author}.Name": None}, "$unset": hidden}
            yield self._batches.update_many(own, nameless).modified_count

    def told_of(self, ids: Sequence[str]) -> Sequence[str]:
        """Return of which erased people and characters there are rows."""
        found = self._rows.distinct("Subject.Id", {"Subject.Id": {"$in": ids}})
        return list(self._erasures.owners(found))

    def rewrite(self, rule: Callable[[Document], Document]) -> Iterator[int]:
        """Set what a rule makes of the words of people in all batches."""
        for collection, found, _ in self._naming():
            yield from rewrite(collection, found, partial(set_texts, rule))

    def texts(self) -> Iterator[tuple[str, str, Iterator[Any]]]:
        """Yield the collection, the id and the texts of all batches and rows that have any."""
        for collection, found, names in self._naming():
            for document in found:
                yield collection.name, document["_id"], map(document.get, names)

    def _naming(self) -> Iterator[tuple[Collection[Document], Cursor[Document], list[str]]]:
        """Yield what may tell of people in the words of others."""
        yield self._batches, self._batches.find({}, TEXTS), TEXTS
        # All rows may be millions, and an erasure that is cut off begins anew.
        yield self._rows, self._rows.find(UNKNOWN, ROW_TEXTS).hint("unknown"), ROW_TEXTS


def _refusal(settled: Settled) -> UpdateOne:
    noted: Document = {"Verdict": "refused", "Why": settled.why}
    if settled.replanned:
        noted["Replanned"] = True
    # Whoever has carried it out meanwhile is right.
    return UpdateOne({"_id": settled.id, "Verdict": "ready"}, {"$set": noted})


def _query(filters: RowFilters) -> Document:
    where: Document = {"Batch": filters.batch_id}
    if filters.verdict == "replanned":
        where["Replanned"] = True
    elif filters.verdict:
        where["Verdict"] = filters.verdict
    if filters.subject_id:
        where["Subject.Id"] = filters.subject_id
    return where


def _row_position(filters: RowFilters, row: Document) -> bytes:
    return newest_first.digest(filters) + str(number_of(row)).encode()


def _after_row(filters: RowFilters, cursor: bytes) -> str:
    return row_id(filters.batch_id, int(newest_first.within(filters, cursor)))
