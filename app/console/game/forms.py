"""The forms that request actions from the game: on a player or a user, and in the chat."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from flask import Response

from app.console.forms.declared import BY_NAME, NOT_UNDONE, Field, Form, Group
from app.console.forms.object_names import plain
from app.console.forms.schemas import COLOUR, EVERYBODY, MAP, PLAYER, ChatForm, LetterForm
from app.console.forms.submissions import Submission
from app.console.frame.pages import path_to, redirect_to_action, see_other
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions.asking import EVERYBODY as WORLD
from app.game.actions.asking import (
    Answer,
    ask,
    map_subject,
    player_subject,
    send_letter,
    user_subject,
    withdraw,
)
from app.game.actions.domain import KINDS, LETTER, RESTART, Recipient
from app.game.actions.schemas import ChatArgs, RestartArgs, WarpArgs, WarpToPlaceArgs
from app.http.path_converters import path_guid

IN_THE_GAME = "In the game"
WITHDRAWN = "Until the game takes it, you can withdraw it."
# The kinds of listeners, and the field that selects one.
TARGETS = {EVERYBODY: "", MAP: "mapid", PLAYER: "player"}
LABELS = {EVERYBODY: "Everybody", MAP: "Everybody on a map", PLAYER: "One player"}


def subject_of(sent: Submission, key: Lookup) -> Recipient:
    return user_subject(key) if sent.kind == "user" else player_subject(key)


def warp_somebody(sent: Submission, key: Lookup) -> Answer:
    """Request a warp: to coordinates on a map if they were typed, otherwise to the map."""
    sent.args = sent.load(WarpToPlaceArgs() if has_place(sent) else WarpArgs())
    return ask("warp", subject_of(sent, key), sent.args)


def has_place(sent: Submission) -> bool:
    return bool(sent.value("x") or sent.value("y"))


def endpoint(sent: Submission) -> str:
    kind = "users" if "/users/" in sent.target.path else "players"
    verb = sent.form.name
    if verb == "warp":
        verb = "warptoloc" if has_place(sent) else "warpto"
    return f"POST /api/v1/{kind}/<key>/admin/{verb}"


def action_form(kind: str) -> Form:
    """Return the form that requests an action on a player or a user."""
    return Form(
        None,
        f"{kind.capitalize()}…",
        f"{kind.capitalize()} {{name}}",
        card=IN_THE_GAME,
        act=lambda sent, key: ask(kind, subject_of(sent, key), {}),
        api=endpoint,
        about=KINDS[kind].about,
        needs=(KINDS[kind].permission,),
        confirm=NOT_UNDONE,
        takes_key=True,
    )


MAP_FIELD = Field("mapid", "Map", BY_NAME, object_type="map")
PLAYER_FIELD = Field("player", "Player", BY_NAME, suggest="player")
X, Y = (
    Field(axis, axis.upper(), type="number", is_required=False, html={"step": 1}) for axis in "xy"
)
KICK, KILL = action_form("kick"), action_form("kill")
WARP = replace(action_form("warp"), act=warp_somebody, fields=(MAP_FIELD, Group("halves", (X, Y))))
MESSAGE = Form(
    None,
    "Send a message…",
    "Tell {name}",
    (Field("Message", "Message", html={"autocomplete": "off"}),),
    name="message",
    card=IN_THE_GAME,
    act=lambda sent, key: ask("chat", player_subject(key), sent.args),
    api="POST /api/v1/chat/direct/<key>",
    needs=(KINDS["chat"].permission,),
    about=lambda target: [f"Only {target.name} reads it. {KINDS['chat'].about}"],
    schema=ChatArgs(),
    asks_reason=False,
    takes_key=True,
)


def letter_body(sent: Submission) -> Document:
    """Return the body for the API: the message, and the item if one is chosen."""
    item = {"ItemId": sent.args.get("itemid"), "Quantity": sent.args.get("quantity", 1)}
    message = sent.args.get("Message", sent.value("Message"))
    return {"Message": message, "Items": [item] if item["ItemId"] else []}


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
    act=lambda sent, key: send_letter(key, letter_body(sent)),
    api="POST /api/v1/players/<key>/letters",
    about=lambda target: [f"{target.name} gets it, with the item, when online. {WITHDRAWN}"],
    schema=LetterForm(),
    body=letter_body,
    asks_reason=True,
)
WITHDRAW = Form(
    None,
    "Withdraw",
    "{name}",
    act=lambda _, action_id: withdraw(path_guid("id", action_id)),
    api="POST /api/v1/actions/<key>/withdraw",
    needs=(KINDS[LETTER].permission,),
    asks_reason=False,
    is_quiet=True,
    is_offered=lambda at: bool(at.name),
    lead=lambda action, *_, **__: see_other(path_to("game", action["_id"])),
)
RESTART_GAME = Form(
    None,
    "Restart the game…",
    "Restart",
    (
        Field("Minutes", "Minutes", "Until the restart; 0 means at once.", value=10),
        Field("Message", "Message to everybody", html={"autocomplete": "off"}),
    ),
    name=RESTART,
    card=IN_THE_GAME,
    act=lambda sent: ask(RESTART, WORLD, sent.args),
    api="POST /api/v1/game/restart",
    needs=(Permission.PLAYERS_READ, KINDS[RESTART].permission),
    about=KINDS[RESTART].about,
    schema=RestartArgs(),
    is_danger=True,
    takes_key=True,
    lead=lambda answer, *_: redirect_to_action(answer, path_to("game")),
)


def listeners(args: Document) -> Recipient:
    if args["to"] == PLAYER:
        return player_subject(Lookup.parse(plain(args["player"])))
    return map_subject(args["mapid"]) if args["to"] == MAP else WORLD


def chat_body(sent: Submission) -> Document:
    """Return the body for the API: the message, and the colour if one is chosen."""
    body: Document = {"Message": sent.args.get("Message", sent.value("Message"))}
    if sent.is_checked("coloured") and sent.args:
        parts = bytes.fromhex(sent.args["colour"][1:])
        body["Color"] = {"A": 255, **dict(zip("RGB", parts, strict=True))}
    return body


def chat_api(sent: Submission) -> str:
    paths = {MAP: "proximity/<mapid>", PLAYER: f"direct/{quote(sent.value('player') or 'PLAYER')}"}
    return f"POST /api/v1/chat/{paths.get(sent.value('to'), 'global')}"


def after_speaking(answer: Answer, sent: Submission) -> Response:
    """Redirect to the chat, with the same listeners for the next message."""
    to = sent.args["to"]
    chosen = {name: sent.value(name) for name in [TARGETS[to]] if name}
    return redirect_to_action(answer, path_to("chat", to=to if chosen else None, **chosen))


SAY = Form(
    None,
    "Say something",
    "Say",
    (
        Group(
            "",
            (
                Field("to", "To whom", value=EVERYBODY, type="radio", options=lambda: LABELS),
                replace(MAP_FIELD, is_required=True, only_with=(MAP,)),
                replace(PLAYER_FIELD, is_required=True, only_with=(PLAYER,)),
            ),
            legend="To whom",
        ),
        Group(
            "colour",
            (
                Field("coloured", "Choose a colour", type="check"),
                Field("colour", "", value=COLOUR, type="color", html={"aria-label": "Colour"}),
            ),
        ),
        Field("Message", "Message", KINDS["chat"].about, html={"autocomplete": "off"}),
    ),
    name="chat",
    path="",
    act=lambda sent: ask("chat", listeners(sent.args), chat_body(sent)),
    api=chat_api,
    schema=ChatForm(),
    body=chat_body,
    layout="say",
    line="Message",
    asks_reason=False,
    takes_key=True,
    lead=after_speaking,
)
