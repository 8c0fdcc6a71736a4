"""The page of the game: who looks for actions, who plays, what was asked and what came of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from app.console.forms.curl import api_path, curl
from app.console.forms.object_names import plain
from app.console.frame.pages import blp, render, required
from app.console.game.action_cards import cards
from app.console.health.views import DAY, online_plot
from app.console.history.tables import with_names
from app.errors import QuartermasterError
from app.game.actions import access
from app.game.actions.domain import KINDS, LOOKED_WITHIN, TAKEN_WITHIN, is_looking
from app.game.actions.schemas import ActionListArgs
from app.game.actions.store import Actions
from app.history.access import search as search_history
from app.http.context import current
from app.http.cursors import Cursors
from app.http.errors import status_of
from app.http.parser import load
from app.http.path_converters import path_guid
from app.paging import CursorPage
from app.players.store import Players
from app.samples.domain import interval_of
from app.samples.store import Samples
from app.types import Document

FILTERS = ("kind", "player", "user")
ACTIONS_SHOWN = 20
LAST_CHANGES = 8
# A server that has not looked for so long was taken away.
SERVERS_SHOWN_FOR = timedelta(days=1)

actions = current(Actions)
cursors = current(Cursors)
players = current(Players)
samples = current(Samples)


@blp.get("/game")
@required()
def show_game() -> Response:
    wanted = {name: plain(request.args.get(name, "")) for name in FILTERS}
    found, error = CursorPage([], None), None
    try:
        found = access.search(action_args(wanted, request.args.get("after", "")), ACTIONS_SHOWN)
    except QuartermasterError as refusal:
        error = refusal
    now = samples.now()
    return render(
        "game/game.html",
        status_of(error) if error else 200,
        page="game",
        servers=servers(),
        seconds=int(LOOKED_WITHIN.total_seconds()),
        online=players.count_online(),
        plot=online_plot(samples.since(interval_of(now) - DAY), now),
        wanted=wanted,
        kinds=KINDS,
        actions=cards(found.values),
        next=cursors.write(found.next),
        error=error,
        entries=with_names(search_history({}, LAST_CHANGES).values),
        curls={"actions": get_curl("actions", **wanted), "events": get_curl("events", after="now")},
    )


@blp.get("/game/<action_id>")
@required()
def show_action(action_id: str) -> Response:
    id_ = path_guid("id", action_id)
    (action,) = cards([access.visible_action(id_)])
    return render(
        "game/action.html",
        page="game",
        action=action,
        seconds=int(TAKEN_WITHIN.total_seconds()),
        curl=get_curl("actions", id_),
    )


def action_args(wanted: dict[str, str], after: str) -> Any:
    values = {name: text for name, text in {**wanted, "after": after}.items() if text}
    return load(ActionListArgs(), values)


def servers() -> list[Document]:
    """Return the servers of the game that look for actions, or did not long ago.

    Where none did, the last one tells since when the game is stopped.
    """
    now = actions.now()
    known = [
        {
            "Name": game["_id"],
            "At": game["LookedAt"],
            "IsLooking": is_looking(game["LookedAt"], now),
        }
        for game in actions.games()
        if isinstance(game.get("LookedAt"), datetime)
    ]
    return [game for game in known if now - game["At"] < SERVERS_SHOWN_FOR] or known[:1]


def get_curl(*path: str, **query: str) -> str:
    base = request.host_url.rstrip("/")
    text = urlencode({name: value for name, value in query.items() if value})
    return curl(base, "GET", f"{api_path(*path)}{'?' if text else ''}{text}")
