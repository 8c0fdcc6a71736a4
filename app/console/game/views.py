"""The pages of the game: its servers, the actions and their results, and the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from urllib.parse import quote

from flask import Response, request

from app.auth import guard
from app.console.forms.declared import (
    BY_NAME,
    NOT_COMPLETED,
    NOT_UNDONE,
    Field,
    Form,
    Group,
    Target,
)
from app.console.forms.places import Place
from app.console.forms.schemas import COLOUR, EVERYBODY, MAP, PLAYER, ChatForm, LetterForm
from app.console.forms.submissions import Submission, curl, forms_on, plain, query_text
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import done, path_to, render, with_query
from app.console.game.actions import cards, coming_restart
from app.console.health.views import online_plot, samples_of_day
from app.console.history.tables import last_changes
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions import asking
from app.game.actions.asking import EVERYBODY as WORLD
from app.game.actions.asking import Answer, ask, find_map, find_player, send_letter, withdraw
from app.game.actions.domain import (
    KINDS,
    LETTER,
    LOOKED_WITHIN,
    RESTART,
    TAKEN_WITHIN,
    WITHDRAWABLE,
)
from app.game.actions.schemas import ActionListArgs, ChatArgs, RestartArgs, WarpToPlaceArgs
from app.game.actions.store import actions
from app.http.parser import load
from app.players.store import players

COLUMNS = columns("At Kind Subject What State Error By Via Reason Id")
KIND_LABELS = {"": "anything", **{kind: kind.replace("-", " ") for kind in KINDS}}
ACTIONS = ListPage(
    "/game",
    (Permission.GAME_ACT,),
    asking.search,
    COLUMNS,
    (
        Field("kind", "What", type="select", options=lambda: KIND_LABELS),
        Field("player", "Player", suggest="player"),
        Field("user", "User"),
    ),
    schema=ActionListArgs(),
    cards=cards,
)


def show_game() -> Response:
    # Actions hold messages and letters to players.
    found = ACTIONS.find() if guard.caller().may(Permission.GAME_ACT) else None
    return render(
        "game/game.html",
        found and found.status,
        forms=forms_on([RESTART_GAME], Target(path_to("game"))),
        servers=servers(),
        restart=coming_restart(),
        seconds=LOOKED_WITHIN.seconds,
        online=players.count_online(),
        plot=online_plot(samples_of_day()),
        found=found,
        entries=last_changes(),
        curls={
            "actions": found and get_curl("actions", **found.wanted),
            "events": get_curl("events", after="now"),
        },
    )


def show_action(action_id: str) -> Response:
    (action,) = cards([asking.visible_action(action_id)])
    kind, state = action["Kind"], action["State"]
    # What the button says; empty if the action cannot be withdrawn.
    button = "Withdraw" if kind in WITHDRAWABLE and state == "waiting" else ""
    if kind == RESTART and state == "taken":
        button = "Stop the countdown"
    target = Target(path_to("game", action_id), action_id, button)
    return render(
        "game/action.html",
        action=action,
        seconds=TAKEN_WITHIN.seconds,
        curl=get_curl(f"actions/{action_id}"),
        forms=forms_on([WITHDRAW], target),
    )


def servers() -> Sequence[Document]:
    """Return the game servers that have polled for actions within a day.

    If there are none, return the last one, which shows since when the game is stopped.
    """
    now, known = actions.now(), actions.games()
    for game in known:
        game["IsLooking"] = abs(now - game["LookedAt"]) <= LOOKED_WITHIN
    return [game for game in known if now - game["LookedAt"] < timedelta(days=1)] or known[:1]


def get_curl(path: str, **query: str) -> str:
    return curl("GET", with_query(f"{request.host_url}api/v1/{path}", query.items()), {})


IN_THE_GAME = "In the game"
MAP_FIELD = Field("mapid", "Map", BY_NAME, object_type="map")
PLAYER_FIELD = Field("player", "Player", BY_NAME, suggest="player")
X, Y = (Field(axis, axis.upper(), type="number", is_required=False) for axis in "xy")


def action_forms(part: str, find: Callable[[Lookup], Document]) -> tuple[Form, Form, Form]:
    path = f"POST /api/v1/{part}/<key>/admin"
    warp, kick, kill = (
        Form(
            None,
            f"{kind.capitalize()}…",
            f"{kind.capitalize()} {{name}}",
            card=IN_THE_GAME,
            act=lambda key, kind=kind: ask(kind, find(key), {}),
            api=f"{path}/{kind}",
            about=KINDS[kind].about,
            needs=(KINDS[kind].permission,),
            confirm=NOT_UNDONE,
        )
        for kind in ("warp", "kick", "kill")
    )
    warp = replace(
        warp,
        fields=(MAP_FIELD, Group("halves", (X, Y))),
        schema=WarpToPlaceArgs(partial=("x", "y")),
        act=partial(warp_somebody, find),
        api=lambda sent: f"{path}/{'warptoloc' if has_place(sent) else 'warpto'}",
    )
    return warp, kick, kill


def warp_somebody(find: Callable[[Lookup], Document], key: Lookup, args: Document) -> Answer:
    """Request a warp: to coordinates on a map if one of them was typed, otherwise to the map."""
    if "x" in args or "y" in args:
        load(WarpToPlaceArgs(), args)
    return ask("warp", find(key), args)


def has_place(sent: Submission) -> bool:
    return bool(sent.value("x") or sent.value("y"))


MESSAGE = Form(
    None,
    "Send a message…",
    "Tell {name}",
    (Field("Message", "Message", html=NOT_COMPLETED),),
    name="message",
    card=IN_THE_GAME,
    act=lambda key, args: ask("chat", find_player(key), args),
    api="POST /api/v1/chat/direct/<key>",
    needs=(KINDS["chat"].permission,),
    about=f"Only this player reads it. {KINDS['chat'].about}",
    schema=ChatArgs(),
    asks_reason=False,
)
SEND_LETTER = replace(
    MESSAGE,
    title="Send a letter…",
    button="Send to {name}",
    fields=(
        Field("Message", "Message", type="area", html={"rows": 4}),
        Field("itemid", "Item", BY_NAME, is_required=False, object_type="item"),
        Field("quantity", "Quantity", value=1, is_required=False),
    ),
    name="letter",
    act=send_letter,
    api="POST /api/v1/players/<key>/letters",
    about="The player gets it, with the item, when online. Until the game takes it, you can "
    "withdraw it.",
    schema=LetterForm(),
    body=lambda sent: sent.args or {"Message": sent.value("Message"), "Items": []},
    asks_reason=True,
)
WITHDRAW = Form(
    None,
    "Withdraw",
    "{name}",
    act=withdraw,
    api="POST /api/v1/actions/<key>/withdraw",
    needs=(KINDS[LETTER].permission,),
    asks_reason=False,
    is_quiet=True,
    is_offered=lambda at: at.name,
    notice="withdrawn",
)
RESTART_GAME = Form(
    None,
    "Restart the game…",
    "Restart",
    (
        Field("Minutes", "Minutes", "Until the restart; 0 means at once.", value=10),
        Field("Message", "Message to everybody", html=NOT_COMPLETED),
    ),
    name=RESTART,
    path="",
    card=IN_THE_GAME,
    act=lambda args: ask(RESTART, WORLD, args),
    api="POST /api/v1/game/restart",
    needs=(KINDS[RESTART].permission,),
    about=KINDS[RESTART].about,
    schema=RestartArgs(),
    is_danger=True,
)


def say(args: Document) -> Answer:
    whom = WORLD
    if args["to"] == PLAYER:
        whom = find_player(Lookup.parse(plain(args["player"])))
    if args["to"] == MAP:
        whom = find_map(args["mapid"])
    return ask("chat", whom, args)


def chat_body(sent: Submission) -> Document:
    """Return the body for the API: the message, and the colour if one is chosen."""
    body = {"Message": sent.value("Message"), "Color": sent.args.get("Color")}
    return {name: value for name, value in body.items() if value is not None}


def chat_api(sent: Submission) -> str:
    paths = {MAP: "proximity/<mapid>", PLAYER: f"direct/{quote(sent.value('player') or 'PLAYER')}"}
    return f"POST /api/v1/chat/{paths.get(sent.value('to'), 'global')}"


LISTENERS = ("to", "mapid", "player")


def after_speaking(answer: Answer, sent: Submission) -> Response:
    """Redirect to the chat, with the same listeners for the next message."""
    chosen = {name: sent.value(name) for name in LISTENERS if name in sent.args}
    return done(answer, path_to("chat", **chosen))


def chat_target(path: str) -> Target:
    """Return the target of the chat form, with the listeners in the query."""
    return Target(path, values={name: query_text(name) for name in LISTENERS})


WHOM = {EVERYBODY: "Everybody", MAP: "Everybody on a map", PLAYER: "One player"}
LISTENER_FIELDS = (
    Field("to", "To whom", value=EVERYBODY, type="radio", options=lambda: WHOM),
    replace(MAP_FIELD, is_required=True, only_with=(MAP,)),
    replace(PLAYER_FIELD, is_required=True, only_with=(PLAYER,)),
)
COLOUR_FIELD = Field("colour", "", value=COLOUR, type="color", html={"aria-label": "Colour"})
SAY = Form(
    None,
    "Say something",
    "Say",
    (
        Group("", LISTENER_FIELDS, legend="To whom"),
        Group("colour", (Field("coloured", "Choose a colour"), COLOUR_FIELD)),
        Field("Message", "Message", KINDS["chat"].about, html=NOT_COMPLETED),
    ),
    name="chat",
    path="",
    act=say,
    api=chat_api,
    schema=ChatForm(),
    body=chat_body,
    layout="say",
    line="Message",
    asks_reason=False,
    lead=after_speaking,
)
Place("/game", {"": [RESTART_GAME]}, show_game, needs=(Permission.PLAYERS_READ,))
Place("/game/<action_id>", {"": [WITHDRAW]}, show_action, needs=(Permission.GAME_ACT,))
ListPage(
    "/chat",
    (Permission.GAME_ACT,),
    lambda wanted, size: asking.search({"kind": "chat", **wanted}, size),
    COLUMNS,
    template="game/chat.html",
    about=lambda _: {"game_looks": actions.is_game_looking()},
    forms=(SAY,),
    target=chat_target,
    cards=cards,
)
