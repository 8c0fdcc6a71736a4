"""Deletes and restores players in MongoDB.

A player is in the collection players, or a copy of it is in deleted_players; for a moment it is in
both. Both operations change several documents (app/storage/unfinished.py).

Deleting:   1. One swap marks the player with DeletedAt, and adds the entry of the change.
            2. Its entries move to history, and a copy is stored in deleted_players.
            3. The player is removed, if it still equals the copy.
Restoring:  1. The player is inserted as pending, with the stamp of the copy and the entry.
            2. If a majority still has that copy, the player is no longer pending. If there is
               another copy, or another undo, the player is removed: somebody else has restored
               or erased it meanwhile.
            3. The copy is removed, and then the mark RestoredFrom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeGuard

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from app.changes import PENDING, Applied, Intent, Rule
from app.errors import AlreadyUndone, Busy, NotFound, OutcomeUnknown
from app.naming import Lookup
from app.players.domain import (
    DELETED_AT,
    RESTORED_FROM,
    SUBJECT,
    TRANSFER,
    NotKept,
    PlayerNameTaken,
    mark_deleted,
    refuse_restoring,
    without_marks,
)
from app.players.store import DELETED_PLAYERS, PLAYERS, Players
from app.storage.client import Storage, by_key
from app.storage.committed import confirm_absent, majority_holds
from app.storage.decisions import fresh_stamp
from app.storage.errors import explain
from app.storage.history_entries import entries_of
from app.storage.unfinished import Unfinished
from app.storage.update_from_difference import as_read, is_comparable
from app.types import Document

log = logging.getLogger("quartermaster")

# A game may have stored a value of another type.
MARKED: Document = {DELETED_AT: {"$type": "date"}}
RESTORED: Document = {RESTORED_FROM: {"$type": "objectId"}}
DELETION_READS = ("Online", "LastSeen", DELETED_AT, PENDING, TRANSFER)
ATTEMPTS = 50
PAUSE_SECONDS = 0.02


class Deletions:
    """Deletes and restores the players of one application."""

    def __init__(self, storage: Storage, players: Players) -> None:
        self._store = players
        self._players = storage.db[PLAYERS.name]
        self._committed = storage.journals.committed(SUBJECT)
        self._deleted = storage.db[DELETED_PLAYERS.name]
        self._swapper = storage.swapper(SUBJECT)
        self._journals = storage.journals

    def unfinished(self) -> Sequence[Unfinished]:
        """Return how to find and finish deletions and restorations that were interrupted."""
        return (
            Unfinished("deletion", partial(self._ids, MARKED), self.finish_deletion),
            Unfinished("restoration", partial(self._ids, RESTORED), self.finish_restoration),
        )

    def _ids(self, marked: Document) -> Sequence[str]:
        return [player["_id"] for player in self._players.find(marked, ["_id"])]

    def delete(self, key: Lookup, intent: Intent) -> Applied:
        """Delete a player. A copy is kept for as long as history, so that this can be undone."""
        try:
            applied = self._swapper.swap(by_key(key), DELETION_READS, self._mark(), intent)
        except NotFound as error:
            # A marked player that still exists was left by a worker that died.
            if found := self._players.find_one({**by_key(key), **MARKED}, ["_id"]):
                self._try_to_finish(found["_id"])
            if earlier := self._store.made_before(key, intent):
                return earlier
            raise self._store.not_found(error, key) from None
        self._try_to_finish(applied.answer["Id"])
        return applied

    def preview_delete(self, key: Lookup, intent: Intent) -> Document:
        """Return the entry that deleting a player would have."""
        return self._swapper.preview(by_key(key), DELETION_READS, self._mark(), intent)

    def _mark(self) -> Rule:
        since = self._store.online_since()
        return partial(mark_deleted, now=self._store.now(), online_since=since)

    def _try_to_finish(self, player_id: str) -> None:
        """Try to move a marked player now; on failure others will: the mark already deletes it."""
        try:
            self.finish_deletion(player_id)
        except (Busy, PyMongoError) as error:
            log.warning(
                "The deleted player %s could not be moved, will retry: %s", player_id, error
            )

    def finish_deletion(self, player_id: str) -> None:
        """Move a marked player to the deleted ones, after its entries have moved to history."""
        marked = {"_id": player_id, **MARKED}
        own_copy = None
        for _ in _attempts():
            self._journals.move(SUBJECT, [player_id])
            # A mark that is not majority-committed may be rolled back.
            if self._committed.find_one(marked, ["_id"]) is None:
                self._drop_copy(player_id, own_copy)
                return
            # Before the player is read, so that a newer copy of somebody else is not replaced.
            former = self._deleted.find_one({"_id": player_id}, ["Stamp", "ErasedUserId"])
            player = self._players.find_one_and_update(
                marked, {"$set": {"Stamp": fresh_stamp()}}, return_document=ReturnDocument.AFTER
            )
            # An entry that is not majority-committed does not move yet.
            if player is None or player.get("Journal"):
                continue
            own_copy = self._keep(player, former)
            if own_copy and self._remove(player):
                return
        raise Busy("player")

    def _keep(self, player: Document, former: Document | None) -> object | None:
        """Store a copy of a player, unless somebody else has stored one since; return its stamp."""
        stamp = fresh_stamp()
        copy = {
            "_id": player["_id"],
            "NameKey": player.get("NameKey"),
            "UserId": player.get("UserId"),
            "DeletedAt": player[DELETED_AT],
            "Stamp": stamp,
            "Player": player,
            **self._journals.expiry_of(player[DELETED_AT]),
        }
        if former is None:
            try:
                self._deleted.insert_one(copy)
            except DuplicateKeyError:
                return None
            return stamp
        if "ErasedUserId" in former and former["ErasedUserId"] == player.get("UserId"):
            # No copy of an erased person is kept.
            return former["Stamp"]
        unchanged = {"_id": player["_id"], "Stamp": as_read(former, "Stamp")}
        return stamp if self._deleted.replace_one(unchanged, copy).matched_count else None

    def _remove(self, player: Document) -> bool:
        """Remove a player whose copy is majority-committed, if the player still equals the copy."""
        # A concurrent write of a game must not be lost.
        unchanged = {n: as_read(player, n) for n in player if is_comparable(player[n])}
        return bool(self._players.delete_one(unchanged).deleted_count)

    def _drop_copy(self, player_id: str, stamp: object | None) -> None:
        """Delete a copy that was made while somebody removed the mark from the player."""
        is_there = {"_id": player_id, DELETED_AT: {"$not": {"$type": "date"}}}
        if stamp and majority_holds(self._players, is_there):
            self._deleted.delete_one({"_id": player_id, "Stamp": stamp, "ErasedUserId": None})

    def restore(self, player_id: str, intent: Intent) -> Applied:
        """Restore a deleted player; raise if its name has been taken meanwhile."""
        for _ in _attempts():
            self._finish_marked(player_id)
            # Read the copy before the player, because a restoration removes the copy last.
            kept = self._kept(player_id)
            try:
                # Answers a repeated request, or raises why an existing player is not restored.
                standing = {"_id": player_id, PENDING: {"$exists": False}}
                return self._swapper.swap(standing, (DELETED_AT,), refuse_restoring, intent)
            except NotFound as error:
                if error.kind != SUBJECT.name:
                    raise
            except Busy:
                continue
            if applied := self._restored(player_id, kept, intent):
                return applied
        raise Busy("player")

    def _finish_marked(self, player_id: str) -> None:
        """Finish a deletion or restoration that another process has begun."""
        self.finish_restoration(player_id)
        if self._players.find_one({"_id": player_id, **MARKED}, ["_id"]):
            self.finish_deletion(player_id)

    def _kept(self, player_id: str) -> Document | None:
        """Return the copy of a deleted player; add a stamp, which former releases did not store."""
        without = {"_id": player_id, "Stamp": {"$exists": False}}
        kept = self._deleted.find_one({"_id": player_id})
        if kept and "Stamp" not in kept:
            self._deleted.update_one(without, {"$set": {"Stamp": fresh_stamp()}})
            kept = self._deleted.find_one({"_id": player_id})
        return kept

    def _restored(self, player_id: str, kept: Document | None, intent: Intent) -> Applied | None:
        """Restore a player that does not exist; return None if another request was faster."""
        if earlier := self._made_before(player_id, intent):
            return earlier
        try:
            self._swapper.require_undoable(intent)
        except AlreadyUndone:
            # An earlier attempt of the same request may have done it.
            if earlier := self._made_before(player_id, intent):
                return earlier
            raise
        if not _is_copy(kept):
            confirm_absent(self._deleted, {"_id": player_id, "Player": {"$type": "object"}})
            raise NotKept
        try:
            entry = self._insert(kept["Player"], kept["Stamp"], intent)
            return Applied(None, entry=entry) if entry and self._stands(player_id, entry) else None
        except PyMongoError as error:
            if intent.key is None and explain(error):
                raise OutcomeUnknown from error
            raise

    def _stands(self, player_id: str, entry: Document) -> bool:
        """Finish a restoration, and tell whether the inserted player is permanent."""
        self.finish_restoration(player_id)
        # If the player was removed again, the entry is neither in the Journal nor in history.
        written = {"_id": player_id, "Journal.Stamp": entry["Stamp"], PENDING: {"$exists": False}}
        has_moved = self._journals.has_moved
        return majority_holds(self._players, written) or has_moved(player_id, entry["Stamp"])

    def _made_before(self, player_id: str, intent: Intent) -> Applied | None:
        return self._swapper.find_moved(player_id, intent) if intent.key else None

    def _insert(self, former: Document, copy: object, intent: Intent) -> Document | None:
        """Insert a copy as a pending player; return its entry, or None if the player exists."""
        changes = [{"Path": DELETED_AT, "Before": former[DELETED_AT], "After": None}]
        player = {**without_marks(former), RESTORED_FROM: copy, PENDING: True}
        try:
            return self._swapper.insert(player, intent, changes, is_checked=False)
        except DuplicateKeyError as error:
            if self._players.find_one({"_id": former["_id"]}, ["_id"]):
                return None
            raise self._store.name_taken(error) from None

    def finish_restoration(self, player_id: str) -> None:
        """Finish the restoration of a player."""
        fields = ["Stamp", PENDING, RESTORED_FROM, "Journal"]
        found = self._players.find_one({"_id": player_id, **RESTORED}, fields)
        if found is None:
            return
        copy = {"_id": player_id, "Stamp": found[RESTORED_FROM]}
        marked = {"_id": player_id, RESTORED_FROM: found[RESTORED_FROM]}
        if PENDING in found and not self._decide(found, copy):
            return
        # The player that was read may be rolled back: keep the copy until it is committed.
        if majority_holds(self._players, {**marked, PENDING: {"$exists": False}}):
            self._deleted.delete_one(copy)
            self._players.update_one(marked, {"$unset": {RESTORED_FROM: ""}})

    def _decide(self, found: Document, copy: Document) -> bool:
        """Make a pending player permanent if the copy it was made from is majority-committed."""
        pending = {name: as_read(found, name) for name in ("_id", "Stamp", PENDING, RESTORED_FROM)}
        if not majority_holds(self._players, pending):
            return False
        if not majority_holds(self._deleted, copy) and self._is_superseded(found):
            self._players.delete_one(pending)
            return False
        return bool(self._players.update_one(pending, {"$unset": {PENDING: ""}}).matched_count)

    def _is_superseded(self, found: Document) -> bool:
        """Tell whether somebody else has restored or erased a pending player.

        Its copy may be missing for another reason: a dump reads the collections one after another.
        """
        if majority_holds(self._deleted, {"_id": found["_id"]}):
            return True
        undos = [e for e in entries_of(found) if "Undoes" in e]
        others = [self._journals.find_undo(entry["Undoes"]) for entry in undos[-1:]]
        return any(other and other.get("Stamp") != undos[-1]["Stamp"] for other in others)

    def preview_restore(self, player_id: str, intent: Intent) -> Document:
        """Return the entry that restoring a player would have."""
        kept = self._deleted.find_one({"_id": player_id})
        if not _is_copy(kept):
            raise NotKept
        if self._players.find_one({"NameKey": kept["NameKey"]}, ["_id"]):
            raise PlayerNameTaken
        changes = [{"Path": DELETED_AT, "Before": kept["DeletedAt"], "After": None}]
        return self._swapper.preview_entry(kept["Player"], intent, changes)


def _attempts() -> Iterator[int]:
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        yield attempt


def _is_copy(kept: Document | None) -> TypeGuard[Document]:
    """Tell whether a document is a copy of a player, and not just the mark of an erasure."""
    return kept is not None and isinstance(kept.get("Player"), dict)
