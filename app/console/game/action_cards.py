"""What the game was asked, as pages of players, users and the chat show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.console.game.action_sentences import card, map_ids
from app.errors import QuartermasterError
from app.game.actions.access import visible_action
from app.game.actions.domain import served
from app.game.actions.store import ActionFilters, Actions
from app.http.context import current
from app.objects.store import Objects
from app.types import Document

# How a path says that the form before it has asked the game for something.
MARK = "action:"
LAST_ACTIONS = 5

actions = current(Actions)
objects = current(Objects)


def cards(found: Iterable[Document]) -> list[Document]:
    """Return actions as pages show them, with the names of maps."""
    now = actions.now()
    records = [served(action, now) for action in found]
    ids = map_ids(records)
    names = objects.names_of(ids) if ids else {}
    return [card(record, names, now) for record in records]


def find_marked(mark: str) -> Document | None:
    """Return the action that a path tells of, if the caller may see it."""
    try:
        (action,) = cards([visible_action(mark.removeprefix(MARK))])
    except QuartermasterError:
        return None
    return action


def actions_part(id_: str) -> dict[str, Any]:
    """Return what the page of a player or a user shows of the game."""
    last = actions.list(ActionFilters(id_), LAST_ACTIONS, b"").values
    return {"asked": cards(last), "game_looks": actions.is_game_looking()}
