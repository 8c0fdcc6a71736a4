"""Players in MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from app.changes import Applied, Intent, Rule
from app.errors import NotFound
from app.keys import Lookup
from app.paging import Page, Window
from app.players.domain import (
    RECORD,
    SHAPE,
    SUBJECT,
    served,
    with_changeable_maps,
    with_maps,
)
from app.storage.client import Storage, by_key
from app.storage.journal import UNMOVED
from app.storage.paging.orders import Order
from app.storage.paging.pages import Pages
from app.storage.paging.totals import CachedNumber
from app.storage.schema.plan import CollectionPlan, index
from app.storage.timing import aggregate
from app.types import Document, whole

# The orders of lists, by field and whether ascending, each with the index that holds it.
ORDERS = {
    ("name", True): Order("name", [("NameKey", 1)]),
    ("name", False): Order("name", [("NameKey", -1)]),
    ("level", True): Order("rank_ascending", [("Level", 1), ("Exp", 1), ("NameKey", 1)]),
    ("level", False): Order("rank", [("Level", -1), ("Exp", -1), ("NameKey", 1)]),
    ("lastonline", True): Order("last_online", [("LastOnline", 1), ("NameKey", 1)]),
    ("lastonline", False): Order("last_online", [("LastOnline", -1), ("NameKey", -1)]),
}
BY_CREATION = [("CreationDate", 1), ("_id", 1)]
# JSON has no larger integer.
LARGEST_TOTAL = 2**63 - 1
ONLINE_ONLY = {"partialFilterExpression": {"Online": True}}
PLAYERS = CollectionPlan(
    "players",
    SHAPE,
    (
        UNMOVED,
        index("name", "NameKey", unique=True),
        index("name_tails", "NameTails", "NameKey"),
        index("user", "UserId", "CreationDate", "_id"),
        # Equals go by name in both directions, so neither order is the other read backwards.
        index("rank", "-Level", "-Exp", "NameKey"),
        index("rank_ascending", "Level", "Exp", "NameKey"),
        index("last_online", "LastOnline", "NameKey"),
        # Online, though always true here, is a key so that the index covers a count.
        index("online_by_name", "Online", "NameKey", "LastSeen", **ONLINE_ONLY),
        index("online_by_time", "Online", "LastSeen", **ONLINE_ONLY),
    ),
)


class Identity(NamedTuple):
    """Who a player is; a game may have stored no account."""

    id: str
    name: str
    user_id: str | None


class Players:
    """The player characters of one application."""

    def __init__(self, storage: Storage, online_ttl: int, total_seconds: float) -> None:
        self._players = storage.db[PLAYERS.name]
        self._swapper = storage.swapper(SUBJECT)
        self._pages = Pages(self._players, total_seconds)
        self.count = self._pages.total
        self._online_ttl = timedelta(seconds=online_ttl)
        self.count_online = CachedNumber(total_seconds, self._count_online).get

    def get(self, key: Lookup) -> Document:
        """Return the record of a player."""
        return served(self._read(key, RECORD), self._online_since())

    def get_id(self, key: Lookup) -> str:
        """Return the id of a player."""
        id_: str = self._read(key, {"_id": 1})["_id"]
        return id_

    def identity(self, key: Lookup) -> Identity:
        """Return the id and the name of a player, and the account that plays it."""
        player = self._read(key, {"Name": 1, "UserId": 1})
        user_id = player.get("UserId")
        return Identity(
            player["_id"], str(player.get("Name")), user_id if isinstance(user_id, str) else None
        )

    def get_many(self, ids: Sequence[str], *fields: str) -> dict[str, Document]:
        """Return these fields of some players by id."""
        found = self._players.find({"_id": {"$in": ids}}, list(fields))
        return {player["_id"]: player for player in found}

    def play_times(self, user_ids: Sequence[str]) -> dict[str, int]:
        """Return by user how many seconds all of its characters were played."""
        played = self._players.find({"UserId": {"$in": user_ids}}, ["UserId", "PlayTimeSeconds"])
        totals = dict.fromkeys(user_ids, 0)
        for player in played:
            totals[player["UserId"]] += whole(player.get("PlayTimeSeconds")) or 0
        return {user_id: min(total, LARGEST_TOTAL) for user_id, total in totals.items()}

    def read(self, key: Lookup, *fields: str) -> Document:
        """Return these maps of a player only, empty if they are missing."""
        return with_maps(self._read(key, dict.fromkeys(fields, 1)))

    def list(
        self, window: Window, search: str | None = None, order: str = "name", ascending: bool = True
    ) -> Page:
        """Return a page of players, of those whose name holds the searched text if any."""
        wanted = ORDERS[order, ascending]
        if search:
            found = self._pages.search(window, wanted, RECORD, search)
        else:
            found = self._pages.read(window, wanted, RECORD)
        return _served(found, self._online_since())

    def list_online(self, window: Window) -> Page:
        """Return a page of those who are online, by name."""
        since = self._online_since()
        found = self._pages.filtered(window, ORDERS["name", True], RECORD, _online(since))
        return _served(found, since)

    def list_of_user(self, user_id: str) -> Sequence[Document]:
        """Return all characters of a user, in the order in which they were made."""
        since = self._online_since()
        found = self._players.find({"UserId": user_id}, RECORD, sort=BY_CREATION)
        return [served(player, since) for player in found]

    def get_of_user(self, user_id: str, key: Lookup) -> Document:
        """Return one character of a user: by id, else by name, else by place in the list."""
        own = {"UserId": user_id}
        player = self._players.find_one({**by_key(key), **own}, RECORD)
        if player is None and key.text.isascii() and key.text.isdecimal() and len(key.text) < 10:
            found = self._players.find(own, RECORD, sort=BY_CREATION).skip(int(key.text)).limit(1)
            player = next(found, None)
        if player is None:
            raise NotFound("player", key)
        return served(player, self._online_since())

    def count_by_level(self) -> dict[int, int]:
        """Return how many players have each level. It walks the whole index of levels."""
        by_level = {"$group": {"_id": "$Level", "Count": {"$sum": 1}}}
        # Sorted, so that the index covers it.
        found = aggregate(self._players, [{"$sort": {"Level": -1}}, by_level], "rank")
        counts = {whole(group["_id"]): group["Count"] for group in found}
        # A game may have stored what is no level.
        return {level: count for level, count in counts.items() if level is not None}

    def _count_online(self) -> int:
        return self._players.count_documents(_online(self._online_since()))

    def change(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to these fields of a player, exactly once."""
        try:
            return self._swapper.swap(by_key(key), reads, _on_maps(rule), intent)
        except NotFound as error:
            raise _asked_for(error, key) from None

    def preview(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document:
        """Return the entry that a change of a player would have, without changing anything."""
        try:
            return self._swapper.preview(by_key(key), reads, _on_maps(rule), intent)
        except NotFound as error:
            raise _asked_for(error, key) from None

    def _read(self, key: Lookup, fields: Document) -> Document:
        player = self._players.find_one(by_key(key), fields)
        if player is None:
            raise NotFound("player", key)
        return player

    def _online_since(self) -> datetime | None:
        """Return since when a player must have been seen to count as online; None: no limit."""
        return datetime.now(timezone.utc) - self._online_ttl if self._online_ttl else None


def _asked_for(error: NotFound, key: Lookup) -> NotFound:
    """Return the error with the key that the caller asked for; an entry to undo has its own."""
    return NotFound("player", key) if error.kind == "player" else error


def _on_maps(rule: Rule) -> Rule:
    return lambda player: rule(with_changeable_maps(player))


def _served(page: Page, since: datetime | None) -> Page:
    return page._replace(values=[served(player, since) for player in page.values])


def _online(since: datetime | None) -> Document:
    return {"Online": True, "LastSeen": {"$gte": since}} if since else {"Online": True}
