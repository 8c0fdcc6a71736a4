"""The forms that ask the game to do something to a player, or to whoever plays with an account."""

from __future__ import annotations

from dataclasses import replace

from app.console.forms.declared import BY_NAME, NOT_UNDONE, Field, Form, Group
from app.console.forms.submissions import Submission
from app.game.actions.asking import Answer, ask, player_subject, user_subject
from app.game.actions.schemas import ChatArgs, WarpArgs, WarpToPlaceArgs
from app.naming import Lookup
from app.types import Document

MAP = Field("mapid", "Map", BY_NAME, object_type="map")


def subject_of(sent: Submission, key: Lookup) -> Document:
    return user_subject(key) if sent.kind == "user" else player_subject(key)


def warp_somebody(sent: Submission, key: Lookup) -> Answer:
    """Ask for a warp: to a place on a map where one was typed, otherwise to the map."""
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


def place(axis: str) -> Field:
    return Field(axis, axis.upper(), type="number", is_required=False, html={"step": 1})


KICK = Form(
    None,
    "Kick…",
    "Kick {name}",
    name="kick",
    act=lambda sent, key: ask(sent.form.name, subject_of(sent, key), {}),
    api=endpoint,
    about="Out of the game, but free to come back at once: a ban keeps out.",
    confirm=NOT_UNDONE,
    takes_key=True,
)
KILL = replace(
    KICK,
    name="kill",
    title="Kill…",
    button="Kill {name}",
    about="What a death costs, the game decides.",
)
WARP = replace(
    KICK,
    name="warp",
    title="Warp…",
    button="Warp {name}",
    act=warp_somebody,
    about="Without a place, the game chooses one.",
    fields=(MAP, Group("halves", (place("x"), place("y")))),
)
MESSAGE = Form(
    None,
    "Send a message…",
    "Tell {name}",
    (Field("Message", "Message", html={"autocomplete": "off"}),),
    name="message",
    act=lambda sent, key: ask("chat", player_subject(key), sent.args),
    api="POST /api/v1/chat/direct/<key>",
    about=lambda target: [f"Only {target.name} reads it. It cannot be taken back."],
    schema=ChatArgs(),
    asks_reason=False,
    takes_key=True,
)
