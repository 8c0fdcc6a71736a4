"""Actions of the game as pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from app.auth import guard
from app.auth.permissions import Permission
from app.console.stores import actions, objects
from app.game.actions.domain import GUILD_VARIABLE, KINDS, LETTER, RESTART, place_of, public_action
from app.game.actions.store import ActionFilters
from app.texts import Names, name_of, short_text
from app.types import Document, whole

# The prefix of a notice about an action.
MARK = "action:"
LAST_ACTIONS = 5
# The states in which an answer may still come.
PENDING = ("waiting", "taken")
# How long a page polls for the answer.
FOLLOWED = timedelta(minutes=2)
# The labels of states that differ from the API.
STATES = {"taken": "in progress", "lapsed": "expired"}


def cards(found: Iterable[Document]) -> list[Document]:
    """Return actions as pages show them, with the names of maps."""
    now = actions.now()
    records = [public_action(action, now) for action in found]
    ids: list[Any] = []
    for record in records:
        ids += [record["Arguments"].get("MapId"), *(i.get("ItemId") for i in _items(record))]
        ids += [record["Subject"]["Id"]] if record["Subject"]["Kind"] == "map" else []
    known = {id_ for id_ in ids if isinstance(id_, str)}
    names = objects.names_of(known) if known else {}
    shown = []
    for record in records:
        is_pending = record["State"] in PENDING
        words = {
            "What": what(record, names),
            "Order": order(record, names),
            "Whom": whom(record["Subject"], names),
            "StateWord": STATES.get(record["State"], record["State"]),
            "News": notice(record, names),
            "IsPending": is_pending,
            "IsFollowed": is_pending and now - record["At"] < FOLLOWED,
            "IsBad": record["State"] in ("failed", "lapsed"),
        }
        shown.append({**record, **words})
    return shown


def _items(action: Document) -> list[Document]:
    items = action["Arguments"].get("Items")
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def whom(subject: Document, names: Names) -> str:
    if subject["Kind"] == "world":
        return "everybody"
    if subject["Kind"] == "map":
        return name_of(subject["Id"], names)
    return str(subject["Name"] or subject["Id"])


def what(action: Document, names: Names) -> str:
    """Return what was requested, without the subject."""
    if action["Kind"] in ("chat", LETTER):
        given = [
            f"{short_text(item.get('Quantity'))} {name_of(item.get('ItemId'), names)}"
            for item in _items(action)
        ]
        return ", ".join([f"“{action['Arguments'].get('Message')}”", *given])
    if action["Kind"] == RESTART:
        asked = order(action, names)
        return f"{asked[:1].upper()}{asked[1:]}: “{action['Arguments'].get('Message')}”"
    if action["Kind"] == GUILD_VARIABLE:
        return "Set a variable"
    return f"{action['Kind'].capitalize()}{_where(action, names)}"


def order(action: Document, names: Names) -> str:
    """Return what was requested, with the subject: kick Amelia."""
    somebody = whom(action["Subject"], names)
    if action["Kind"] == RESTART:
        minutes = action["Arguments"].get("Minutes")
        return f"restart after {minutes} {'minute' if minutes == 1 else 'minutes'}"
    if action["Kind"] == GUILD_VARIABLE:
        return f"set a variable of {somebody}"
    if action["Kind"] not in ("chat", LETTER):
        return f"{action['Kind']} {somebody}{_where(action, names)}"
    message = short_text(action["Arguments"].get("Message"))
    to = f"all on {somebody}" if action["Subject"]["Kind"] == "map" else somebody
    return f"{'deliver' if action['Kind'] == LETTER else 'say'} “{message}” to {to}"


def _where(action: Document, names: Names) -> str:
    if action["Kind"] != "warp":
        return ""
    return f" to {name_of(action['Arguments'].get('MapId'), names)}{place_of(action)}"


def notice(action: Document, names: Names) -> str:
    """Return the notice about an action that was just requested."""
    asked = order(action, names)
    past = KINDS[action["Kind"]].past if action["Kind"] in KINDS else "Done:"
    sentences = {
        "done": f"{past} {asked.partition(' ')[2]}.",
        "failed": f"The game did not {asked}: {action['Error']}",
        "withdrawn": f"The {action['Kind']} was withdrawn.",
        "lapsed": f"No game server took it in time, so nothing was done: {asked}.",
    }
    under_way = f"The game was asked to {asked}. It has not answered yet."
    if action["Kind"] == RESTART and action["State"] == "taken":
        under_way = f"The game counts down: it will {asked}."
    if action["Kind"] == LETTER:
        under_way = f"The letter waits until {whom(action['Subject'], names)} is online."
    return sentences.get(action["State"], under_way)


def coming_restart() -> Document | None:
    """Return the restart to which the game counts down, with the time when it is due."""
    for last in cards(actions.list(ActionFilters(kind=RESTART), 1, b"").values):
        minutes = whole(last["Arguments"].get("Minutes")) or 0
        due = last["At"] + timedelta(minutes=min(max(minutes, 0), 60))
        if last["State"] == "taken" and due > actions.now():
            return {**last, "DueAt": due}
    return None


def game_stopped() -> datetime | None:
    """Return when the last game server polled; None if one runs, or none has ever run."""
    games = actions.games()
    return games[0].get("LookedAt") if games and not actions.is_game_looking() else None


def actions_part(id_: str) -> dict[str, Any]:
    """Return the part about the game on the page of a player or a user."""
    last = actions.list(ActionFilters(id_), LAST_ACTIONS, b"").values if sees_actions() else []
    return {"asked": cards(last), "game_looks": actions.is_game_looking()}


def sees_actions() -> bool:
    """Tell whether the caller may see actions: they hold messages and letters to players."""
    return guard.caller().may(Permission.GAME_ACT)
