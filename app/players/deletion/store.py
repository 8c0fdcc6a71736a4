"""Deletes and restores players.

A player is in the collection players, or a copy of it in deleted_players: each move between them is
one transaction.
"""

from __future__ import annotations

from functools import partial
from typing import TypeGuard

from app.core.changes import Applied, Intent
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.services import current
from app.core.types import Document
from app.players.domain import (
    DELETED_AT,
    SUBJECT,
    NotKept,
    PlayerIsBack,
    PlayerNameTaken,
    PlayerOnline,
    is_online,
)
from app.players.store import DELETED_PLAYERS, PLAYERS, Players
from app.storage.client import Storage, by_key


class Deletions:
    """Deletes and restores the players of one application."""

    def __init__(self, storage: Storage, players: Players) -> None:
        self._store = players
        self._players = storage.db[PLAYERS.name]
        self._deleted = storage.db[DELETED_PLAYERS.name]
        self._entries = storage.entries
        self.now = storage.clock.now

    def delete(self, key: Lookup, intent: Intent) -> Applied:
        """Delete a player. A copy is kept for as long as history, so that this can be undone."""
        step = partial(self._delete, key, intent)
        return self._store.in_transaction(step, intent)

    def _delete(self, key: Lookup, intent: Intent) -> Applied:
        if earlier := self._store.find_earlier(key, intent):
            return earlier
        player = self._deletable(key)
        self._entries.require_undoable(intent)
        answer, now = {"Id": player["_id"], "Name": player.get("Name")}, self.now()
        changes = [{"Path": DELETED_AT, "Before": None, "After": now}]
        applied = self._store.delete(player, intent, changes, answer)
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

    def _deletable(self, key: Lookup) -> Document:
        player = self._players.find_one(by_key(key))
        if player is None:
            raise NotFound(SUBJECT.name, key)
        if is_online(player, self._store.online_since()):
            raise PlayerOnline(str(player.get("Name")))
        return player

    def preview_delete(self, key: Lookup, intent: Intent) -> Document:
        """Return the entry that deleting a player would have."""
        changes = [{"Path": DELETED_AT, "Before": None, "After": self.now()}]
        return self._store.preview_entry(self._deletable(key), intent, changes)

    def restore(self, player_id: str, intent: Intent) -> Applied:
        """Restore a deleted player; raise if its name has been taken meanwhile."""
        step = partial(self._restore, player_id, intent)
        return self._store.in_transaction(step, intent)

    def _restore(self, player_id: str, intent: Intent) -> Applied:
        if earlier := self._store.find_earlier(Lookup(player_id, player_id, None), intent):
            return earlier
        self._entries.require_undoable(intent)
        kept, changes = self._restorable(player_id)
        # A copy may be older than the validator.
        applied = self._store.insert(kept["Player"], intent, changes, may_be_invalid=True)
        self._deleted.delete_one({"_id": player_id})
        return applied

    def _restorable(self, player_id: str) -> tuple[Document, list[Document]]:
        """Return the copy of a deleted player, and how restoring it changes the player."""
        if self._players.find_one({"_id": player_id}, ["_id"]):
            raise PlayerIsBack
        kept = self._deleted.find_one({"_id": player_id})
        if not _is_copy(kept):
            raise NotKept
        return kept, [{"Path": DELETED_AT, "Before": kept["DeletedAt"], "After": None}]

    def preview_restore(self, player_id: str, intent: Intent) -> Document:
        """Return the entry that restoring a player would have."""
        kept, changes = self._restorable(player_id)
        if self._players.find_one({"NameKey": kept["NameKey"]}, ["_id"]):
            raise PlayerNameTaken
        return self._store.preview_entry(kept["Player"], intent, changes)


def _is_copy(kept: Document | None) -> TypeGuard[Document]:
    return kept is not None and isinstance(kept.get("Player"), dict)


deletions = current(Deletions)
