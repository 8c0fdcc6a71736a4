"""Requests for approval in MongoDB. Each step is one write whose filter contains the state before.

A request that was approved is carried out by the request of the approver. If that is interrupted,
another worker does it (app/storage/unfinished.py): the Idempotency-Key makes the change once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from pymongo import ReturnDocument
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError
from pymongo.read_preferences import ReadPreference

from app.approvals.domain import (
    ADDRESS,
    LIFETIME,
    LISTS,
    MOST_WAITING,
    AlreadyDecided,
    ApprovalNotFound,
    PlanChanged,
    TooManyWaiting,
    is_same,
    without_address,
)
from app.changes import changed_at
from app.errors import KeyReused
from app.paging import CursorPage
from app.storage.bulk import FreeTexts
from app.storage.client import Storage
from app.storage.erasure_records import ErasureRecords
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, COUNT, GUID, MOMENT, TEXT, object_shape
from app.types import Document

OBJECT: Document = {"bsonType": "object"}
APPROVALS = CollectionPlan(
    "approvals",
    object_shape(
        {
            **{"_id": GUID, "At": MOMENT, "EndsAt": MOMENT, "State": TEXT, "Operation": TEXT},
            **{"Subject": OBJECT, "Arguments": OBJECT, "By": OBJECT, "Via": TEXT, "Reason": TEXT},
            **{"Plan": ARRAY, "PlanNumber": COUNT},
        },
        {"DecidedBy": OBJECT, "DecidedAt": MOMENT, "Why": TEXT, "Entry": TEXT},
    ),
    (
        index("time", "At", "_id"),
        index("state", "State", "At", "_id"),
        index("author", "By.UserId", "At", "_id"),
        index("decider", "DecidedBy.UserId", sparse=True),
        index("subject", "Subject.Id"),
        expiry(),
    ),
)
# A worker that approves a request carries it out at once. After this time, it has died.
ABANDONED = timedelta(seconds=30)
HOUR = timedelta(hours=1)
NO_ADDRESS = {"$unset": {f"Arguments.{ADDRESS}": ""}}
# The fields that may name people.
TEXTS = ["Reason", "Why", "Arguments"]


class ApprovalFilters(NamedTuple):
    """Which requests a list shows."""

    # A key of LISTS; None: all.
    state: str | None = None
    # Those by this account.
    author: str | None = None
    # Those by others as well, unless they are about these kinds of documents; None: none of them.
    hidden: tuple[str, ...] | None = None


class Approvals:
    def __init__(self, storage: Storage) -> None:
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._approvals = primary[APPROVALS.name]
        self._erasures = ErasureRecords(storage.db)
        self._journals = storage.journals
        self.now = storage.clock.now

    def add(self, request: Document, key: str | None) -> tuple[Document, bool]:
        """Store a request, once for each Idempotency-Key; return whether it was stored before."""
        now, by = changed_at(self.now(), None), request["By"]
        id_ = uuid.uuid5(uuid.NAMESPACE_OID, f"{by['UserId']} {key}") if key else uuid.uuid4()
        stored = {
            **{"_id": str(id_), "At": now, "EndsAt": now + LIFETIME, "State": "waiting"},
            **{"PlanNumber": 1, **request, **self._journals.expiry_of(now + LIFETIME)},
        }
        many = self._count_own(by["UserId"])
        if many >= MOST_WAITING and not self._approvals.find_one({"_id": str(id_)}):
            raise TooManyWaiting
        try:
            self._approvals.insert_one(stored)
        except DuplicateKeyError:
            earlier = self.get(str(id_))
            if not is_same(earlier, request):
                raise KeyReused(str(key)) from None
            return earlier, True
        self._take_back_beyond(stored)
        self._meet(stored, by, request["Subject"], {"Id": request["Arguments"].get("to")})
        return stored, False

    def _take_back_beyond(self, stored: Document) -> None:
        """Delete a new request if others of the same person were stored at the same moment."""
        if self._count_own(stored["By"]["UserId"]) > MOST_WAITING:
            undecided = {"_id": stored["_id"], "State": "waiting"}
            if self._approvals.delete_one(undecided).deleted_count:
                raise TooManyWaiting

    def _count_own(self, user_id: str) -> int:
        own = {"By.UserId": user_id, **self._waiting()}
        return self._approvals.count_documents(own, limit=MOST_WAITING + 1)

    def is_frequent(self, user_id: str) -> bool:
        """Tell whether somebody has asked for so much in an hour that mails would be a nuisance."""
        recent = {"By.UserId": user_id, "At": {"$gt": self.now() - HOUR}}
        return self._approvals.count_documents(recent, limit=MOST_WAITING + 1) > MOST_WAITING

    def _meet(self, request: Document, *people: Document) -> None:
        """Repeat the erasures of people whom a request names."""
        named = {one.get("UserId") or one.get("Id"): one.get("Name") for one in people}
        self._erasures.reopen_named(named, lambda: [request.get(name) for name in TEXTS])

    def get(self, request_id: str) -> Document:
        found = self._approvals.find_one({"_id": request_id})
        if found is None:
            raise ApprovalNotFound(request_id)
        return self._current(found)

    def _current(self, request: Document) -> Document:
        """Return a request with its state now: one that nobody decided in time has ended."""
        is_over = request["State"] == "waiting" and request["EndsAt"] <= self.now()
        return {**without_address(request), "State": "ended"} if is_over else request

    def count_waiting(self, filters: ApprovalFilters) -> int:
        return self._approvals.count_documents({**self._waiting(), **self._seen(filters)})

    def _seen(self, filters: ApprovalFilters) -> Document:
        """Return the filter of the requests that somebody may see."""
        own = {"By.UserId": filters.author}
        if filters.hidden is None:
            return own
        return (
            {"$or": [own, {"Subject.Kind": {"$nin": [*filters.hidden]}}]} if filters.hidden else {}
        )

    def _waiting(self) -> Document:
        return {"State": "waiting", "EndsAt": {"$gt": self.now()}}

    def list(self, filters: ApprovalFilters, size: int, after: bytes | None) -> CursorPage:
        where: Document = {"State": {"$in": LISTS[filters.state]}} if filters.state else {}
        if filters.state == "waiting":
            where = self._waiting()
        where |= self._seen(filters)
        if after:
            where = {"$and": [where, newest_first.after(newest_first.parse(filters, after))]}
        found = list(self._approvals.find(where, sort=NEWEST_FIRST).limit(size + 1))
        is_last = len(found) <= size
        following = None if is_last else newest_first.position(filters, found[size - 1])
        return CursorPage([*map(self._current, found[:size])], following)

    def decide(self, request: Document, state: str, by: Document, why: str | None) -> Document:
        """Approve, decline or withdraw a waiting request, as it was read; raise if others did."""
        decided = {"State": state, "DecidedBy": by, "DecidedAt": self.now()}
        decided |= {"Why": why} if why else {}
        still = {"_id": request["_id"], "PlanNumber": request["PlanNumber"], **self._waiting()}
        # An approved one is still to be carried out.
        dropped = {} if state == "approved" else NO_ADDRESS
        found = self._update(still, {"$set": decided, **dropped})
        if found is None:
            now = self.get(request["_id"])
            raise PlanChanged if now["State"] == "waiting" else AlreadyDecided(now["State"])
        self._meet(found, by)
        return found

    def plan_again(self, request: Document, plan: Sequence[Document]) -> None:
        """Replace the plan of a waiting request, unless others have."""
        number = request["PlanNumber"]
        still = {"_id": request["_id"], "State": "waiting", "PlanNumber": number}
        self._update(still, {"$set": {"Plan": plan, "PlanNumber": number + 1}})

    def reopen(self, request: Document) -> None:
        """Let an approved request wait again, because it could not be carried out."""
        approved = {"_id": request["_id"], "State": "approved", "DecidedAt": request["DecidedAt"]}
        undecided = {"$set": {"State": "waiting"}, "$unset": {"DecidedBy": "", "DecidedAt": ""}}
        self._update(approved, undecided)

    def finish(self, request: Document, entry: Document | None) -> Document:
        """Note that the change was made. An erasure may have deleted the request meanwhile."""
        made_by = {"Entry": entry["_id"], "Subject": entry["Subject"]} if entry else {}
        done = {"State": "done", **made_by}
        made = {"_id": request["_id"], "State": {"$in": ["approved", "done", "waiting"]}}
        return self._update(made, {"$set": done, **NO_ADDRESS}) or {**request, **done}

    def _update(self, where: Document, update: Document) -> Document | None:
        return self._approvals.find_one_and_update(
            where, update, return_document=ReturnDocument.AFTER
        )

    def unfinished(self) -> Sequence[str]:
        """Return the ids of requests whose approver died before they were carried out."""
        left = {"State": "approved", "DecidedAt": {"$lt": self.now() - ABANDONED}}
        return [request["_id"] for request in self._approvals.find(left, ["_id"])]

    def of_person(self, ids: Sequence[str], user_id: str) -> Iterator[Document]:
        """Yield the requests about some documents, and those that an account made or decided."""
        own = [{"Subject.Id": {"$in": ids}}, {"By.UserId": user_id}]
        where = {"$or": [*own, {"DecidedBy.UserId": user_id}]}
        found = self._approvals.find(where, sort=NEWEST_FIRST)
        yield from (without_address(self._current(request)) for request in found)


class ApprovalTraces(FreeTexts):
    """Personal data in the requests of one database, for erasures."""

    def __init__(self, db: Database[Document]) -> None:
        self._approvals = db.with_options(read_preference=ReadPreference.PRIMARY)[APPROVALS.name]
        super().__init__(self._approvals, *TEXTS)

    def erase(self, ids: Sequence[str], user_id: str) -> Iterator[int]:
        """Delete the requests about a person; of who asked or decided, keep only the id."""
        about = [{field: {"$in": ids}} for field in ("Subject.Id", "Arguments.to")]
        yield self._approvals.delete_many({"$or": about}).deleted_count
        for name in ("By", "DecidedBy"):
            own = {f"{name}.UserId": user_id, f"{name}.Name": {"$ne": None}}
            nameless = {"$set": {f"{name}.Name": None}}
            yield self._approvals.update_many(own, nameless).modified_count
