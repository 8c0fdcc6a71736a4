"""Which actions a caller may see, and the list of them."""

from __future__ import annotations

from app.actions.store import ActionFilters, ActionPage, Actions
from app.auth import guard
from app.auth.roles import Role
from app.http.context import current
from app.http.cursors import Cursors
from app.keys import Lookup
from app.players.store import Players
from app.scopes import Scope
from app.types import Document
from app.users.store import Users

actions = current(Actions)
cursors = current(Cursors)
players = current(Players)
users = current(Users)


def visible_action(action_id: str) -> Document:
    """Return an action that the caller may see."""
    action = actions.get(action_id)
    if action["Subject"]["Kind"] == "user":
        _require_users()
    return action


def search(args: Document, size: int) -> ActionPage:
    """Return a page of the actions that a query asks for, of those that the caller may see."""
    return actions.list(_filters_of(args), size, cursors.read(args.get("after", "")))


def _filters_of(args: Document) -> ActionFilters:
    subject_id = None
    if "user" in args:
        _require_users()
        subject_id = users.get(Lookup.parse(args["user"]), "_id")["_id"]
    if "player" in args:
        # Nothing is asked of a player and of a user at once.
        player_id = players.get_id_ever(Lookup.parse(args["player"]))
        subject_id = player_id if subject_id is None else f"{subject_id} {player_id}"
    sees_users = guard.caller().may(Role.USERS_QUERY, Scope.USERS_READ)
    return ActionFilters(subject_id, args.get("kind"), sees_users)


def _require_users() -> None:
    guard.caller().require(Role.USERS_QUERY)
    guard.caller().require_scope(Scope.USERS_READ)
