"""The chat: saying something to those who play, and what was said from here."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.console.forms.forms import Form, attempt, form_status, plain
from app.console.forms.schemas import COLOUR, EVERYBODY, MAP, PLAYER, ChatTarget
from app.console.frame.pages import PAGE_SIZE, asked, blp, path_to, render, required
from app.console.game.action_cards import action_curl, cards
from app.game.actions.access import search
from app.game.actions.asking import EVERYBODY as WORLD
from app.game.actions.asking import Answer, map_subject, player_subject, say
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


@blp.get("/chat")
@required()
def show_chat() -> Response:
    return chat_page()


@blp.post("/chat")
@required()
def say_something() -> Response:
    form = Form.posted("chat")
    answer = attempt(form, lambda: said(form))
    if answer is None:
        return chat_page(form)
    # The next message is for the same ones.
    to = form.args["to"]
    chosen = {name: form.value(name) for name in [TARGETS[to]] if name}
    return asked(answer, path_to("chat", to=to if chosen else None, **chosen))


def said(form: Form) -> Answer:
    args = form.load(ChatArgs())
    target = form.load(ChatTarget())
    form.args = target
    if form.is_checked("coloured"):
        args["Color"] = colour_of(target["colour"])
    return say(subject_of(form, target), args)


def subject_of(form: Form, target: dict[str, Any]) -> Document:
    if target["to"] == PLAYER:
        return player_subject(Lookup.parse(plain(target["player"])))
    if target["to"] == MAP:
        form.args |= form.load(WarpArgs(), mapid="map")
        return map_subject(form.args["mapid"])
    return WORLD


def chat_page(form: Form | None = None) -> Response:
    found = search({"kind": "chat", "after": request.args.get("after", "")}, PAGE_SIZE)
    to = form.value("to") if form else request.args.get("to", "")
    return render(
        "game/chat.html",
        form_status(form),
        page="chat",
        form=form,
        to=to if to in TARGETS else EVERYBODY,
        targets=LABELS,
        given={name: plain(request.args.get(name, "")) for name in ("mapid", "player")},
        first_colour=COLOUR,
        longest=LONGEST_MESSAGE,
        actions=cards(found.values),
        next=cursors.write(found.next),
        game_looks=actions.is_game_looking(),
        curl=chat_curl(form),
    )


def chat_curl(form: Form | None) -> str:
    if form is None:
        return action_curl(None, {"Message": ""}, "chat", "global")
    coloured = form.is_checked("coloured") and form.args.get("colour")
    body: dict[str, Any] = {"Message": form.value("Message")}
    body |= {"Color": colour_of(form.args["colour"])} if coloured else {}
    paths = {
        MAP: ("chat", "proximity", form.args.get("mapid") or "MAP-ID"),
        PLAYER: ("chat", "direct", form.value("player") or "PLAYER"),
    }
    return action_curl(form, body, *paths.get(form.value("to"), ("chat", "global")))


def colour_of(text: str) -> Document:
    """Return a colour as the API has it."""
    parts = bytes.fromhex(text[1:])
    return {"A": 255, **dict(zip("RGB", parts, strict=True))}
