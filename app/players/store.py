"""Players in MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from app.core.changes import Applied, Intent, Rule
from app.core.errors import NotFound, OutcomeUnknown
from app.core.naming import KEY_PATH, Lookup, name_key
from app.core.paging import Page, Window, map_page
from app.core.services import current
from app.core.types import Document, decimal, whole
from app.players.domain import (
    DELETED_AT,
    NAME_FIELDS,
    RECORD,
    SHAPE,
    SUBJECT,
    NotKept,
    PlayerIsBack,
    PlayerNameTaken,
    PlayerOnline,
    WasDeleted,
    WasErased,
    is_online,
    public_player,
    save,
    with_changeable_maps,
    with_maps,
)
from app.storage.client import Storage, begins, by_key, name_contains
from app.storage.documents import BY_NAME, NAME_INDEXES, NamedDocuments
from app.storage.errors import explain
from app.storage.fence import erased_people
from app.storage.history import NOTED
from app.storage.paging.orders import order
from app.storage.paging.pages import NAME_TAILS
from app.storage.paging.totals import cached_number
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import GUID, MOMENT, object_shape

ORDERS = {
    **BY_NAME,
    ("level", True): order("rank_ascending", "Level", "Exp", "NameKey"),
    ("level", False): order("rank", "-Level", "-Exp", "NameKey"),
    ("lastonline", True): order("last_online", "LastOnline", "NameKey"),
    ("lastonline", False): order("last_online", "-LastOnline", "-NameKey"),
}
ONLINE_ONLY = {"partialFilterExpression": {"Online": True}}
PLAYERS = CollectionPlan(
    "players",
    SHAPE,
    (
        NOTED,
        *NAME_INDEXES,
        index("user", "UserId", "CreationDate", "_id"),
        # Ties are sorted by name in both directions, so neither order is the reverse of the other.
        index("rank", "-Level", "-Exp", "NameKey"),
        index("rank_ascending", "Level", "Exp", "NameKey"),
        index("last_online", "LastOnline", "NameKey"),
        index("created", "CreationDate"),
        # Online is always true here, but as a key it lets the index cover a count.
        index("online_by_name", "Online", "NameKey", "LastSeen", **ONLINE_ONLY),
        index("online_by_time", "Online", "LastSeen", **ONLINE_ONLY),
    ),
)


# Copies of deleted players, kept for as long as history, so that a deletion can be undone.
DELETED_PLAYERS = CollectionPlan(
    "deleted_players",
    object_shape(
        {"_id": GUID, "NameKey": {}, "UserId": {}, "DeletedAt": MOMENT, "Player": {}},
    ),
    (
        index("name", "NameKey"),
        index("former_name", f"Player.{KEY_PATH}", sparse=True),
        index("user", "UserId"),
        expiry(),
    ),
)


class Identity(NamedTuple):
    """The identity of a player; a game may have stored no account."""

    id: str
    name: str
    user_id: str | None


class Players(NamedDocuments):
    orders = ORDERS
    record = RECORD
    record_with_former_names = {name: 0 for name in RECORD if name != "FormerNames"}

    def __init__(self, storage: Storage, online_ttl: int, total_seconds: float) -> None:
        super().__init__(storage, SUBJECT, total_seconds, {"NameKey": lambda _: PlayerNameTaken()})
        self._deleted = storage.db[DELETED_PLAYERS.name]
        self._online_ttl = timedelta(seconds=online_ttl)
        self.count_online = cached_number(
            total_seconds, lambda: self._documents.count_documents(self._online())
        )

    def get(self, key: Lookup, *more: str) -> Document:
        """Return a record, with more fields than those that are served with it."""
        fields = {name: shown for name, shown in RECORD.items() if name not in more}
        return self.present(self._read(key, fields))

    def get_id_ever(self, key: Lookup) -> str:
        """Return the id of a player, or of a deleted one of which a copy is kept."""
        try:
            return self.get_id(key)
        except NotFound:
            found = self._deleted.find_one(by_key(key), ["_id"], sort=[("DeletedAt", -1)])
            if found is None:
                raise
            return str(found["_id"])

    def find_former(self, key: Lookup) -> Sequence[Document]:
        deleted = self._deleted.find({f"Player.{KEY_PATH}": key.name_key}, ["_id"])
        return [*super().find_former(key), *deleted]

    def find_deleted(self, key: Lookup, limit: int) -> Sequence[Document]:
        """Return copies of deleted players: by id, or whose name begins with a text."""
        where = {"_id": key.id} if key.id else {"NameKey": begins(key.name_key or "")}
        fields = ["Player.Name", "Player.Level", "Player.ClassName", "DeletedAt"]
        found = self._deleted.find(where, fields, sort=[("NameKey", 1)])
        return list(found.limit(limit))

    def identity(self, key: Lookup) -> Identity:
        """Return the id, the name and the account of a player."""
        return _identity(self._read(key, {"Name": 1, "UserId": 1}))

    def play_times(self, user_ids: Sequence[str]) -> dict[str, int]:
        """Return by user the total seconds that its characters were played."""
        played = self._documents.find({"UserId": {"$in": user_ids}}, ["UserId", "PlayTimeSeconds"])
        totals = dict.fromkeys(user_ids, 0)
        for player in played:
            totals[player["UserId"]] += whole(player.get("PlayTimeSeconds")) or 0
        # The largest int64; the JSON encoder does not accept arbitrarily large integers.
        return {user_id: min(total, 2**63 - 1) for user_id, total in totals.items()}

    def read(self, key: Lookup, *fields: str) -> Document:
        """Return only these maps of a player; a missing one is empty."""
        return with_maps(self._read(key, dict.fromkeys(fields, 1)))

    def list_online(
        self, window: Window, search: str | None = None, order: str = "name", ascending: bool = True
    ) -> Page:
        """Return a page of the players who are online, or of those whose name contains a text."""
        where = {**self._online(), **name_contains(search)}
        page = self._pages.read_filtered(window, ORDERS[order, ascending], RECORD, where)
        return map_page(self.present, page)

    def walk_online(self, window: Window) -> Page:
        """Return the next page of the players who are online, by name, and how many they are."""
        index, where = "online_by_name", {**self._online(), "Online": {"$eq": True}}
        page = self._pages.walk(window, ORDERS["name", True], RECORD, where, index, index)
        return map_page(self.present, page)._replace(total=self.count_online())

    def find_ids(self, search: str | None, is_online: bool, most: int) -> Sequence[str]:
        """Return by name the ids of some players whose name contains a text, or who are online."""
        where = {**(self._online() if is_online else {}), **name_contains(search)}
        hint = "online_by_name" if is_online else NAME_TAILS if search else "name"
        found = self._documents.find(where, ["_id"], sort=[("NameKey", 1)]).hint(hint)
        return [player["_id"] for player in found.limit(most)]

    def list_of_ids(self, ids: Sequence[str], window: Window) -> Page:
        """Return a page of these players, by name."""
        page = self._pages.read_filtered(
            window, ORDERS["name", True], RECORD, {"_id": {"$in": ids}}
        )
        return map_page(self.present, page)

    def list_of_user(self, user_id: str) -> Sequence[Document]:
        """Return all characters of a user, in the order in which they were made."""
        by_creation = [("CreationDate", 1), ("_id", 1)]
        found = self._documents.find({"UserId": user_id}, RECORD, sort=by_creation)
        return [*map(self.present, found)]

    def get_of_user(self, user_id: str, key: Lookup) -> Document:
        """Return one character of a user: by id, else by name, else by place in the list."""
        characters, place = self.list_of_user(user_id), decimal(key.text)
        for player in characters:
            if player["Id"] == key.id or name_key(str(player.get("Name", ""))) == key.name_key:
                return player
        if place is None or place >= len(characters):
            raise NotFound("player", key)
        return characters[place]

    def count_by_level(self) -> dict[int, int]:
        """Return how many players have each level. This scans the whole index of levels."""
        by_level = {"$group": {"_id": "$Level", "Count": {"$sum": 1}}}
        # The sort makes MongoDB use the index, which covers the query.
        found = self._documents.aggregate([{"$sort": {"Level": -1}}, by_level], hint="rank")
        counts = {whole(group["_id"]): group["Count"] for group in found}
        # A game may have stored invalid levels.
        return {level: count for level, count in counts.items() if level is not None}

    def count_active(self, since: datetime) -> int:
        """Return how many players were online since a time."""
        seen = {"$gte": since}
        still = {**self._online(), "LastOnline": {"$not": seen}}
        counts = map(self._documents.count_documents, ({"LastOnline": seen}, still))
        return sum(counts)

    def identify_many(self, keys: Sequence[Lookup]) -> dict[Lookup, Identity]:
        """Return the identities of the players that exist, by lookup key."""
        by_id = {"_id": {"$in": [key.id for key in keys if key.id]}}
        by_name = {"NameKey": {"$in": [key.name_key for key in keys if key.name_key]}}
        found: dict[Any, Identity] = {}
        for player in self._documents.find(
            {"$or": [by_id, by_name]}, ["Name", "NameKey", "UserId"]
        ):
            found[player["_id"]] = found[player.get("NameKey")] = _identity(player)
        return {key: found[text] for key in keys if (text := key.id or key.name_key) in found}

    def save(
        self,
        player_id: str,
        fields: Document,
        version: int | None,
        intent: Intent,
        new: Callable[[], Document],
        unrecorded: Sequence[str] = (),
    ) -> tuple[Applied, bool]:
        """Set fields of a player from its game, or insert it; return whether it is new."""
        # Without an entry, a repeated request could not be recognised by its key.
        unrecorded = unrecorded if intent.key is None else ()
        is_unrecorded = bool(fields) and fields.keys() <= {*unrecorded}
        if is_unrecorded and (saved := self._save_unrecorded(player_id, fields, version)):
            return saved, False
        key = Lookup.parse(player_id)

        def step() -> Applied:
            if erased_people(self._erasures, [fields.get("UserId"), player_id]):
                raise WasErased
            rule = partial(save, fields=fields, version=version, unrecorded=unrecorded)
            derived = NAME_FIELDS if "Name" in fields else ()
            try:
                player = self.read_for_change(key, (*fields, *derived))
            except NotFound:
                if self._deleted.find_one({"_id": player_id}, ["_id"]):
                    raise WasDeleted from None
                if version is not None:
                    # The version that the game has read no longer exists.
                    raise
                return self.insert(new(), intent)
            return self.write(self.decide_on(player, rule, intent))

        saved = self.once(key, step, intent, player_id)
        # A new player has no answer.
        return saved, saved.answer is None

    def _save_unrecorded(
        self, player_id: str, fields: Document, version: int | None
    ) -> Applied | None:
        """Set fields without an entry, with one update; None if it takes more to answer."""
        where: Document = {"_id": player_id, "ErasedAt": None}
        where |= {} if version is None else {"Version": version}
        same = {name: {"$eq": value} for name, value in fields.items()}
        update = {"$set": fields, "$inc": {"Version": 1}}
        try:
            player = self._documents.find_one_and_update(
                {**where, "$nor": [same]},
                update,
                ["Name", "Version"],
                return_document=ReturnDocument.AFTER,
            )
        except PyMongoError as error:
            if explain(error):
                raise OutcomeUnknown from error
            # The document is damaged, which the transaction tells.
            return None
        if player is None:
            return None
        answer = {"Id": player["_id"], "Name": player.get("Name"), "Version": None}
        return Applied(answer, version=whole(player["Version"]))

    def remove(self, key: Lookup, intent: Intent) -> Applied:
        """Delete a player. A copy is kept for as long as history, so that this can be undone."""

        def step() -> Applied:
            player = self._read(key, None)
            if is_online(player, self.online_since()):
                raise PlayerOnline(str(player.get("Name")))
            self._entries.require_undoable(intent)
            answer, now = {"Id": player["_id"], "Name": player.get("Name")}, self.now()
            changes = [{"Path": DELETED_AT, "Before": None, "After": now}]
            applied = self.delete(player, intent, changes, answer)
            if not intent.is_preview:
                copy = {
                    "_id": player["_id"],
                    "NameKey": player.get("NameKey"),
                    "UserId": player.get("UserId"),
                    "DeletedAt": now,
                    # The deletion counts as a change: restoring it makes the next version.
                    "Player": {**player, "Version": (applied.entry or {})["Version"]},
                    **self._entries.expiry_of(now),
                }
                self._deleted.replace_one({"_id": player["_id"]}, copy, upsert=True)
            return applied

        return self.once(key, step, intent)

    def restore(self, player_id: str, intent: Intent) -> Applied:
        """Restore a deleted player; raise if its name has been taken meanwhile."""

        def step() -> Applied:
            self._entries.require_undoable(intent)
            if self._documents.find_one({"_id": player_id}, ["_id"]):
                raise PlayerIsBack
            kept = self._deleted.find_one({"_id": player_id}) or {}
            if not isinstance(kept.get("Player"), dict):
                raise NotKept
            changes = [{"Path": DELETED_AT, "Before": kept["DeletedAt"], "After": None}]
            # A copy may be older than the validator.
            applied = self.insert(kept["Player"], intent, changes, may_be_invalid=True)
            if not intent.is_preview:
                self._deleted.delete_one({"_id": player_id})
            return applied

        return self.once(Lookup.parse(player_id), step, intent)

    def report_online(self, online: Sequence[str], offline: Sequence[str], everyone: bool) -> int:
        """Store who is online and who is offline; return how many of the latter were online.

        With everyone, all players who are not in online are offline. There are no entries.
        """
        now = self.now()
        playing = {"Online": True, "LastSeen": now}
        self._documents.update_many({"_id": {"$in": online}}, {"$set": playing})
        gone: Document = {"_id": {"$nin": online} if everyone else {"$in": offline}}
        left = {"Online": False, "LastSeen": now, "LastOnline": now}
        return self._documents.update_many({**gone, "Online": True}, {"$set": left}).matched_count

    def online_since(self) -> datetime | None:
        """Return the oldest LastSeen that counts as online; None without a limit."""
        return self.now() - self._online_ttl if self._online_ttl else None

    def _online(self) -> Document:
        since = self.online_since()
        return {"Online": True, "LastSeen": {"$gte": since}} if since else {"Online": True}

    def _with_checks(self, rule: Rule) -> Rule:
        return lambda player: rule(with_changeable_maps(player))

    def present(self, document: Document) -> Document:
        # The clock is read only where it decides: a page has many players.
        return public_player(document, self.online_since() if document.get("Online") else None)


def _identity(player: Document) -> Identity:
    user_id = player.get("UserId")
    return Identity(
        player["_id"], str(player.get("Name")), user_id if isinstance(user_id, str) else None
    )


players = current(Players)
