"""Batches in MongoDB, one document each; app/batches/parts/store.py has their rows and parts.

As in app/storage/swap.py, answers depend only on majority-committed state. A read is confirmed by
a no-op write with write concern majority, whose filter holds the values that the answer depends on.
If the filter no longer matches, the document is read again. A statement about other documents is
written only after their state is majority-committed: a part is deleted after none of its rows is
ready, and a batch becomes done after it has no part.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.cursor import Cursor
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError
from pymongo.read_preferences import ReadPreference

from app.batches.collections import BATCH_ROWS, BATCHES, ROW_TEXTS, TEXTS, UNKNOWN
from app.batches.domain import (
    OPEN,
    AllDone,
    BatchNotFound,
    Cancelled,
    NewBatch,
    NotEnded,
    NotPlanned,
    NotRunning,
    Paused,
    PlannedTooLong,
    StillPlanning,
)
from app.batches.parts.store import CHUNK, NEVER, Parts, ids_within
from app.errors import Busy, Conflict, KeyReused
from app.paging import CursorPage
from app.storage.bulk import batches as in_chunks
from app.storage.bulk import rewrite
from app.storage.client import Storage
from app.storage.committed import majority_holds
from app.storage.erasure_records import ErasureRecords
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.types import Document

# A planner notes every few seconds that it is alive. After this time without a note it is dead.
PLANNING = timedelta(seconds=30)
# How often a batch is read again while others keep changing it, or while primaries disagree.
MOST_READS = 5


class Batches(Parts):
    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._erasures = ErasureRecords(storage.db)
        self._journals = storage.journals

    def find_of_request(self, request_key: str) -> Document | None:
        return self._confirmed({"RequestKey": request_key})

    def find_earlier(self, request_key: str, fingerprint: str, key: str) -> Document | None:
        """Return the batch that an earlier attempt of the same request made, if any."""
        found = self.find_of_request(request_key)
        if found and found["Fingerprint"] != fingerprint:
            raise KeyReused(key)
        return found

    def hand_over(self, request_key: str, batch_id: str) -> None:
        """Assign a request key to another batch."""
        former = {"RequestKey": request_key}
        self._batches.update_one(former, {"$unset": {"RequestKey": "", "Fingerprint": ""}})
        ours = {"RequestKey": request_key, "Fingerprint": ""}
        self._batches.update_one({"_id": batch_id}, {"$set": ours})

    def begin(self, by: Document, via: str) -> Document:
        """Store a batch that is about to be planned, before its players are looked up.

        From now on, an erasure does not finish before the plan does, because the plan may store the
        name of the erased person.
        """
        now = self.now()
        stored = {
            "_id": str(uuid.uuid4()),
            **{"Name": "", "Reason": None, "By": by, "Via": via, "Rows": 0},
            **{"At": now, "State": "planning", "PlannedUntil": now + PLANNING, "Counts": {}},
            **self._journals.expiry_of(now),
        }
        self._batches.insert_one(stored)
        return stored

    def describe(self, batch: Document, fields: Document) -> Document:
        """Set fields of a batch, and note that its planner is alive."""
        until = {"PlannedUntil": self.now() + PLANNING}
        described = self._update(_under_plan(batch["_id"]), {**fields, **until})
        if described is None:
            raise PlannedTooLong
        self._meet(described["By"], lambda: [described.get(name) for name in TEXTS])
        return described

    def _meet(self, by: Document, texts: Callable[[], Iterable[Any]] | None = None) -> None:
        """Repeat the erasures of people who made or started a batch, or are named in texts."""
        self._erasures.reopen_named({by.get("UserId"): by.get("Name")}, texts)

    def add_rows(self, batch: Document, part: int, rows: Sequence[Document]) -> None:
        """Store rows of a part with their verdicts, and the part itself if a row is ready."""
        expires = {"ExpiresAt": batch["ExpiresAt"]} if "ExpiresAt" in batch else {}
        own = {"Batch": batch["_id"], "Part": part, **expires}
        self._rows.insert_many([{**row, **own} for row in rows], ordered=False)
        # An erasure stores its record before it looks for rows, so whichever of the two runs second
        # sees the other.
        ids = {row["Subject"]["Id"] for row in rows if row["Subject"]}
        if erased := self._erasures.owners(ids):
            gone = {**ids_within(batch["_id"]), "Subject.Id": {"$in": list(erased)}}
            self._rows.delete_many(gone)
        unknown = [row for row in rows if row["Subject"] is None]
        if unknown:
            self._meet({}, lambda: [row.get(name) for row in unknown for name in ROW_TEXTS])
        if any(row["Verdict"] == "ready" for row in rows):
            # Earlier rows of a long part may have stored the part already.
            id_ = {"_id": f"{batch['_id']}:{part:06}"}
            free = {"$setOnInsert": {**own, "LeasedUntil": NEVER}}
            self._parts.update_one(id_, free, upsert=True)

    def complete(self, batch: Document, found: Document, new: NewBatch) -> Document:
        """Mark the plan of a batch as complete, and return the batch.

        If the same request has made another batch at the same time, return that one instead.
        """
        counts = self.count(batch["_id"])
        planned: Document = {**found, "State": "planned", "Counts": counts}
        if not counts["Ready"]:
            planned |= {"State": "done", "EndedAt": self.now()}
        if new.request_key:
            planned |= {"RequestKey": new.request_key, "Fingerprint": new.fingerprint}
        try:
            completed = self._update(_under_plan(batch["_id"]), planned)
        except DuplicateKeyError:
            completed = self.find_earlier(new.request_key or "", new.fingerprint, new.key)
            if completed is None:
                # The other batch was rolled back, or has expired.
                raise Busy("batch") from None
            self.remove(batch["_id"])
        if completed is None:
            raise PlannedTooLong
        return completed

    def remove(self, batch_id: str) -> None:
        """Delete a batch whose plan is incomplete; do nothing if the plan is complete.

        The planner may not know which is true, because the answer to its last write may be lost. So
        the batch is marked before its rows are deleted, and a marked plan is never completed.
        """
        still = {"_id": batch_id, "State": "planning"}
        marked = self._batches.update_one(still, {"$set": {"IsRemoved": True}}).matched_count
        # A planner that was suspended may have stored rows after others had removed its batch.
        if not marked and majority_holds(self._batches, {"_id": batch_id}):
            return
        self._rows.delete_many(ids_within(batch_id))
        self._parts.delete_many(ids_within(batch_id))
        self._batches.delete_one(still)

    def find_stale(self) -> Sequence[str]:
        """Return the ids of the batches whose planner has died."""
        is_dead = {"PlannedUntil": {"$not": {"$gte": self.now()}}}
        stale = {"State": "planning", "At": {"$lt": self.now() - PLANNING}, **is_dead}
        return [batch["_id"] for batch in self._batches.find(stale, ["_id"])]

    def get(self, batch_id: str) -> Document:
        """Return a batch as the primary has it; a majority confirms a NotFound."""
        return self._batches.find_one({"_id": batch_id}) or self._get_confirmed(batch_id)

    def _get_confirmed(self, batch_id: str) -> Document:
        """Return a batch whose state is majority-committed, so that an answer may depend on it."""
        found = self._confirmed({"_id": batch_id})
        if found is None:
            raise BatchNotFound(batch_id)
        return found

    def _confirmed(self, where: Document) -> Document | None:
        """Return the majority-committed batch that a filter by id or request key finds, if any."""
        for _ in range(MOST_READS):
            found = self._batches.find_one(where)
            seen = {"_id": found["_id"], "State": found["State"]} if found else {}
            if majority_holds(self._batches, {**where, **seen}) is bool(found):
                return found
        raise Busy("batch")

    def require_majority(self) -> None:
        """Wait until a majority has all writes of the primary; raise if the primary is cut off."""
        majority_holds(self._batches, {"_id": ""})

    def _update(self, where: Document, fields: Document) -> Document | None:
        """Set fields of a batch, and return the updated, majority-committed batch."""
        return self._batches.find_one_and_update(
            where, {"$set": fields}, return_document=ReturnDocument.AFTER
        )

    def list(self, size: int, after: bytes, hidden: Sequence[str]) -> CursorPage:
        """Return a page of batches, the newest first, without those that need what is hidden."""
        where = newest_first.after(newest_first.parse("batches", after)) if after else {}
        where |= {"Needs": {"$nin": [*hidden]}} if hidden else {}
        found = list(self._batches.find(where, sort=NEWEST_FIRST).limit(size + 1))
        is_last = len(found) <= size
        following = None if is_last else newest_first.position("batches", found[size - 1])
        return CursorPage(found[:size], following)

    def made_by(self, user_id: str) -> Iterator[Document]:
        own = [{"By.UserId": user_id}, {"StartedBy.UserId": user_id}]
        yield from self._batches.find({"$or": own}, sort=NEWEST_FIRST)

    def is_running(self, batch_id: str) -> bool:
        return bool(self.get(batch_id)["State"] == "running")

    def find_started(self) -> Sequence[Document]:
        """Return the running batches that were started, the oldest first."""
        running = self._batches.find({"State": "running"}, sort=[("BegunAt", 1)])
        return [batch for batch in running if "StartedBy" in batch]

    def start(self, batch_id: str, by: Document, resumes: bool = True) -> Document:
        """Start a batch, which callers and workers carry out on behalf of an account; return it.

        A batch that is running or done is returned unchanged.
        """
        running = {"State": "running", "StartedBy": by, "PausedWhy": None}
        # A batch that release 0.3.0 began has no StartedBy.
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
        return _refuse_states(batch, planning=StillPlanning, cancelled=Cancelled, paused=Paused)

    def approve(self, batch_id: str, by: Document, for_id: str) -> None:
        """Let an account run a planned batch beyond its limits."""
        approved = {"ApprovedBy": by, "ApprovedFor": for_id}
        batch = self._update({"_id": batch_id, "State": "planned"}, approved)
        self._meet(by)
        if batch is None and self._get_confirmed(batch_id).get("ApprovedFor") != for_id:
            raise NotPlanned

    def pause(self, batch_id: str, why: str | None = None) -> Document:
        """Pause a batch until it is started again, and return it.

        A batch that has finished meanwhile is returned unchanged.
        """
        running = {"_id": batch_id, "State": "running"}
        batch = self._update(running, {"State": "paused", "PausedWhy": why})
        batch = batch or self._get_confirmed(batch_id)
        _refuse_states(batch, planning=StillPlanning, planned=NotRunning, cancelled=Cancelled)
        return self.note_progress(batch_id)

    def cancel(self, batch_id: str) -> Document:
        """Cancel a batch; parts that are being carried out are finished."""
        # A caller may have died while carrying out rows: the abandoned rows are checked later.
        cancelled = {"State": "cancelled", "EndedAt": self.now(), "IsAbandoned": True}
        batch = self._update({"_id": batch_id, "State": {"$in": OPEN}}, cancelled)
        _refuse_states(batch or self._get_confirmed(batch_id), planning=StillPlanning, done=AllDone)
        counts = {"Counts": self.count(batch_id)}
        return self._update({"_id": batch_id, "State": "cancelled"}, counts) or self.get(batch_id)

    def require_ended(self, batch_id: str) -> Document:
        """Return a batch, or raise NotEnded if rows of it may still be carried out."""
        batch = _refuse_states(self._get_confirmed(batch_id), planning=StillPlanning)
        leased = {"Batch": batch_id, "LeasedUntil": {"$gte": self.now()}}
        if batch["State"] in OPEN or majority_holds(self._parts, leased):
            raise NotEnded
        return batch

    def note_progress(self, batch_id: str) -> Document:
        """Store the progress of a batch, and return it; a batch without parts becomes done.

        A dead caller may still hold a part whose rows are all carried out.
        """
        # Check parts before counting rows: a part is deleted only after none of its rows is ready.
        has_parts = majority_holds(self._parts, {"Batch": batch_id})
        counts = self.count(batch_id)
        noted: Document = {"Counts": counts}
        if not counts["Ready"] and not has_parts:
            noted |= {"State": "done", "EndedAt": self.now()}
        still = {"_id": batch_id, "State": {"$in": OPEN}}
        return {**(self._update(still, noted) or self._get_confirmed(batch_id)), "Counts": counts}

    def find_abandoned(self) -> Sequence[str]:
        """Return the ids of batches that were cancelled while running and that nobody works on."""
        found = self._batches.find({"IsAbandoned": True}, ["_id"])
        leased = {"LeasedUntil": {"$gte": self.now()}}
        return [
            batch["_id"]
            for batch in found
            if not self._parts.find_one({"Batch": batch["_id"], **leased}, ["_id"])
        ]

    def note_made(self, batch_id: str, row_ids: Sequence[str]) -> None:
        """Mark rows of a cancelled batch as done; the others stay as they are."""
        done = {"$set": {"Verdict": "done", "Why": None}}
        for some in in_chunks(row_ids, CHUNK):
            self._rows.update_many({"_id": {"$in": some}}, done)
        expired = {"Batch": batch_id, "LeasedUntil": {"$lt": self.now()}}
        self._parts.update_many(expired, {"$set": {"LeasedUntil": NEVER}})
        noted = {"$set": {"Counts": self.count(batch_id)}, "$unset": {"IsAbandoned": ""}}
        self._batches.update_one({"_id": batch_id}, noted)


def _under_plan(batch_id: str) -> Document:
    """Return the filter of a batch whose plan is not marked for removal."""
    return {"_id": batch_id, "State": "planning", "IsRemoved": {"$exists": False}}


def _refuse_states(batch: Document, **refusals: type[Conflict]) -> Document:
    """Return a batch, or raise the refusal for its state."""
    if refusal := refusals.get(batch["State"]):
        raise refusal
    return batch


class BatchTraces:
    """Personal data in the batches of one database, for erasures."""

    def __init__(self, db: Database[Document]) -> None:
        # A secondary may lag behind what a plan has just stored.
        primary = db.with_options(read_preference=ReadPreference.PRIMARY)
        self._batches = primary[BATCHES.name]
        self._rows = primary[BATCH_ROWS.name]
        self._erasures = ErasureRecords(db)

    def erase(self, ids: Sequence[str], user_id: str) -> Iterator[int]:
        """Delete the rows about a person; of the author of batches, keep only the id."""
        yield self._rows.delete_many({"Subject.Id": {"$in": ids}}).deleted_count
        for author, more in (
            ("By", ("RequestKey", "Fingerprint")),
            ("StartedBy", ()),
            ("ApprovedBy", ()),
        ):
            own = {f"{author}.UserId": user_id, f"{author}.Name": {"$ne": None}}
            hidden = dict.fromkeys((f"{author}.Key", *more), "")
            nameless = {"$set": {f"{author}.Name": None}, "$unset": hidden}
            yield self._batches.update_many(own, nameless).modified_count

    def erased_among(self, ids: Sequence[str]) -> Sequence[str]:
        """Return which of these ids were erased but still have rows."""
        found = self._rows.distinct("Subject.Id", {"Subject.Id": {"$in": ids}})
        return list(self._erasures.owners(found))

    def rewrite(self, rule: Callable[[Document], Document]) -> Iterator[int]:
        """Apply a rule to the texts of all batches."""
        for collection, found, _ in self._naming():
            yield from rewrite(collection, found, rule)

    def texts(self) -> Iterator[tuple[str, str, Iterator[Any]]]:
        """Yield the collection, the id and the texts of all batches and rows with free text."""
        for collection, found, names in self._naming():
            for document in found:
                yield collection.name, document["_id"], map(document.get, names)

    def _naming(self) -> Iterator[tuple[Collection[Document], Cursor[Document], list[str]]]:
        """Yield the documents and fields whose free text may name people."""
        yield self._batches, self._batches.find({}, TEXTS), TEXTS
        # There may be millions of rows: read only those that can name somebody else.
        yield self._rows, self._rows.find(UNKNOWN, ROW_TEXTS).hint("unknown"), ROW_TEXTS
