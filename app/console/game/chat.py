"""The chat: saying something to those who play, and what was said from here."""

from __future__ import annotations

from urllib.parse import quote

from flask import Response, request

from app.console.forms.declared import BY_NAME, Field, Form, Target
from app.console.forms.object_names import plain
from app.console.forms.places import Place, register
from app.console.forms.schemas import COLOUR, EVERYBODY, MAP, PLAYER, ChatTarget
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import PAGE_SIZE, asked, path_to, render
from app.console.game.action_cards import cards
from app.console.game.action_forms import MAP as MAP_FIELD
from app.game.actions.access import search
from app.game.actions.asking import EVERYBODY as WORLD
from app.game.actions.asking import Answer, ask, map_subject, player_subject
from app.game.actions.schemas import LONGEST_MESSAGE, ChatArgs, WarpArgs
from app.game.actions.store import Actions
from app.http.context import current
from app.http.cursors import Cursors
from app.naming import Lookup
from app.types import Document

# To whom something is said, and the field that says to which of them.
TARGETS = {EVERYBODY: "", MAP: "mapid", PLAYER: "player"}
LABELS = {EVERYBODY: "Everybody", MAP: "All on a map", PLAYER: "One player"}

actions = current(Actions)
cursors = current(Cursors)


def speak(sent: Submission) -> Answer:
    args = sent.load(ChatArgs())
    sent.args = sent.load(ChatTarget())
    if sent.is_checked("coloured"):
        args["Color"] = colour_of(sent.args["colour"])
    return ask("chat", subject_of(sent), args)


def subject_of(sent: Submission) -> Document:
    if sent.args["to"] == PLAYER:
        return player_subject(Lookup.parse(plain(sent.args["player"])))
    if sent.args["to"] == MAP:
        sent.args |= sent.load(WarpArgs())
        return map_subject(sent.args["mapid"])
    return WORLD


def after_speaking(answer: Answer, sent: Submission) -> Response:
    """Lead back to the chat: the next message is for the same ones."""
    to = sent.args["to"]
    chosen = {name: sent.value(name) for name in [TARGETS[to]] if name}
    return asked(answer, path_to("chat", to=to if chosen else None, **chosen))


def chat_page(_: str, sent: Submission | None) -> Response:
    found = search({"kind": "chat", "after": request.args.get("after", "")}, PAGE_SIZE)
    to = sent.value("to") if sent else request.args.get("to", "")
    values = {name: plain(request.args.get(name, "")) for name in ("mapid", "player")}
    return render(
        "game/chat.html",
        sent=sent,
        page="chat",
        to=to if to in TARGETS else EVERYBODY,
        targets=LABELS,
        first_colour=COLOUR,
        actions=cards(found.values),
        next=cursors.write(found.next),
        game_looks=actions.is_game_looking(),
        forms=forms_on([SAY], Target(path_to("chat"), values=values), sent),
    )


def chat_api(sent: Submission) -> str:
    paths = {MAP: "proximity/<mapid>", PLAYER: f"direct/{quote(sent.value('player') or 'PLAYER')}"}
    return f"POST /api/v1/chat/{paths.get(sent.value('to'), 'global')}"


def chat_body(sent: Submission) -> Document:
    coloured = sent.is_checked("coloured") and sent.args.get("colour")
    colour = {"Color": colour_of(sent.args["colour"])} if coloured else {}
    return {"Message": sent.value("Message"), **colour}


def colour_of(text: str) -> Document:
    """Return a colour as the API has it."""
    parts = bytes.fromhex(text[1:])
    return {"A": 255, **dict(zip("RGB", parts, strict=True))}


LINE = {"maxlength": LONGEST_MESSAGE, "autocomplete": "off"}
SAY = Form(
    None,
    "Say something",
    "Say",
    (
        MAP_FIELD,
        Field("player", "Player", BY_NAME, suggest="player"),
        Field(
            "Message",
            "Message",
            "It cannot be taken back.",
            html=LINE,
        ),
    ),
    name="chat",
    path="",
    act=speak,
    api=chat_api,
    body=chat_body,
    # To whom it goes is a choice, and the message stands beside its button.
    template="game/chat_fields.html",
    layout="say",
    line="Message",
    asks_reason=False,
    takes_key=True,
    lead=after_speaking,
)
register(Place("/chat", ("chat",), {"": [SAY]}, chat_page))
