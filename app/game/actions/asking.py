"""Requests an action from the running game, waits briefly for its answer, and lists actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from app.auth import guard
from app.auth.spending import allowances_of, spend, unaskable
from app.core.changes import Intent
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions.domain import (
    LETTER,
    ActionFailed,
    ActionLapsed,
    error_of,
    state_of,
)
from app.game.actions.store import actions
from app.history.access import require_users, sees_users
from app.http.cursors import cursors
from app.http.intents import action_intent, origin, sent_key, with_key
from app.players.guilds import guilds
from app.players.store import players
from app.users.store import users

WHITE: Document = dict.fromkeys("ARGB", 255)
EVERYBODY: Document = {"Kind": "world", "Id": None, "Name": None}


class Answer(NamedTuple):
    """An action after the request has waited: done, or still open."""

    action: Document
    replayed: bool


def find_player(key: Lookup) -> Document:
    try:
        found = players.identity(key)
    except NotFound as missing:
        return subject_before(missing)
    return {"Kind": "player", "Id": found.id, "Name": found.name}


def find_user(key: Lookup) -> Document:
    try:
        found = users.get(key, "Name")
    except NotFound as missing:
        return subject_before(missing)
    subject = {"Kind": "user", "Id": found["_id"], "Name": str(found.get("Name"))}
    characters = players.list_of_user(found["_id"])
    playing = next((str(one["Name"]) for one in characters if one["Online"]), None)
    return {**subject, "Character": playing} if playing else subject


def find_map(map_id: str) -> Document:
    return {"Kind": "map", "Id": map_id, "Name": None}


def find_guild(guild_id: str) -> Document:
    try:
        found = guilds.get(guild_id, "Name")
    except NotFound as missing:
        return subject_before(missing)
    return {"Kind": "guild", "Id": guild_id, "Name": str(found.get("Name"))}


def subject_before(missing: NotFound) -> Document:
    """Return whom a retry was for, who was renamed or deleted since; raise if it is no retry."""
    key = Lookup.parse(str(missing.key))
    subject = {"Kind": missing.kind, "Id": key.id, "Name": key.text}
    retry = with_key(Intent("", origin(is_change=False)), sent_key(), {})
    earlier = actions.find_same_key(subject, retry)
    if earlier is None:
        raise missing
    before: Document = earlier["Subject"]
    return before


def ask(kind: str, whom: Document, args: Document) -> Answer:
    """Ask the game for an action; raise if the game refuses it, or if no game took it in time."""
    if kind == "warp":
        # Without coordinates, the game chooses them on the map.
        args = {"MapId": args["mapid"], "X": args.get("x"), "Y": args.get("y")}
    if kind == "chat":
        color, target = args.get("Color"), args.get("Target")
        completed = {**WHITE, **color} if color else None
        args = {"Message": args["Message"], "Color": completed, "Target": target or None}
    asked = actions.ask(whom, action_intent(kind, args))
    action = actions.wait(asked.answer)
    state = state_of(action, actions.now())
    if state == "failed":
        raise ActionFailed(error_of(action))
    if state == "lapsed":
        raise ActionLapsed
    return Answer(action, asked.replayed)


@unaskable()
def send_letter(key: Lookup, args: Document) -> Answer:
    """Send a letter, whose items count as moved now; it waits until a game takes it."""
    moved = _quantities(args["Items"])
    if moved:
        guard.caller().require(Permission.ITEMS_MOVE)
    whom, meant = find_player(key), action_intent(LETTER, args)
    send = partial(actions.ask, whom, meant)
    sent = spend(moved or None, send, partial(actions.find_earlier, whom, meant))
    return Answer(sent.answer, sent.replayed)


@unaskable()
def withdraw(action_id: str) -> Document:
    """Withdraw a letter or a restart; a letter's items must be within the caller's limits."""
    items = actions.get(action_id)["Arguments"].get("Items")
    for one in allowances_of(guard.caller()) if items else ():
        one.require(_quantities(items))
    return actions.withdraw(action_id)


def _quantities(items: Sequence[Document]) -> dict[str, int]:
    """Return how many of each item there are."""
    quantities: Counter[str] = Counter()
    for item in items:
        quantities[item["ItemId"]] += item["Quantity"]
    return quantities


def visible_action(action_id: str) -> Document:
    action = actions.get(action_id)
    if action["Subject"]["Kind"] == "user":
        require_users()
    return action


def search(args: Document, size: int) -> CursorPage:
    """Return a page of the actions that match a query and that the caller may see."""
    where: Document = {}
    ids = []
    if "user" in args:
        require_users()
        ids.append(users.get(Lookup.parse(args["user"]), "_id")["_id"])
    if "player" in args:
        ids.append(players.get_id_ever(Lookup.parse(args["player"])))
    if ids:
        # An action has one subject: no action matches both a player and a user.
        where["Subject.Id"] = {"$all": ids}
    if "kind" in args:
        where["Kind"] = args["kind"]
    if not sees_users():
        where["Subject.Kind"] = {"$ne": "user"}
    return actions.list(where, size, cursors.read(args.get("after", "")))
