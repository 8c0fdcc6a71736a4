"""Masks the names of an erased person in texts of other people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from pymongo.database import Database

from app.approvals.store import ApprovalTraces
from app.batches.store import BatchTraces
from app.game.actions.store import ActionTraces
from app.game_events.store import EventTraces
from app.moderation.penalties import BAN, MUTE
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    ACTION_TEXTS,
    APPROVAL_TEXTS,
    batch_without,
    notes_without,
    quoting_operations,
    texts_naming,
    texts_without,
    without_mentions,
)
from app.storage.bulk import REMOVED, rewrite
from app.storage.journal import HISTORY
from app.storage.search_fields import words
from app.types import Document
from app.users.store import USERS


class Mentions:
    """Texts about people: reasons, penalties, notes, actions, batches, approvals and events."""

    def __init__(self, db: Database[Document]) -> None:
        self._users = db[USERS.name]
        self._players = db[PLAYERS.name]
        self._deleted = db[DELETED_PLAYERS.name]
        self._history = db[HISTORY.name]
        self.actions = ActionTraces(db)
        self.batches = BatchTraces(db)
        self.approvals = ApprovalTraces(db)
        self.events = EventTraces(db)
        self.traces = (self.actions, self.batches, self.approvals, self.events)

    def texts_naming(self, user: Document) -> set[str]:
        """Return all names and addresses that an account and its characters have had."""
        own = {"UserId": user["_id"]}
        kept = self._deleted.find(own, ["Player._id", "Player.Name", "Player.FormerNames"])
        characters = [
            *self._players.find(own, ["Name", "FormerNames"]),
            *(found["Player"] for found in kept),
        ]
        ids = [character["_id"] for character in characters]
        renamed = {"Subject.Id": {"$in": ids}, "Operation": "rename"}
        entries = self._history.find(renamed).hint("subject")
        former = [change["Before"] for entry in entries for change in entry["Changes"]]
        return texts_naming(user, characters, former)

    def mask(self, user_id: str, texts: Collection[str]) -> Iterator[int]:
        """Mask names in texts of other people; yield the numbers of changed documents."""
        rule = partial(without_mentions, texts=texts)
        for text in sorted(texts):
            if wanted := words(text):
                yield from self.rewrite_history({"Words": {"$all": wanted}}, rule, "word")
        if not texts:
            return
        quoting = {"Operation": {"$in": quoting_operations()}}
        yield from self.rewrite_history(quoting, rule, "operation")
        yield from self._mask_penalties(texts)
        yield from self._mask_notes(user_id, texts)
        yield from self.actions.rewrite(partial(texts_without, paths=ACTION_TEXTS, texts=texts))
        yield from self.batches.rewrite(partial(batch_without, texts=texts))
        masked = partial(texts_without, paths=APPROVAL_TEXTS, texts=texts)
        yield from self.approvals.rewrite(masked)
        yield from self.events.rewrite(partial(texts_without, paths=("Text",), texts=texts))

    def _mask_penalties(self, texts: Collection[str]) -> Iterator[int]:
        for penalty, hint in ((BAN, "banned"), (MUTE, "muted")):
            fields = [penalty.by, penalty.reason]
            found = self._users.find({penalty.by: {"$type": "string"}}, fields).hint(hint)
            rule = partial(texts_without, paths=fields, texts=texts)
            yield from rewrite(self._users, found, rule)

    def _mask_notes(self, user_id: str, texts: Collection[str]) -> Iterator[int]:
        # Few players are deleted, so their notes need no index.
        for collection, path, hint in (
            (self._users, "Notes", "noted"),
            (self._players, "Notes", "noted"),
            (self._deleted, "Player.Notes", "_id_"),
        ):
            found = collection.find({path: {"$exists": True}}, [path]).hint(hint)
            rule = partial(notes_without, path=path, user_id=user_id, texts=texts)
            yield from rewrite(collection, found, rule)

    def rewrite_history(
        self, where: Document, rule: Callable[[Document], Document], hint: str
    ) -> Iterator[int]:
        """Replace history entries by the result of a rule; yield the numbers of changed entries."""

        def changed(entry: Document) -> Document:
            new = rule(entry)
            removed = {name: REMOVED for name in entry if name not in new}
            return removed | {
                name: value for name, value in new.items() if entry.get(name) != value
            }

        yield from rewrite(self._history, self._history.find(where).hint(hint), changed)
