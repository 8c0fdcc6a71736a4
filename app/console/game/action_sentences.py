"""What an action of the game tells a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from app.console.history.sentences import Names, name_of, shown
from app.game.actions.domain import place_of
from app.types import Document

# The states in which an answer may still come.
PENDING = ("waiting", "taken")
# For how long a page looks whether the answer has come.
FOLLOWED = timedelta(minutes=2)
STATES = {
    "waiting": "waiting",
    "taken": "under way",
    "done": "done",
    "failed": "not done",
    "lapsed": "lapsed",
}
PAST = {"kick": "Kicked", "kill": "Killed", "warp": "Warped", "chat": "Said"}
EVERYBODY = "everybody"


def map_ids(actions: Iterable[Document]) -> set[str]:
    """Return the ids of the maps that some actions are about."""
    found = set()
    for action in actions:
        found.add(action["Arguments"].get("MapId"))
        found |= {action["Subject"]["Id"]} if action["Subject"]["Kind"] == "map" else set()
    return {id_ for id_ in found if isinstance(id_, str)}


def card(action: Document, names: Names, now: datetime) -> Document:
    """Return what pages show of a served action; names are those of maps, by id."""
    is_pending = action["State"] in PENDING
    return {
        **action,
        "What": what(action, names),
        "Order": order(action, names),
        "Whom": whom(action["Subject"], names),
        "Told": STATES[action["State"]],
        "News": notice(action, names),
        "IsPending": is_pending,
        "IsFollowed": is_pending and now - action["At"] < FOLLOWED,
        "IsBad": action["State"] in ("failed", "lapsed"),
    }


def whom(subject: Document, names: Names) -> str:
    if subject["Kind"] == "world":
        return EVERYBODY
    if subject["Kind"] == "map":
        return name_of(subject["Id"], names)
    return str(subject["Name"] or subject["Id"])


def what(action: Document, names: Names) -> str:
    """Return what was asked, without for whom."""
    if action["Kind"] == "chat":
        return f"“{action['Arguments'].get('Message')}”"
    return f"{action['Kind'].capitalize()}{_where(action, names)}"


def order(action: Document, names: Names) -> str:
    """Return what was asked and for whom, as one asks for it: kick Amelia."""
    somebody = whom(action["Subject"], names)
    if action["Kind"] != "chat":
        return f"{action['Kind']} {somebody}{_where(action, names)}"
    said = f"“{shown(action['Arguments'].get('Message'))}”"
    to = f"all on {somebody}" if action["Subject"]["Kind"] == "map" else somebody
    return f"say {said} to {to}"


def _where(action: Document, names: Names) -> str:
    if action["Kind"] != "warp":
        return ""
    return f" to {name_of(action['Arguments'].get('MapId'), names)}{place_of(action)}"


def notice(action: Document, names: Names) -> str:
    """Return the sentence that says what came of an action, which somebody has just asked for."""
    asked = order(action, names)
    sentences = {
        "done": f"{PAST.get(action['Kind'], 'Done:')} {asked.partition(' ')[2]}.",
        "failed": f"The game did not {asked}: {action['Error']}",
        "lapsed": f"No game took it in time, so nothing was done: {asked}.",
    }
    under_way = f"The game was asked to {asked}, and has not answered yet."
    return sentences.get(action["State"], under_way)
