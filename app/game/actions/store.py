"""Actions in MongoDB, which the game takes and answers there.

A request stores an action and polls for the answer. Between reads it holds neither a database slot
nor a connection. Only a few threads of a worker wait at the same time: without a free slot, the
request returns at once, before the answer has come.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference

from app.core import metrics
from app.core.changes import Applied, Intent
from app.core.errors import KeyReused, Unavailable
from app.core.limits import Limiter
from app.core.paging import CursorPage
from app.core.request_scope import wait_deadline, working
from app.core.types import Document
from app.game.actions.domain import (
    ANSWER_FIELDS,
    ENDED,
    LETTER,
    LOOKED_WITHIN,
    ActionNotFound,
    CannotWithdraw,
    NoGame,
    Recipient,
    is_answered,
    is_withdrawable,
    new_action,
    request_keys,
    state_of,
    valid_action,
)
from app.storage.client import Storage
from app.storage.errors import explain
from app.storage.fence import ERASURES, require_not_erased
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import (
    FLAG,
    GUID,
    MOMENT,
    MOMENT_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    object_shape,
)

OBJECT: Document = {"bsonType": "object"}
ACTIONS = CollectionPlan(
    "actions",
    object_shape(
        {
            "_id": GUID,
            "Kind": TEXT,
            "Subject": object_shape({"Kind": TEXT, "Id": TEXT_OR_NULL, "Name": TEXT_OR_NULL}),
            "Arguments": OBJECT,
            "At": MOMENT,
            "TakeBefore": MOMENT,
            "By": OBJECT,
            "Via": TEXT,
            "RequestId": TEXT_OR_NULL,
            "Reason": TEXT_OR_NULL,
            "Taken": MOMENT_OR_NULL,
            "TakenBy": TEXT_OR_NULL,
            "Done": MOMENT_OR_NULL,
            "Error": TEXT_OR_NULL,
            "Result": {"bsonType": ["object", "null"]},
        },
        {"TakerId": GUID, "RequestKey": TEXT, "Fingerprint": TEXT_OR_NULL, "ExpiresAt": MOMENT}
        | {"ItemsDue": FLAG, "GivenAt": MOMENT, "Withdrawn": MOMENT},
    ),
    (
        # By expiry time, so that the many lapsed actions are skipped.
        index("waiting", "TakeBefore", partialFilterExpression={"Taken": None}),
        index("items", "Done", partialFilterExpression={"ItemsDue": True}),
        index("time", "At", "_id"),
        index("kind", "Kind", "At", "_id"),
        index("subject", "Subject.Id", "At", "_id"),
        index("author", "By.UserId", "At", "_id"),
        index("request_key", "RequestKey", unique=True, sparse=True),
        expiry(),
    ),
)
# The game servers, each with the time of its last poll for actions.
GAMES = CollectionPlan(
    "games", object_shape({"_id": TEXT, "LookedAt": MOMENT}), (index("looked", "LookedAt"),)
)
WAIT_SECONDS = 2.0
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.1


class ActionFilters(NamedTuple):
    """Which actions a list shows; None: all."""

    subject_id: str | None = None
    kind: str | None = None
    sees_users: bool = True


class Actions:
    def __init__(self, storage: Storage, waiters: int, wait_seconds: float = WAIT_SECONDS) -> None:
        # A secondary may lag behind what a game has just written.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._actions = primary[ACTIONS.name]
        self._games = primary[GAMES.name]
        self._entries = storage.entries
        self._erasures = storage.db[ERASURES.name]
        self._transactions = storage.transactions
        self._waiters = Limiter("Too many requests wait for the game", waiters)
        self.wait_seconds = wait_seconds
        self.now = storage.clock.now

    def ask(self, whom: Recipient, intent: Intent) -> Applied:
        """Store an action for the game, once per Idempotency-Key."""
        step = partial(self._ask, whom, intent)
        return self._transactions.run(step, "action", intent.key is not None)

    def _ask(self, whom: Recipient, intent: Intent) -> Applied:
        if earlier := self._find_earlier(whom, intent):
            return earlier
        subject = whom.find()
        if intent.operation != LETTER and not self.is_game_looking():
            raise NoGame
        now = self.now()
        action = new_action(str(uuid.uuid4()), subject, intent, now)
        named = [subject["Id"]]
        require_not_erased(self._erasures, named, action, players=named)
        self._actions.insert_one({**action, **self._entries.expiry_of(now)})
        return Applied(action)

    def find_earlier(self, whom: Recipient, intent: Intent) -> Applied | None:
        """Return the action of the same request from before; None if it is new."""
        return self._transactions.run(partial(self._find_earlier, whom, intent))

    def _find_earlier(self, whom: Recipient, intent: Intent) -> Applied | None:
        if intent.key is None:
            return None
        found = self._find_as_named(whom, intent)
        if found is None:
            keys = request_keys(whom.find(), intent)
            found = self._actions.find_one({"RequestKey": {"$in": keys}})
        if found is None:
            return None
        found = valid_action(found)
        if (found["Kind"], found.get("Fingerprint")) != (intent.operation, intent.fingerprint):
            raise KeyReused(str(intent.key))
        return Applied(found, replayed=True)

    def _find_as_named(self, whom: Recipient, intent: Intent) -> Document | None:
        """Return the caller's action of the same request, whoever has the name now."""
        begins = re.escape(f"{intent.key} {whom.kind} ")
        where = {"RequestKey": {"$regex": f"^{begins}"}, "By.UserId": intent.origin.user_id}
        for found in self._actions.find(where).hint("request_key"):
            subject = valid_action(found)["Subject"]
            # Another Idempotency-Key may begin like this one.
            if found["RequestKey"] in request_keys(subject, intent) and whom.is_named(subject):
                return found
        return None

    def withdraw(self, action_id: str) -> Document:
        """Withdraw a letter that no game has taken, or a restart that no game has answered.

        Repeating it changes nothing. A game answers a restart only while it is not withdrawn.
        """
        return self._transactions.run(partial(self._withdraw, action_id), "action", has_key=True)

    def _withdraw(self, action_id: str) -> Document:
        action = self.get(action_id)
        if state_of(action, self.now()) == "withdrawn":
            return action
        if not is_withdrawable(action):
            raise CannotWithdraw
        fields: Document = {"Withdrawn": self.now()}
        if action.get("Taken") is None:
            fields |= {"Taken": self.now(), "ItemsDue": False}
        self._actions.update_one({"_id": action_id}, {"$set": fields})
        return {**action, **fields}

    def is_game_looking(self) -> bool:
        """Tell whether a game has polled for actions recently."""
        now = self.now()
        # A time in the future comes from a wrong clock, and would count for too long.
        lately = {"$gte": now - LOOKED_WITHIN, "$lte": now + LOOKED_WITHIN}
        return self._games.find_one({"LookedAt": lately}, ["_id"]) is not None

    def games(self) -> Sequence[Document]:
        """Return the game servers, the one that polled last first."""
        return list(self._games.find({}, sort=[("LookedAt", -1)]).limit(100))

    def wait(self, action: Document) -> Document:
        """Wait until an action is answered or the time is over; return its latest state."""
        if state_of(action, self.now()) not in ENDED:
            # The action is stored and may still be done, so a failed wait is not an error.
            with suppress(Unavailable), working(self._waiters):
                action = self._wait(action)
        metrics.ACTIONS.labels(action["Kind"], state_of(action, self.now())).inc()
        return action

    def _wait(self, action: Document) -> Document:
        def read() -> Document:
            found = self._actions.find_one({"_id": action["_id"]}, list(ANSWER_FIELDS)) or {}
            return {**action, **found}

        try:
            for pause in _pauses(wait_deadline(self.wait_seconds)):
                time.sleep(pause)
                if is_answered(read()):
                    # Until a majority holds the game's answer, it may be rolled back.
                    answered = self._transactions.run(read)
                    if is_answered(answered):
                        return answered
        except PyMongoError as error:
            if not explain(error):
                raise
        return action

    def get(self, action_id: str) -> Document:
        found = self._transactions.find(lambda: self._actions.find_one({"_id": action_id}))
        if found is None:
            raise ActionNotFound(action_id)
        return valid_action(found)

    def list(self, filters: ActionFilters, size: int, after: bytes) -> CursorPage:
        page = newest_first.read(self._actions, _query(filters), filters, size, after)
        return page._replace(values=[*map(valid_action, page.values)])

    def of_person(self, ids: Sequence[str], user_id: str) -> Iterator[Document]:
        """Yield the actions about some documents, and those that an account requested."""
        where = {"$or": [{"Subject.Id": {"$in": ids}}, {"By.UserId": user_id}]}
        yield from map(valid_action, self._actions.find(where, sort=NEWEST_FIRST))


def _pauses(deadline: float) -> Iterator[float]:
    """Yield growing pauses until a time."""
    pause = FIRST_PAUSE
    while (left := deadline - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _query(filters: ActionFilters) -> Document:
    where: Document = {}
    if filters.subject_id is not None:
        where["Subject.Id"] = filters.subject_id
    if filters.kind is not None:
        where["Kind"] = filters.kind
    if not filters.sees_users:
        where["Subject.Kind"] = {"$ne": "user"}
    return where
