"""Checks a database for mistakes of the game that shares it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from app.database import SUBJECTS
from app.game_check import report
from app.game_check.habits import Habit
from app.game_check.report import Findings, example_of
from app.game_check.service_changes import Write
from app.game_check.store import ACTIONS, GAMES, WATCHED, GameDatabase, Sampler
from app.game_check.stored import (
    FAR_AHEAD,
    RECENT,
    action_habits,
    book_habits,
    fault_habits,
    is_ban_ignored,
    is_polling,
    is_stored_again,
    is_written_while_deleted,
    why_nobody_looks,
    wrong_fields_of,
)
from app.game_check.writes import MOST_REMEMBERED, RunningWrites, Writes, compare_looks, look_at
from app.integrity.journals import history_faults
from app.integrity.kinds import KINDS, document_faults
from app.integrity.rules import Limits
from app.integrity.store import ids_with_invalid_shape
from app.items.domain import LARGEST_BAG, LARGEST_QUANTITY
from app.storage.client import Storage
from app.storage.history_entries import entries_of
from app.storage.schema.explain_validator import Fault
from app.types import Document

COLLECTIONS = (*WATCHED, "objects")
# Settings change: a value beyond a current limit is not the game's fault.
NO_LIMITS = Limits(LARGEST_BAG, LARGEST_BAG, LARGEST_BAG, lambda _: LARGEST_QUANTITY)
PAUSE_SECONDS = 0.1


class GameCheck:
    """One check of a database, in bounded memory; the results are in findings."""

    # Extends the time limit of operations, for large collections.
    patiently = staticmethod(GameDatabase.patiently)

    def __init__(self, storage: Storage, online_ttl: int) -> None:
        self._storage = storage
        self._database = GameDatabase(storage)
        self._ttl = timedelta(seconds=online_ttl)
        self._now = storage.clock.now
        self.findings = Findings()
        self.looked_at: Counter[str] = Counter()
        self.writes = Writes(self.findings, _faults)
        self._running = RunningWrites(self.findings)
        # Whether $currentOp shows the filters of writes.
        self._sees_filters = True
        # Documents whose lost entries were reported already.
        self._with_lost: set[tuple[str, str]] = set()
        # How many writes without effect the game made while it was watched.
        self._idle = 0
        # How many players are Online with an old LastSeen; set only if no game was seen.
        self._left_online = 0
        # How many players were compared at two times; None if a change stream reported the writes.
        self._compared: int | None = None
        # Why no game server polls for actions; set only if no game was seen.
        self._without_game: str | None = None

    def stages(self, seconds: int) -> Iterator[tuple[str, int, Iterator[int]]]:
        """Yield each stage of the check: its label, its length, and an iterator of its steps."""
        for name in COLLECTIONS:
            yield f"Looking at {name}", self._database.count(name), self._documents(name)
        yield "Looking at who is online", 1, self._players()
        yield "Looking at actions", self._database.count(ACTIONS), self._actions()
        if seconds:
            yield "Watching the game", seconds * 1000, self._watch(seconds)
        yield "Looking at game servers", 1, self._games()

    def summary(self, database: str, seconds: int) -> str:
        filters = self._running.count if self._sees_filters else None
        writes, presence = self.writes.game.total(), self.writes.presence
        seen = report.watch_summary(seconds, self._compared, writes, presence, self._idle, filters)
        if self._without_game:
            seen += f" No game server asks for actions: {self._without_game}."
        if self._left_online:
            seen += f" {report.left_online(self._left_online, int(self._ttl.total_seconds()))}"
        return report.summary(database, self.looked_at, seen, len(self.findings))

    def _documents(self, name: str) -> Iterator[int]:
        """Check all documents of a collection; yield the number of documents in each batch."""
        for ids in self._database.ids(name):
            # In this order, so that a document is never older than its entry.
            newest = self._database.newest_entries(ids) if name in WATCHED else {}
            documents = list(self._database.read(name, ids))
            invalid = ids_with_invalid_shape(self._storage.db[name], ids, KINDS[name].shape)
            gaps = history_faults(self._storage, name, documents) if name in WATCHED else {}
            for document in documents:
                key = repr(document["_id"])
                is_valid = document["_id"] not in invalid
                found = fault_habits(_faults(name, document, is_valid))
                if any(fault.where == "JournalCount" for fault in gaps.get(key, ())):
                    found.setdefault(Habit.LOST_ENTRIES, [])
                if name in WATCHED:
                    entries = entries_of(document)
                    entries += [newest[key]] if key in newest else []
                    books = book_habits(SUBJECTS[name], document, entries, self._now())
                    for habit, fields in books:
                        found.setdefault(habit, []).extend(fields)
                if Habit.LOST_ENTRIES in found and len(self._with_lost) < MOST_REMEMBERED:
                    self._with_lost.add((name, key))
                self._add(found.items(), name, document)
            self.looked_at[name] += len(documents)
            yield len(documents)

    def _players(self) -> Iterator[int]:
        """Check players who are banned or were deleted."""
        for player, account in self._database.online_with_banned(self._since()):
            if is_ban_ignored(player, account, self._now()):
                self._add([(Habit.BANS_IGNORED, [])], "players", player)
        for player in self._database.being_deleted():
            if is_written_while_deleted(player):
                self._add([(Habit.DELETED_WRITTEN, [])], "players", player)
        for player, kept in self._database.stored_with_deleted():
            if is_stored_again(player, kept):
                self._add([(Habit.DELETED_WRITTEN, [])], "players", player)
        yield 1

    def _presence(self, is_game_seen: bool) -> None:
        """Check players who are online; imported players do not prove that a game runs."""
        since = self._since()
        if since is None:
            return  # Without a TTL, only the flag counts, not LastSeen.
        setting = report.online_setting(int(self._ttl.total_seconds()))
        for habit, seen, fields in (
            (Habit.STALE_ONLINE, {"$lt": since}, [setting]),
            (Habit.NEVER_SEEN, {"$not": {"$type": "date"}}, [setting]),
            (Habit.SEEN_IN_FUTURE, {"$gt": self._now() + FAR_AHEAD}, []),
        ):
            count, some = self._database.online(seen)
            if fields and not is_game_seen:
                self._left_online += count
                continue
            for player in some:
                self.findings.add(habit, "player", example_of(player), fields)
            self.findings.add(habit, "player", None, count=max(0, count - len(some)))

    def _actions(self) -> Iterator[int]:
        """Check the actions of the last day; yield 1 after each."""
        now = self._now()
        somebody_looks = any(is_polling(game, now) for game in self._database.games())
        for action in self._database.actions(now - RECENT):
            self._add(action_habits(action, now, somebody_looks), ACTIONS, action)
            self.looked_at[ACTIONS] += 1
            yield 1

    def _games(self) -> Iterator[int]:
        """Check the game servers that poll for actions, and whether a game that was seen does."""
        games, now = self._database.games(), self._now()
        for game in games:
            self.looked_at[GAMES] += 1
            if wrong := wrong_fields_of(game, now):
                self.findings.add(Habit.WRONG_GAMES, "game server", str(game["_id"]), wrong)
        writes, changed = self.writes.game or self.writes.presence, self.writes.players
        self._presence(bool(games or writes))
        online = self._database.count_online(self._since())
        if changed and not online and not self.writes.presence:
            self.findings.add(Habit.NOBODY_ONLINE, "player", min(changed), count=len(changed))
        if not any(is_polling(game, now) for game in games):
            why = why_nobody_looks(games)
            if online or writes:
                self.findings.add(Habit.NOBODY_LOOKS, "game server", None, [why])
            else:
                self._without_game = why
        yield 1

    def _watch(self, seconds: float) -> Iterator[int]:
        """Watch writes for some seconds; yield the milliseconds that have passed."""
        stream = self._database.stream()
        began = time.monotonic()
        with Sampler(self._database) as sampler:
            for write in self._writes(stream, seconds) if stream else self._look_twice(seconds):
                if write:
                    self.writes.see(write)
                for operation in sampler.take():
                    self._running.see(operation)
                now = time.monotonic()
                yield int((now - began) * 1000)
                began = now
        self._sees_filters = sampler.is_allowed
        # Check that the entries that the service made meanwhile are still there.
        for entry in self._database.lost(self.writes.changes.entries):
            if entry.holder() not in self._with_lost:
                self._with_lost.add(entry.holder())
                noun = entry.collection.removesuffix("s")
                self.findings.add(Habit.LOST_ENTRIES, noun, str(entry.subject_id))

    def _writes(self, stream: Any, seconds: float) -> Iterator[Write | None]:
        """Yield the writes of some seconds, and count those that changed nothing."""
        counts: list[int | None] = [self._database.write_count()]
        yield from self._database.writes(
            stream, seconds, lambda: counts.append(self._database.write_count())
        )
        before, after = counts
        if before is not None and after is not None:
            self._idle = max(0, after - before - self.writes.all.total())

    def _look_twice(self, seconds: float) -> Iterator[None]:
        """Compare some players with their state some seconds later."""
        before, ids = {}, []
        for player in self._database.players_to_compare():
            if repr(player["_id"]) not in before:
                before[repr(player["_id"])] = look_at(player)
                ids.append(player["_id"])
        self._compared = len(ids)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, PAUSE_SECONDS))
            yield None
        for player in self._database.read("players", ids):
            if compare_looks(self.findings, player, before[repr(player["_id"])]):
                self.writes.game["players"] += 1
                self.writes.players.add(str(player["_id"]))

    def _add(self, found: Iterable[tuple[Habit, list[str]]], name: str, document: Document) -> None:
        for habit, fields in found:
            self.findings.add(habit, name.removesuffix("s"), example_of(document), fields)

    def _since(self) -> datetime | None:
        return self._now() - self._ttl if self._ttl else None


def _faults(name: str, document: Document, is_shape_valid: bool = False) -> list[Fault]:
    return document_faults(KINDS[name], document, NO_LIMITS, is_shape_valid)
