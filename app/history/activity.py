"""The activity log of a user or a player: entries of history, and sign-ins of the user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.core.paging import Page, Window
from app.core.types import Document
from app.history.store import History
from app.users.oauth.store import RefreshTokens

SIGN_IN = "sign-in"


class Happening(NamedTuple):
    """A line of a log; lines are ordered by time, then by id."""

    at: datetime
    id: str
    action: str
    peer: str
    meta: Document


class Activity:
    def __init__(self, history: History, tokens: RefreshTokens) -> None:
        self._history = history
        self._tokens = tokens

    def of_user(self, user_id: str, window: Window) -> Page:
        """Return a page of the log of a user, the newest line first."""
        sign_ins = [
            _of_sign_in(sign_in.chain, sign_in.at, "console" if sign_in.is_session else "api")
            for sign_in in self._tokens.sign_ins(user_id)
        ]
        total, lines = self._page("user", user_id, sign_ins, window)
        return Page(total, [_public_line(line, user_id, None) for line in lines])

    def sign_ins(self, user_id: str, window: Window) -> Page:
        """Return a page of the sign-ins of a user that are kept, the newest first."""
        found = self._tokens.sign_ins(user_id)
        values: list[Document] = [
            {"Ip": None, "LastUsed": sign_in.at, "OtherUsers": {}}
            for sign_in in found[window.start : window.start + window.limit]
        ]
        return Page(len(found), values)

    def of_player(self, player_id: str, user_id: str | None, window: Window) -> Page:
        """Return a page of the log of a player, the newest line first."""
        total, lines = self._page("player", player_id, [], window)
        return Page(total, [_public_line(line, user_id, player_id) for line in lines])

    def _page(
        self, kind: str, id_: str, sign_ins: list[Happening], window: Window
    ) -> tuple[int, Sequence[Happening]]:
        first = first_needed(window.start, len(sign_ins))
        # The other lines may all be on earlier pages or on this one, so read that many more.
        limit = window.start - first + window.limit
        entries = self._history.of_subject(kind, id_, first, limit)
        long = [_of_entry(entry) for entry in entries]
        page = merge_page(long, sign_ins, window.start, window.limit)
        return self._history.count_of_subject(kind, id_) + len(sign_ins), page


def first_needed(start: int, others: int) -> int:
    """Return how many lines of the long list come before a page of both lists for certain.

    Of the lines before the page, at most all of the others are not from the long list.
    """
    return max(0, start - others)


def merge_page(
    long: Sequence[Happening], others: Sequence[Happening], start: int, size: int
) -> Sequence[Happening]:
    """Return a page of two merged lists; the long one starts at first_needed."""
    skipped = start - first_needed(start, len(others))
    lines = sorted((*others, *long), reverse=True, key=lambda line: line[:2])
    return lines[skipped : skipped + size]


def _of_entry(entry: Document) -> Happening:
    meta = {name: entry.get(name) for name in ("By", "Reason", "Arguments")}
    return Happening(entry["At"], entry["_id"], entry["Operation"], entry["Via"], meta)


def _of_sign_in(chain: str, at: datetime, via: str) -> Happening:
    # Not the chain itself, which the tokens of the sign-in contain.
    digest = hashlib.sha256(chain.encode()).hexdigest()[:32]
    return Happening(at, f"{SIGN_IN}:{digest}", SIGN_IN, via, {})


def _public_line(line: Happening, user_id: str | None, player_id: str | None) -> Document:
    return {
        "Id": line.id,
        "TimeStamp": line.at,
        "UserId": user_id,
        "PlayerId": player_id,
        "Action": line.action,
        "Peer": line.peer,
        # IP addresses are not stored.
        "Ip": None,
        "Meta": json.dumps(line.meta, default=str, ensure_ascii=False),
    }
