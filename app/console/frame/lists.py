"""The lists of players and users: a search, an order and a page, all in the path.

With both comes which bans and mutes are in force, for those who may see accounts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flask import request

from app.auth import guard
from app.auth.roles import Role
from app.console.forms.object_names import plain
from app.console.frame.pages import PAGE_SIZE
from app.http.context import current
from app.http.cursors import Cursors
from app.moderation.domain import served
from app.moderation.penalties import BAN, MUTE
from app.naming import SEARCH_LENGTH, name_key
from app.paging import Window
from app.players.store import Players
from app.types import Document, decimal
from app.users.store import Users

LONGEST_PAGE_NUMBER = 6
MOST_FORMER = 10

cursors = current(Cursors)
users = current(Users)


def list_window(sorts: Mapping[str, Any]) -> tuple[str | None, str, Window]:
    """Return what the path asks for: the searched text, the order and the page.

    A text that is too short to be searched for, and an order that there is not, are left out.
    """
    text = name_key(plain(request.args.get("search", "")))
    search = text if len(text) >= SEARCH_LENGTH else None
    sort = request.args.get("sort", "")
    after = cursors.read(request.args.get("after", ""))
    order = sort if sort in sorts else next(iter(sorts))
    return search, order, Window(0, PAGE_SIZE, PAGE_SIZE, after)


def former_cards(
    store: Players | Users,
    card: Callable[[Document], Document],
    listed: list[Document],
    search: str | None,
    window: Window,
) -> list[Document]:
    """Return those who had a name before that begins with a text, and are not listed already.

    They come with the first page.
    """
    if not search or window.after:
        return []
    names = {shown["Name"] for shown in listed}
    had = store.formerly(search, MOST_FORMER)
    cards = [{**card(record), "FormerName": name} for record, name in had]
    return [shown for shown in cards if shown["Name"] not in names]


def with_penalties(cards: Iterable[Document], user_id: str) -> list[Document]:
    """Return players or users with the bans and mutes of their accounts, by the field of its id."""
    shown = list(cards)
    sees_users = Role.USERS_QUERY in guard.caller().roles
    ids = {card[user_id] for card in shown if isinstance(card[user_id], str)} if sees_users else []
    found = users.get_many(list(ids), *BAN, *MUTE) if ids else {}
    now = users.now()
    return [{**card, "Penalties": served(found.get(card[user_id]) or {}, now)} for card in shown]


def page_number() -> int:
    """Return the page that the path asks for, of a list that has no cursor; the first is 0."""
    text = request.args.get("page", "")
    number = decimal(text) if len(text) <= LONGEST_PAGE_NUMBER else None
    return number or 0
