"""Actions of the game as pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from app.console.history.tables import names_in
from app.core.texts import Names, name_of, short_text
from app.core.types import Document, whole
from app.game.actions.domain import GUILD_VARIABLE, KINDS, LETTER, RESTART, place_of, public_action
from app.game.actions.store import actions

# The prefix of a notice about an action.
MARK = "action:"
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
    names = names_in(records)
    for record in records:
        subject, state = record["Subject"], record["State"]
        somebody = subject["Name"] or subject["Id"] or "everybody"
        if subject["Kind"] == "map":
            somebody = name_of(subject["Id"], names)
        what, order = what_and_order(record, somebody, names)
        record |= {
            "What": what,
            "Order": order,
            "Whom": somebody,
            "StateWord": STATES.get(state, state),
            "News": notice(record, order, somebody),
            "IsPending": state in PENDING,
            "IsFollowed": state in PENDING and now - record["At"] < FOLLOWED,
            "IsBad": state in ("failed", "lapsed"),
        }
    return records


def what_and_order(action: Document, somebody: str, names: Names) -> tuple[str, str]:
    """Return what was requested, without the subject, and with it: kick Amelia."""
    kind, arguments = action["Kind"], action["Arguments"]
    message = arguments.get("Message")
    if kind == RESTART:
        minutes = arguments.get("Minutes")
        after = f"after {minutes} {'minute' if minutes == 1 else 'minutes'}"
        return f"Restart {after}: “{message}”", f"restart {after}"
    if kind == GUILD_VARIABLE:
        return "Set a variable", f"set a variable of {somebody}"
    if kind in ("chat", LETTER):
        items = arguments.get("Items", [])
        given = [f"{item['Quantity']:,} {name_of(item['ItemId'], names)}" for item in items]
        verb = "deliver" if kind == LETTER else "say"
        to = f"all on {somebody}" if action["Subject"]["Kind"] == "map" else somebody
        return ", ".join([f"“{message}”", *given]), f"{verb} “{short_text(message)}” to {to}"
    where = ""
    if kind == "warp":
        where = f" to {name_of(arguments.get('MapId'), names)}{place_of(action)}"
    return f"{kind.capitalize()}{where}", f"{kind} {somebody}{where}"


def notice(action: Document, order: str, somebody: str) -> str:
    """Return the notice about an action that was just requested."""
    past = KINDS[action["Kind"]].past if action["Kind"] in KINDS else "Done:"
    sentences = {
        "done": f"{past} {order.partition(' ')[2]}.",
        "failed": f"The game did not {order}: {action['Error']}",
        "withdrawn": f"The {action['Kind']} was withdrawn.",
        "lapsed": f"No game server took it in time, so nothing was done: {order}.",
    }
    under_way = f"The game was asked to {order}. It has not answered yet."
    if action["Kind"] == RESTART and action["State"] == "taken":
        under_way = f"The game counts down: it will {order}."
    if action["Kind"] == LETTER:
        under_way = f"The letter waits until {somebody} is online."
    return sentences.get(action["State"], under_way)


def coming_restart() -> Document | None:
    """Return the restart to which the game counts down, with the time when it is due."""
    for last in cards(actions.list({"Kind": RESTART}, 1).values):
        minutes = whole(last["Arguments"].get("Minutes")) or 0
        due = last["At"] + timedelta(minutes=min(max(minutes, 0), 60))
        if last["State"] == "taken" and due > actions.now():
            return {**last, "DueAt": due}
    return None


def game_stopped() -> datetime | None:
    """Return when the last game server polled; None if one runs, or none has ever run."""
    games = actions.games()
    return games[0]["LookedAt"] if games and not actions.is_game_looking() else None


def actions_part(id_: str) -> Document:
    """Return the part about the game on the page of a player or a user."""
    last = actions.list({"Subject.Id": id_}, 5).values
    return {"asked": cards(last), "game_looks": actions.is_game_looking()}
