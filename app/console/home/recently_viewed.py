"""Recently viewed players and users, in a cookie."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response

from app.auth import guard
from app.auth.permissions import Permission
from app.console.session.sessions import cookie, set_cookie
from app.console.stores import players, users
from app.naming import parse_guid

COOKIE = "quartermaster-recent"
MOST = 8
DAYS_30 = 30 * 24 * 3600


class Visited(NamedTuple):
    """A recently viewed player or user."""

    kind: str
    id: str
    name: str = ""


def remember(response: Response, kind: str, id_: str) -> None:
    """Put a player or a user first in the cookie."""
    newest = Visited(kind, id_)
    others = [visited for visited in _visited() if visited != newest]
    marks = [f"{one.kind[0]}{one.id}" for one in [newest, *others][:MOST]]
    # Bound to the account, because several people may share a browser.
    value = ".".join([guard.caller().id, *marks])
    set_cookie(response, COOKIE, value, samesite="Strict", max_age=DAYS_30)


def recent() -> list[Visited]:
    """Return whom the caller has viewed, the latest first, without deleted ones."""
    visited = _visited()
    ids = {kind: [one.id for one in visited if one.kind == kind] for kind in ("players", "users")}
    found = {"players": players.get_many(ids["players"], "Name"), "users": {}}
    if guard.caller().may(Permission.USERS_READ):
        found["users"] = users.get_many(ids["users"], "Name")
    known = [one for one in visited if one.id in found[one.kind]]
    return [one._replace(name=str(found[one.kind][one.id].get("Name"))) for one in known]


def _visited() -> list[Visited]:
    owner, *marks = cookie(COOKIE).split(".")[: MOST + 1]
    if owner != guard.caller().id:
        return []
    kinds = {"p": "players", "u": "users"}
    found = [(kinds.get(mark[:1]), parse_guid(mark[1:])) for mark in marks]
    return [Visited(kind, id_) for kind, id_ in found if kind and id_]
