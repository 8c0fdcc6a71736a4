"""The pages of the game: its servers, the actions and their results, and the chat."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from flask import Response, request

from app.console.forms.curl import api_path, curl
from app.console.forms.declared import Field, Target
from app.console.forms.object_names import plain
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import blp, path_to, render, required
from app.console.game.actions import cards, coming_restart, sees_actions
from app.console.game.forms import RESTART_GAME, SAY, WITHDRAW
from app.console.health.views import online_plot, samples_of_day
from app.console.history.tables import last_changes
from app.console.stores import actions, players
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions import asking
from app.game.actions.domain import (
    KINDS,
    LOOKED_WITHIN,
    RESTART,
    TAKEN_WITHIN,
    WITHDRAWABLE,
    is_looking,
)
from app.game.actions.schemas import ActionListArgs
from app.http.parser import load
from app.http.path_converters import path_guid

ARGUMENTS = ActionListArgs()
KIND_OPTIONS = {"": "anything", **{kind: kind.replace("-", " ") for kind in KINDS}}
ACTIONS_SHOWN = 20
# A server that has not polled for so long was removed.
SERVERS_SHOWN_FOR = timedelta(days=1)


def search(wanted: Document, size: int) -> CursorPage:
    found = asking.search(load(ARGUMENTS, wanted), size)
    return found._replace(values=cards(found.values))


COLUMNS = columns("At Kind Subject What State Error By Via Reason Id")
ACTIONS = ListPage(
    "/game",
    (Permission.GAME_ACT,),
    search,
    COLUMNS,
    (
        Field("kind", "What", type="select", options=lambda: KIND_OPTIONS),
        Field("player", "Player", suggest="player"),
        Field("user", "User"),
    ),
    shows_refusal=True,
)
MESSAGES = ListPage(
    "/chat",
    (Permission.GAME_ACT,),
    lambda wanted, size: search({"kind": "chat", **wanted}, size),
    COLUMNS,
)


def show_game(_: str = "", sent: Submission | None = None) -> Response:
    found = ACTIONS.find(ACTIONS_SHOWN) if sees_actions() else None
    return render(
        "game/game.html",
        found and found.status,
        sent=sent,
        forms=forms_on([RESTART_GAME], Target(path_to("game")), sent),
        servers=servers(),
        restart=coming_restart(),
        seconds=int(LOOKED_WITHIN.total_seconds()),
        online=players.count_online(),
        plot=online_plot(samples_of_day()),
        found=found,
        actions=found.values if found else [],
        entries=last_changes(),
        curls={
            "actions": get_curl("actions", **(found.wanted if found else {})),
            "events": get_curl("events", after="now"),
        },
    )


def show_action(_: str, sent: Submission | None, action_id: str) -> Response:
    id_ = path_guid("id", action_id)
    (action,) = cards([asking.visible_action(id_)])
    return render(
        "game/action.html",
        sent=sent,
        action=action,
        seconds=int(TAKEN_WITHIN.total_seconds()),
        curl=get_curl("actions", id_),
        forms=forms_on([WITHDRAW], Target(path_to("game", id_), id_, withdrawal(action)), sent),
    )


def withdrawal(action: Document) -> str:
    """Return what the button to withdraw an action says; empty if it cannot be withdrawn."""
    if action["Kind"] == RESTART and action["State"] == "taken":
        return "Stop the countdown"
    return "Withdraw" if action["Kind"] in WITHDRAWABLE and action["State"] == "waiting" else ""


def servers() -> list[Document]:
    """Return the game servers that have polled for actions within a day.

    If there are none, return the last one, which shows since when the game is stopped.
    """
    now = actions.now()
    known = [
        {"Name": game["_id"], "At": at, "IsLooking": is_looking(at, now)}
        for game in actions.games()
        if isinstance(at := game.get("LookedAt"), datetime)
    ]
    return [game for game in known if now - game["At"] < SERVERS_SHOWN_FOR] or known[:1]


def get_curl(*path: str, **query: str) -> str:
    base = request.host_url.rstrip("/")
    text = urlencode({name: value for name, value in query.items() if value})
    return curl(base, "GET", f"{api_path(*path)}{'?' if text else ''}{text}")


def chat_page(_: str, sent: Submission | None) -> Response:
    found = MESSAGES.find()
    values = {name: plain(request.args.get(name, "")) for name in ("to", "mapid", "player")}
    return render(
        "game/chat.html",
        sent=sent,
        actions=found.values,
        next=found.next,
        game_looks=actions.is_game_looking(),
        forms=forms_on([SAY], Target(path_to("chat"), values=values), sent),
    )


blp.add_url_rule("/game", "show_game", required(Permission.PLAYERS_READ)(show_game))
register(Place("/game", ("game",), {"": [RESTART_GAME]}, show_game, is_shown_elsewhere=True))
register(
    Place(
        "/game/<action_id>",
        ("game",),
        {"": [WITHDRAW]},
        show_action,
        needs=(Permission.GAME_ACT,),
    )
)
register(Place("/chat", ("chat",), {"": [SAY]}, chat_page, needs=(Permission.GAME_ACT,)))
