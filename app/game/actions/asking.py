"""Requests an action from the running game, and waits briefly for its answer."""

from __future__ import annotations

from typing import NamedTuple

from app.game.actions.domain import ActionFailed, ActionLapsed, error_of, state_of
from app.game.actions.store import Actions
from app.http.context import current
from app.http.intents import action_intent
from app.http.masking import masked
from app.naming import Lookup
from app.players.store import Players
from app.types import Document
from app.users.store import Users

actions = current(Actions)
players = current(Players)
users = current(Users)

WHITE: Document = dict.fromkeys("ARGB", 255)
EVERYBODY: Document = {"Kind": "world", "Id": None, "Name": None}


class Answer(NamedTuple):
    """The state of an action after the request has waited: done, or still open."""

    action: Document
    is_done: bool
    replayed: bool


def player_subject(key: Lookup) -> Document:
    found = players.identity(key)
    return {"Kind": "player", "Id": found.id, "Name": found.name}


def user_subject(key: Lookup) -> Document:
    found = users.get(key, "Name")
    return {"Kind": "user", "Id": found["_id"], "Name": str(found.get("Name"))}


def map_subject(map_id: str) -> Document:
    return {"Kind": "map", "Id": map_id, "Name": None}


def warp_arguments(args: Document) -> Document:
    """Return the destination of a warp; without coordinates, the game chooses them on the map."""
    return {"MapId": args["mapid"], "X": args.get("x"), "Y": args.get("y")}


def chat_arguments(args: Document) -> Document:
    """Return the message, with tokens masked: many people read it."""
    return {
        "Message": masked(args["Message"]),
        "Color": {**WHITE, **args["Color"]} if args.get("Color") else None,
        "Target": masked(args["Target"]) if args.get("Target") else None,
    }


# By kind of action, the function that turns request arguments into those of the game.
ARGUMENTS = {"warp": warp_arguments, "chat": chat_arguments}


def ask(kind: str, subject: Document, args: Document) -> Answer:
    """Ask the game for an action; raise if the game refuses it, or if no game took it in time."""
    arguments = ARGUMENTS[kind](args) if kind in ARGUMENTS else {}
    asked = actions.ask(subject, action_intent(kind, arguments))
    action = actions.wait(asked.action)
    state = state_of(action, actions.now())
    if state == "failed":
        raise ActionFailed(error_of(action))
    if state == "lapsed":
        raise ActionLapsed
    return Answer(action, state == "done", asked.replayed)
