"""Actions for games without a MongoDB driver, which take and answer them by HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from app.core.changes import Intent, Origin
from app.core.errors import Conflict, Invalid, InvalidField, NotFound
from app.core.naming import Lookup
from app.core.types import Document, is_deep
from app.game.actions.domain import (
    LETTER,
    LOOKED_WITHIN,
    ActionNotFound,
    ActionWithdrawn,
    AnsweredOtherwise,
    NotTaken,
)
from app.game.actions.store import ACTIONS, GAMES
from app.players.items.operations import GIVE
from app.players.items.store import Catalogue
from app.players.items.transfers.domain import receive
from app.players.items.undo import CONTAINERS
from app.players.store import Players
from app.storage.bulk import encode
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people

LARGEST_RESULT, DEEPEST = 4096, 20
# Requests choose the names of game servers freely, so each account keeps only so many, for so long.
MOST_GAMES = 100
FORGOTTEN_AFTER = timedelta(days=30)
# Letters whose items are to be given.
DELIVERED = {"ItemsDue": True, "Done": {"$type": "date"}, "Error": None}


class Taker(NamedTuple):
    """A game server: its name, its account, and whether that account may see users."""

    game: str
    account_id: str
    sees_users: bool


class TakenActions:
    """The actions of one application, for its game servers."""

    def __init__(self, storage: Storage) -> None:
        self._actions = storage.db[ACTIONS.name]
        self._games = storage.db[GAMES.name]
        self._transactions = storage.transactions
        self.now = storage.clock.now

    def look(self, taker: Taker) -> None:
        """Store that a game server polls for actions."""
        update = {"$set": {"LookedAt": self.now(), "AccountId": taker.account_id}}
        try:
            noted = self._games.update_one({"_id": taker.game}, update, upsert=True)
        except DuplicateKeyError:  # another request has just inserted it
            noted = self._games.update_one({"_id": taker.game}, update)
        if noted.upserted_id is not None:
            self._forget(taker.account_id)

    def _forget(self, account_id: str) -> None:
        """Delete game servers that stopped polling long ago, and the oldest of an account."""
        self._games.delete_many({"LookedAt": {"$lt": self.now() - FORGOTTEN_AFTER}})
        own = self._games.find({"AccountId": account_id}, ["_id"], sort=[("LookedAt", -1)])
        beyond = [game["_id"] for game in own.skip(MOST_GAMES)]
        if beyond:
            self._games.delete_many({"_id": {"$in": beyond}})

    def take(self, taker: Taker, most: int, player_ids: Sequence[str] = ()) -> Sequence[Document]:
        """Take the oldest open actions for a game server, or the letters to these players."""
        taken: Sequence[Document] = []
        while len(taken) < most and (action := self._take_one(taker, player_ids)):
            taken = [*taken, action]
        return taken

    def _take_one(self, taker: Taker, player_ids: Sequence[str]) -> Document | None:
        now = self.now()
        whose: Document = {} if taker.sees_users else {"Subject.Kind": {"$ne": "user"}}
        where = {"TakeBefore": {"$gt": now}, **whose}
        if player_ids:
            where = {"Kind": LETTER, "Subject.Id": {"$in": list(player_ids)}}
        return self._actions.find_one_and_update(
            {"Taken": None, **where},
            {"$set": {"Taken": now, "TakenBy": taker.game, "TakerId": taker.account_id}},
            sort=[("TakeBefore", 1)],
            return_document=ReturnDocument.AFTER,
        )

    def unanswered(self, taker: Taker, most: int) -> Sequence[Document]:
        """Return recent actions that a game server took and has not answered; it may miss them."""
        lately = {**_taken_by(taker), "Done": None, "Error": None, "Withdrawn": None}
        recent = {"At": {"$gt": self.now() - 2 * LOOKED_WITHIN}}
        since = {"$or": [recent, {"Kind": LETTER}]}
        return list(self._actions.find({**since, **lately}, sort=[("At", 1)]).limit(most))

    def answer(
        self, action_id: str, taker: Taker, error: str | None, result: Document | None
    ) -> Document:
        """Store the answer to an action that a game server has taken; idempotent."""
        _require_small(result)
        said: Document = {"Error": error, "Result": result}
        step = partial(self._answer, action_id, taker, said)
        return self._transactions.run(step, "action", has_key=True)

    def _answer(self, action_id: str, taker: Taker, said: Document) -> Document:
        action = self._actions.find_one({"_id": action_id})
        if action is None:
            raise ActionNotFound(action_id)
        if any(action.get(name) != value for name, value in _taken_by(taker).items()):
            raise NotTaken(action_id, taker.game)
        if action.get("Withdrawn"):
            raise ActionWithdrawn(action_id)
        if action.get("Done") is not None or action.get("Error") is not None:
            if any(action.get(name) != value for name, value in said.items()):
                raise AnsweredOtherwise(action_id)
            return action
        answered = {**said, "Done": None if said["Error"] else self.now()}
        self._actions.update_one({"_id": action_id}, {"$set": answered})
        return {**action, **answered}


class Letters:
    """Gives players the items of letters that the game has delivered.

    Until the game writes Done, the items belong to the letter. Then one transaction gives them and
    notes so in the letter. Whoever finds that they are due does it: the request that brings the
    answer, or a worker, if a game with a driver has answered or there was no room.
    """

    def __init__(self, storage: Storage, players: Players, catalogue: Catalogue) -> None:
        self._actions = storage.db[ACTIONS.name]
        self._erasures = storage.db[ERASURES.name]
        self._transactions = storage.transactions
        self._players, self._catalogue, self._now = players, catalogue, storage.clock.now

    def give_due(self) -> None:
        """Give the items of all letters that were delivered, where the player has room."""
        for letter in self._actions.find(DELIVERED, ["_id"]):
            with suppress(Conflict, NotFound):
                self.give(letter["_id"])

    def give(self, letter_id: str) -> None:
        """Give the items of a letter if it was delivered; raise while the player has no room."""
        self._transactions.run(partial(self._give, letter_id), "letter", has_key=True)

    def _give(self, letter_id: str) -> None:
        letter = self._actions.find_one({"_id": letter_id, **DELIVERED})
        if letter is None:
            return
        by, items = letter["By"], letter["Arguments"]["Items"]
        if erased_people(self._erasures, [by["UserId"]]):
            sender = Origin(None, "", "service")
        else:
            via, why = letter["Via"], letter["Reason"]
            sender = Origin(by["UserId"], by["Name"], via, None, why, by.get("Key"))
        # Filters and reports look at one item, as of a gift.
        only = {name: items[0][name] for name in ("ItemId", "Quantity") if len(items) == 1}
        # Clients send keys of ASCII only.
        meant = Intent(GIVE.name, sender, {"Letter": letter_id, **only}, key=f"✉{letter_id}")
        came = [{"Path": "Inventory", "Before": item, "After": None} for item in items]
        limits = self._catalogue.limits
        rule = partial(receive, changes=came, bankoverflow=True, limits_of=limits)
        self._players.change(Lookup.parse(letter["Subject"]["Id"]), CONTAINERS, rule, meant)
        given = {"ItemsDue": False, "GivenAt": self._now()}
        self._actions.update_one({"_id": letter_id}, {"$set": given})


def _taken_by(taker: Taker) -> Document:
    """Return the filter of actions that this server has taken, not another of the same name."""
    return {"TakenBy": taker.game, "TakerId": taker.account_id}


def _require_small(result: Document | None) -> None:
    """Raise Invalid for a result that MongoDB cannot store, or that is too large for a page."""
    try:
        is_large = is_deep(result, DEEPEST) or len(encode({"Result": result})) > LARGEST_RESULT
    except Invalid:
        fault = "Holds a name or a number that cannot be stored."
        raise InvalidField("Result", fault) from None
    if is_large:
        limits = f"{LARGEST_RESULT} bytes and {DEEPEST} levels"
        raise InvalidField("Result", f"Must be small: {limits} at most.")
