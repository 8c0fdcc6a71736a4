"""Which actions a caller may see, and the list of them."""

from __future__ import annotations

from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.types import Document
from app.game.actions.store import ActionFilters, Actions
from app.history.access import require_users, sees_users
from app.http.context import current
from app.http.cursors import Cursors
from app.players.store import Players
from app.users.store import Users

actions = current(Actions)
cursors = current(Cursors)
players = current(Players)
users = current(Users)


def visible_action(action_id: str) -> Document:
    action = actions.get(action_id)
    if action["Subject"]["Kind"] == "user":
        require_users()
    return action


def search(args: Document, size: int) -> CursorPage:
    """Return a page of the actions that match a query and that the caller may see."""
    return actions.list(_filters_of(args), size, cursors.read(args.get("after", "")))


def _filters_of(args: Document) -> ActionFilters:
    subject_id = None
    if "user" in args:
        require_users()
        subject_id = users.get(Lookup.parse(args["user"]), "_id")["_id"]
    if "player" in args:
        # An action has one subject: no action matches both a player and a user.
        player_id = players.get_id_ever(Lookup.parse(args["player"]))
        subject_id = player_id if subject_id is None else f"{subject_id} {player_id}"
    return ActionFilters(subject_id, args.get("kind"), sees_users())
