"""Actions in MongoDB, which the game takes and answers there, or by HTTP.

A request stores an action and polls for the answer. Between reads it holds neither a database slot
nor a connection. Only a few threads of a worker wait at the same time: without a free slot, the
request returns at once, before the answer has come.

Until the game has delivered a letter, its items belong to the letter. Then a worker gives them, in
one transaction that also notes so in the letter, as soon as there is room.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from pymongo import ReturnDocument
from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference

from app.core.changes import Applied, Intent, Origin
from app.core.errors import Conflict, KeyReused, NotFound, Unavailable
from app.core.limits import Limiter, wait_deadline, working
from app.core.naming import Lookup
from app.core.paging import CursorPage, map_page
from app.core.services import current
from app.core.types import Document
from app.game.actions.domain import (
    ANSWER_FIELDS,
    ENDED,
    LETTER,
    LOOKED_WITHIN,
    RESTART,
    ActionWithdrawn,
    AnsweredOtherwise,
    CannotWithdraw,
    NoGame,
    NotTaken,
    is_answered,
    new_action,
    request_key,
    same_name,
    state_of,
)
from app.players.domain import SLOT
from app.players.items.domain import CONTAINERS, receive
from app.players.items.operations import GIVE
from app.players.items.store import Catalogue
from app.players.store import Players
from app.storage.client import Storage
from app.storage.errors import explain
from app.storage.fence import ERASURES, erased_people, require_not_erased
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import (
    ARRAY,
    FLAG,
    GUID,
    MOMENT,
    MOMENT_OR_NULL,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    object_shape,
)

ACTIONS = CollectionPlan(
    "actions",
    object_shape(
        {
            "_id": GUID,
            "Kind": TEXT,
            "Subject": object_shape({"Kind": TEXT, "Id": TEXT_OR_NULL, "Name": TEXT_OR_NULL}),
            "Arguments": {**OBJECT, "properties": {"Items": {**ARRAY, "items": SLOT}}},
            "At": MOMENT,
            "TakeBefore": MOMENT,
            "By": object_shape(
                {"UserId": TEXT_OR_NULL, "Name": TEXT_OR_NULL}, {"Key": TEXT_OR_NULL}
            ),
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
# The game servers, each with the time of its last poll for actions. Requests choose their names
# freely, so the database forgets them after a month.
GAMES = CollectionPlan(
    "games",
    object_shape({"_id": TEXT, "LookedAt": MOMENT}),
    (index("looked", "LookedAt", expireAfterSeconds=30 * 24 * 3600),),
)
WAIT_SECONDS = 2.0
PAUSE_SECONDS = 0.04
# Letters whose items are to be given.
DELIVERED = {"ItemsDue": True, "Done": {"$type": "date"}, "Error": None}


class Actions:
    def __init__(
        self, storage: Storage, players: Players, catalogue: Catalogue, waiters: int
    ) -> None:
        # A secondary may lag behind what a game has just written.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._actions = primary[ACTIONS.name]
        self._games = primary[GAMES.name]
        self._erasures = primary[ERASURES.name]
        self._entries = storage.entries
        self._transactions = storage.transactions
        self._players, self._catalogue = players, catalogue
        self._waiters = Limiter("Too many requests wait for the game", waiters)
        self.wait_seconds = WAIT_SECONDS
        self.now = storage.clock.now

    def ask(self, subject: Document, intent: Intent) -> Applied:
        """Store an action for the game, once per Idempotency-Key."""

        def step() -> Applied:
            if earlier := self.find_earlier(subject, intent):
                return earlier
            if intent.operation != LETTER and not self.is_game_looking():
                raise NoGame
            now = self.now()
            action = new_action(str(uuid.uuid4()), subject, intent, now)
            named = [subject["Id"]]
            require_not_erased(self._erasures, named, action, players=named)
            self._actions.insert_one({**action, **self._entries.expiry_of(now)})
            return Applied(action)

        return self._transactions.run(step, "action", intent.key is not None)

    def find_earlier(self, subject: Document, intent: Intent) -> Applied | None:
        """Return the action of the same request from before; None if it is new."""
        action = self.find_same_key(subject, intent)
        if action is None:
            return None
        if (action["Kind"], action["Fingerprint"]) != (intent.operation, intent.fingerprint):
            raise KeyReused(str(intent.key))
        return Applied(action, replayed=True)

    def find_same_key(self, subject: Document, intent: Intent) -> Document | None:
        """Return the action that was asked for with the same Idempotency-Key, if any.

        A retry that names its subject must not reach somebody else who has that name by now.
        """
        if intent.key is None:
            return None
        begin = re.escape(f"{intent.key} {subject['Kind']} ")
        own_key, author = request_key(subject, intent), intent.origin.user_id

        def read() -> list[Document]:
            keyed = self._actions.find({"RequestKey": {"$regex": f"^{begin}[^ ]*$"}})
            return [*map(ACTIONS.readable, keyed.hint("request_key"))]

        found = self._transactions.run(read)
        for action in found:
            if action["RequestKey"] == own_key:
                return action
        for action in found:
            if action["By"]["UserId"] == author and same_name(action["Subject"], subject):
                return action
        return None

    def withdraw(self, action_id: str) -> Document:
        """Withdraw a letter that no game has taken, or a restart that no game has answered.

        Repeating it changes nothing. A game answers a restart only while it is not withdrawn.
        """

        def step() -> Document:
            action = self.get(action_id)
            if state_of(action, self.now()) == "withdrawn":
                return action
            # A game with a driver may answer without having taken it.
            is_waiting = action["Kind"] == LETTER and action["Taken"] is None
            if is_answered(action) or not (is_waiting or action["Kind"] == RESTART):
                raise CannotWithdraw
            fields: Document = {"Withdrawn": self.now()}
            if action["Taken"] is None:
                fields |= {"Taken": self.now(), "ItemsDue": False}
            self._actions.update_one({"_id": action_id}, {"$set": fields})
            return {**action, **fields}

        return self._transactions.run(step, "action", has_key=True)

    def games(self) -> Sequence[Document]:
        """Return the game servers, the one that polled last first."""
        found = self._games.find({}, sort=[("LookedAt", -1)]).limit(100)
        return [*map(GAMES.readable, found)]

    def is_game_looking(self) -> bool:
        """Tell whether a game has polled for actions recently.

        A time in the future comes from a wrong clock, and would count for too long.
        """
        now = self.now()
        recently = {"$gte": now - LOOKED_WITHIN, "$lte": now + LOOKED_WITHIN}
        return self._games.find_one({"LookedAt": recently}, ["_id"]) is not None

    def wait(self, action: Document) -> Document:
        """Wait until an action is answered or the time is over; return its latest state."""

        def read() -> Document:
            found = self._actions.find_one({"_id": action["_id"]}, list(ANSWER_FIELDS)) or {}
            return {**action, **ACTIONS.readable(found, ())}

        if state_of(action, self.now()) in ENDED:
            return action
        deadline = wait_deadline(self.wait_seconds)
        # The action is stored and may still be done, so a failed wait is not an error.
        with suppress(Unavailable), working(self._waiters):
            try:
                while (left := deadline - time.monotonic()) > 0:
                    time.sleep(min(PAUSE_SECONDS, left))
                    # Until a majority holds the game's answer, it may be rolled back.
                    if is_answered(read()) and is_answered(found := self._transactions.run(read)):
                        return found
            except PyMongoError as error:
                if not explain(error):
                    raise
        return action

    def get(self, action_id: str) -> Document:
        found = self._transactions.find(lambda: self._actions.find_one({"_id": action_id}))
        if found is None:
            raise NotFound("action", action_id)
        return ACTIONS.readable(found)

    def list(self, where: Document, size: int, after: bytes = b"") -> CursorPage:
        """Return a page of the actions that match a filter, the newest first."""
        page = newest_first.read(self._actions, where, where, size, after)
        return map_page(ACTIONS.readable, page)

    def of_person(self, ids: Sequence[str], user_id: str) -> Iterator[Document]:
        """Yield the actions about some documents, and those that an account requested."""
        where = {"$or": [{"Subject.Id": {"$in": ids}}, {"By.UserId": user_id}]}
        yield from map(ACTIONS.readable, self._actions.find(where, sort=NEWEST_FIRST))

    # A taker is what a game server writes into the actions that it takes: TakenBy and TakerId, its
    # account, which tells it from another server of the same name.

    def look(self, taker: Document) -> None:
        """Store that a game server polls for actions."""
        update = {"$set": {"LookedAt": self.now(), "AccountId": taker["TakerId"]}}
        self._games.update_one({"_id": taker["TakenBy"]}, update, upsert=True)

    def take(
        self, taker: Document, most: int, sees_users: bool, player_ids: Sequence[str] = ()
    ) -> Sequence[Document]:
        """Take the oldest open actions for a game server, or the letters to these players."""
        now = self.now()
        where: Document = {"TakeBefore": {"$gt": now}}
        if not sees_users:
            where["Subject.Kind"] = {"$ne": "user"}
        if player_ids:
            where = {"Kind": LETTER, "Subject.Id": {"$in": list(player_ids)}}
        taken: list[Document] = []
        while len(taken) < most:
            action = self._actions.find_one_and_update(
                {"Taken": None, **where},
                {"$set": {"Taken": now, **taker}},
                sort=[("TakeBefore", 1)],
                return_document=ReturnDocument.AFTER,
            )
            if action is None:
                break
            taken.append(ACTIONS.readable(action))
        return taken

    def unanswered(self, taker: Document, most: int) -> Sequence[Document]:
        """Return recent actions that a game server took and has not answered; it may miss them."""
        recent = {"At": {"$gt": self.now() - 2 * LOOKED_WITHIN}}
        where = {**taker, "Done": None, "Error": None, "Withdrawn": None}
        where["$or"] = [recent, {"Kind": LETTER}]
        found = self._actions.find(where, sort=[("At", 1)]).limit(most)
        return [*map(ACTIONS.readable, found)]

    def answer(
        self, action_id: str, taker: Document, error: str | None, result: Document | None
    ) -> Document:
        """Store the answer to an action that a game server has taken; idempotent."""
        said: Document = {"Error": error, "Result": result}

        def step() -> Document:
            action = self.get(action_id)
            if not taker.items() <= action.items():
                raise NotTaken(action_id, taker["TakenBy"])
            if action.get("Withdrawn"):
                raise ActionWithdrawn(action_id)
            if is_answered(action):
                if any(action[name] != value for name, value in said.items()):
                    raise AnsweredOtherwise(action_id)
                return action
            answered = {**said, "Done": None if error else self.now()}
            self._actions.update_one({"_id": action_id}, {"$set": answered})
            return {**action, **answered}

        return self._transactions.run(step, "action", has_key=True)

    def give_due(self) -> None:
        """Give the items of all letters that were delivered, where the player has room."""
        for letter in self._actions.find(DELIVERED, ["_id"]):
            give = partial(self._give, letter["_id"])
            with suppress(Conflict, NotFound):
                self._transactions.run(give, "letter", has_key=True)

    def _give(self, letter_id: str) -> None:
        stored = self._actions.find_one({"_id": letter_id, **DELIVERED})
        if stored is None:
            return
        letter = ACTIONS.readable(stored)
        by, items = letter["By"], letter["Arguments"].get("Items", [])
        sender = Origin(
            by["UserId"], by["Name"], letter["Via"], None, letter["Reason"], by.get("Key")
        )
        if erased_people(self._erasures, [by["UserId"]]):
            sender = Origin(None, "", letter["Via"])
        # Filters and reports look at one item, as of a gift.
        only = {name: items[0][name] for name in ("ItemId", "Quantity") if len(items) == 1}
        # Clients send keys of ASCII only.
        meant = Intent(GIVE.name, sender, {"Letter": letter_id, **only}, key=f"✉{letter_id}")
        limits = self._catalogue.limits
        rule = partial(receive, held=items, bankoverflow=True, limits_of=limits)
        self._players.change(Lookup.parse(letter["Subject"]["Id"]), CONTAINERS, rule, meant)
        given = {"ItemsDue": False, "GivenAt": self.now()}
        self._actions.update_one({"_id": letter_id}, {"$set": given})


actions = current(Actions)
