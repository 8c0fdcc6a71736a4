"""Players in MongoDB."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from app.changes import Applied, Intent, Rule
from app.errors import NotFound
from app.keys import Lookup
from app.paging import Page, Window
from app.players.documents import RECORD, served
from app.storage.client import Storage
from app.storage.pages import Pages
from app.storage.swap import swap

Document = dict[str, Any]

BY_NAME = [("NameKey", 1)]


class Players:
    """The player characters of one application."""

    def __init__(self, storage: Storage, online_ttl: int, total_seconds: float) -> None:
        self._players = storage.db["players"]
        self._pages = Pages(self._players, total_seconds)
        self._online_ttl = timedelta(seconds=online_ttl)

    def get(self, key: Lookup) -> Document:
        """Return the record of a player."""
        player = self._players.find_one(_where(key), RECORD)
        if player is None:
            raise NotFound("player", key)
        return served(player, self._online_since())

    def list(self, window: Window) -> Page:
        """Return a page of players by name."""
        total, players = self._pages.read(window, BY_NAME, RECORD)
        since = self._online_since()
        return Page(total, [served(player, since) for player in players])

    def change(self, key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to these fields of a player, exactly once."""
        try:
            return swap(self._players, _where(key), reads, rule, intent)
        except NotFound:
            raise NotFound("player", key) from None

    def _online_since(self) -> datetime | None:
        """Return when a player must have been seen to count as online; None: at any time."""
        return datetime.now(timezone.utc) - self._online_ttl if self._online_ttl else None


def _where(key: Lookup) -> Document:
    return {"_id": key.id} if key.id else {"NameKey": key.name_key}
