"""The players and users whom somebody has looked at last, in a cookie of the browser."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response

from app.auth import guard
from app.auth.roles import Role
from app.console.session.sessions import cookie, set_cookie
from app.http.context import current
from app.naming import parse_guid
from app.players.store import Players
from app.users.store import Users

COOKIE = "quartermaster-recent"
MOST = 8
DAYS_30 = 30 * 24 * 3600
LETTERS = {"p": "players", "u": "users"}

players = current(Players)
users = current(Users)


class Visited(NamedTuple):
    """A player or a user, by the part of the console's paths."""

    kind: str
    id: str
    name: str


def remember(response: Response, kind: str, id_: str) -> None:
    """Put a player or a user before the others."""
    letter = next(letter for letter, name in LETTERS.items() if name == kind)
    newest = (letter, id_)
    others = [visited for visited in _visited() if visited != newest]
    marks = [f"{letter}{id_}" for letter, id_ in [newest, *others][:MOST]]
    # Bound to the account: the next person at this browser has looked at others.
    value = ".".join([guard.caller().id, *marks])
    set_cookie(response, COOKIE, value, samesite="Strict", max_age=DAYS_30)


def recent() -> list[Visited]:
    """Return whom the caller has looked at, the last one first; who is gone is left out."""
    visited = _visited()
    named = {"p": players.get_many(_ids(visited, "p"), "Name")}
    if Role.USERS_QUERY in guard.caller().roles:
        named["u"] = users.get_many(_ids(visited, "u"), "Name")
    return [
        Visited(LETTERS[letter], id_, str(named[letter][id_].get("Name")))
        for letter, id_ in visited
        if id_ in named.get(letter, {})
    ]


def _ids(visited: list[tuple[str, str]], letter: str) -> list[str]:
    return [id_ for mark, id_ in visited if mark == letter]


def _visited() -> list[tuple[str, str]]:
    owner, *marks = cookie(COOKIE).split(".")[: MOST + 1]
    if owner != guard.caller().id:
        return []
    found = [(mark[:1], parse_guid(mark[1:])) for mark in marks]
    return [(letter, id_) for letter, id_ in found if letter in LETTERS and id_]
