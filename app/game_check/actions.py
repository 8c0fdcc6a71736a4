"""How a game looks for actions, takes them and answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from app.game_check import habits
from app.game_check.findings import terminal_text
from app.game_check.habits import Habit
from app.types import Document

# Older actions tell of a game that may be another by now.
RECENT = timedelta(days=1)
LOOKS_WITHIN = timedelta(seconds=10)
ANSWERS_WITHIN = timedelta(minutes=1)
TAKES_WITHIN = timedelta(seconds=5)
# The game compares with a clock of its own before the database writes the time.
CLOCK_ERROR = timedelta(seconds=5)
# A clock that is further ahead makes it seem that somebody looks, or plays, who does not.
FAR_AHEAD = timedelta(minutes=1)
LONGEST_ID = 64
TYPES = {"Taken": datetime, "TakenBy": str, "Done": datetime, "Error": str, "Result": dict}


def action_habits(
    action: Document, now: datetime, somebody_looks: bool
) -> Iterator[tuple[Habit, list[str]]]:
    """Yield what an action tells of the game that was to take it."""
    asked, before = action.get("At"), action.get("TakeBefore")
    taken, done, error = (action.get(name) for name in ("Taken", "Done", "Error"))
    if not isinstance(asked, datetime) or now - asked > RECENT:
        return
    if wrong := list(_wrong_values(action)):
        yield habits.WRONG_ANSWERS, wrong
    if done is not None and error is not None:
        yield habits.DONE_AND_ERROR, []
    is_answered = done is not None or error is not None
    if is_answered and taken is None:
        yield habits.ANSWERED_UNTAKEN, []
    if isinstance(taken, datetime):
        if isinstance(before, datetime) and taken - before > CLOCK_ERROR:
            yield habits.TAKEN_LATE, []
        if not is_answered and now - taken > ANSWERS_WITHIN:
            yield habits.NEVER_ANSWERED, []
    is_waiting = taken is None and not is_answered and now - asked > TAKES_WITHIN
    if is_waiting and somebody_looks:
        yield habits.LEFT_WAITING, []


def _wrong_values(action: Document) -> Iterator[str]:
    for name, kind in TYPES.items():
        value = action.get(name)
        is_blank = isinstance(value, str) and not value.strip()
        if value is not None and (not isinstance(value, kind) or is_blank):
            yield name
    if action.get("Taken") is not None and action.get("TakenBy") is None:
        yield "TakenBy"


def wrong_fields_of(game: Document, now: datetime) -> list[str]:
    """Return the fields of a document in games that are not usable."""
    id_, looked = game.get("_id"), game.get("LookedAt")
    wrong = []
    if not isinstance(id_, str) or not 1 <= len(id_) <= LONGEST_ID:
        wrong.append("_id")
    if not isinstance(looked, datetime) or looked - now > FAR_AHEAD:
        wrong.append("LookedAt")
    return wrong


def looks(game: Document, now: datetime) -> bool:
    """Tell whether a game server looks for actions now."""
    looked = game.get("LookedAt")
    return isinstance(looked, datetime) and now - looked <= LOOKS_WITHIN


def why_nobody_looks(games: list[Document]) -> str:
    """Return since when no game server has looked."""
    dated: list[Any] = [game for game in games if isinstance(game.get("LookedAt"), datetime)]
    if not dated:
        return "none has ever said so in the collection games"
    last = max(dated, key=lambda game: game["LookedAt"])
    at = last["LookedAt"].strftime("%Y-%m-%d %H:%M:%S")
    return f"the last, {terminal_text(str(last['_id']))}, did so at {at} UTC"
