"""Requests for approval in MongoDB. Each is read, decided and stored in one transaction.

Approving one makes the change in the same transaction. So a request waits, or it is decided for
good, and only an approved one has its change.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pymongo import ReturnDocument
from pymongo.read_preferences import ReadPreference

from app.approvals.domain import (
    ADDRESS,
    LIFETIME,
    LISTS,
    MOST_WAITING,
    TooManyWaiting,
    is_same,
    without_address,
)
from app.core.changes import time_of_change
from app.core.errors import KeyReused, NotFound
from app.core.paging import CursorPage, map_page
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage
from app.storage.fence import ERASURES, require_not_erased
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
    object_shape,
)

APPROVALS = CollectionPlan(
    "approvals",
    object_shape(
        {
            "_id": GUID,
            "At": MOMENT,
            "EndsAt": MOMENT,
            "State": TEXT,
            "Operation": TEXT,
            "Subject": OBJECT,
            "Arguments": OBJECT,
            "By": OBJECT,
            "Via": TEXT,
            "Reason": TEXT,
            "Plan": ARRAY,
            "PlanNumber": COUNT,
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

NO_ADDRESS = {"$unset": {f"Arguments.{ADDRESS}": ""}}

Result = TypeVar("Result")


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
        self._erasures = storage.db[ERASURES.name]
        self._entries = storage.entries
        self._transactions = storage.transactions
        self.now = storage.clock.now

    def in_transaction(self, step: Callable[[], Result], has_key: bool = True) -> Result:
        """Ask for something or decide, as one transaction; to decide so again changes nothing."""
        return self._transactions.run(step, "approval", has_key)

    def find_earlier(self, request: Document, key: str | None) -> Document | None:
        """Return the same request of the same person from before; None if it is new."""
        earlier = self._approvals.find_one({"_id": _id_of(request, key)}) if key else None
        if earlier and not is_same(earlier, request):
            raise KeyReused(str(key))
        return earlier and self._current(earlier)

    def add(self, request: Document, key: str | None) -> Document:
        """Store a request, in a transaction that has found no earlier one; return it."""
        now, user_id = time_of_change(self.now(), None), request["By"]["UserId"]
        own = {"By.UserId": user_id, **self._waiting()}
        if self._approvals.count_documents(own, limit=MOST_WAITING) >= MOST_WAITING:
            raise TooManyWaiting
        named = [request["Subject"]["Id"], request["Arguments"].get("to")]
        require_not_erased(self._erasures, named, request, players=named)
        id_ = _id_of(request, key) if key else str(uuid.uuid4())
        stored = {
            "_id": id_,
            "At": now,
            "EndsAt": now + LIFETIME,
            "State": "waiting",
            "PlanNumber": 1,
            **request,
            **self._entries.expiry_of(now + LIFETIME),
        }
        self._approvals.insert_one(stored)
        return stored

    def get(self, request_id: str) -> Document:
        found = self._approvals.find_one({"_id": request_id})
        if found is None:
            raise NotFound("approval", request_id)
        return self._current(found)

    def _current(self, request: Document) -> Document:
        """Return a request with its state now: one that nobody decided in time has ended."""
        is_over = request["State"] == "waiting" and request["EndsAt"] <= self.now()
        return {**without_address(request), "State": "ended"} if is_over else request

    def count_waiting(self, filters: ApprovalFilters) -> int:
        return self._approvals.count_documents({**self._waiting(), **self._visible_filter(filters)})

    def _visible_filter(self, filters: ApprovalFilters) -> Document:
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
        where = self._visible_filter(filters)
        if filters.state == "waiting":
            where |= self._waiting()
        elif filters.state:
            where["State"] = {"$in": LISTS[filters.state]}
        page = newest_first.read(self._approvals, where, filters, size, after)
        return map_page(self._current, page)

    def decide(
        self,
        request: Document,
        state: str,
        by: Document,
        why: str | None = None,
        entry: Document | None = None,
    ) -> Document:
        """Store a decision on a waiting request, in the transaction that has read it."""
        decided = {"State": state, "DecidedBy": by, "DecidedAt": self.now()}
        if why:
            decided["Why"] = why
        if entry:
            decided |= {"Entry": entry["_id"], "Subject": entry["Subject"]}
        require_not_erased(self._erasures, (), {"By": by})
        return self._update(request, {"$set": decided, **NO_ADDRESS})

    def plan_again(self, request: Document, plan: Sequence[Document]) -> None:
        """Replace the plan of a waiting request, in the transaction that has read it."""
        self._update(request, {"$set": {"Plan": plan}, "$inc": {"PlanNumber": 1}})

    def _update(self, request: Document, update: Document) -> Document:
        updated = self._approvals.find_one_and_update(
            {"_id": request["_id"]}, update, return_document=ReturnDocument.AFTER
        )
        return updated or request

    def of_person(self, ids: Sequence[str], user_id: str) -> Iterator[Document]:
        """Yield the requests about some documents, and those that an account made or decided."""
        own = [{"Subject.Id": {"$in": ids}}, {"By.UserId": user_id}]
        where = {"$or": [*own, {"DecidedBy.UserId": user_id}]}
        found = self._approvals.find(where, sort=NEWEST_FIRST)
        yield from (without_address(self._current(request)) for request in found)


def _id_of(request: Document, key: str) -> str:
    """Return the id of a request with an Idempotency-Key."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{request['By']['UserId']} {key}"))


approvals = current(Approvals)
