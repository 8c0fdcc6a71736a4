"""History: who changed what, when and why, and undo."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.errors import AlreadyUndone, NotFound
from app.execution import change_route
from app.history.access import entry_to_undo, page, preview_undo, search, undo, visible_entry
from app.history.domain import CannotUndo, served
from app.history.operations import UNDO
from app.history.schemas import (
    EntryPageSchema,
    EntrySchema,
    HistoryArgs,
    SubjectHistoryArgs,
    UndoArgs,
    UndoSchema,
)
from app.history.store import History
from app.http.api import Blueprint
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import answer
from app.http.json import json_response
from app.http.lists import cursor_response, page_size
from app.items.undo import Spent
from app.naming import Lookup
from app.openapi.examples import ENTRY, ITEM
from app.players.store import Players
from app.users.store import Users
from app.variables.domain import ChangedSince

ABOUT = "Who changed what, when and why, and undo."

blp = Blueprint("History", __name__, url_prefix="/api/v1/history", description=ABOUT)
of_players = Blueprint("PlayerHistory", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserHistory", __name__, url_prefix="/api/v1/users", group="Users")

cursors = current(Cursors)
history = current(History)
players = current(Players)
users = current(Users)


@blp.route("")
@guard.required(Scope.HISTORY_READ)
@blp.arguments(HistoryArgs(), location="query")
@blp.documents_response(200, EntryPageSchema)
@blp.refuses(NotFound("player", Lookup.parse("nobody")))
def list_history(args: dict[str, Any]) -> Response:
    """List changes of players, users and the catalogue

    The newest first, those of users only with the role `users.query`. A change appears within two
    seconds; in the history of its player or user it does at once.
    """
    return cursor_response(search(args, page_size(args)))


@blp.route("/<entry_id>")
@guard.required(Scope.HISTORY_READ)
@blp.documents_response(200, EntrySchema)
def get_history_entry(entry_id: str) -> Response:
    """Get one change

    By the id of its entry. For a change of a user, the role `users.query` is needed too.
    """
    return json_response(history.serve([visible_entry(entry_id)])[0])


@change_route(
    blp,
    UNDO,
    "/<entry_id>/undo",
    UndoSchema,
    AlreadyUndone(ENTRY, ENTRY.replace(":7", ":9")),
    CannotUndo(ENTRY, "a registration is never undone"),
    Spent(ITEM, 5, 3),
    ChangedSince(ITEM),
    body=UndoArgs(),
    is_body_required=False,
)
def undo_change(args: dict[str, Any], entry_id: str) -> Response:
    """Undo a change

    What was given is taken from where it lies now, what was taken is given back, a variable gets
    its former value if it still has the one that was set, a player gets its former name or is
    brought back, a note is hidden. What cannot be undone
    without a guess is refused. The answer is the entry of the undo, which can be undone as well.
    With DryRun nothing changes, and the entry, without Id and At, tells what would.
    """
    entry = entry_to_undo(entry_id)
    if args["DryRun"]:
        return json_response(served(preview_undo(entry), None))
    applied = undo(entry)
    return answer(applied._replace(answer=served(applied.entry or entry, None)))


@of_players.route("/<player:key>/history")
@guard.required(Scope.HISTORY_READ)
@of_players.arguments(SubjectHistoryArgs(), location="query")
@of_players.documents_response(200, EntryPageSchema)
def list_player_history(args: dict[str, Any], key: Lookup) -> Response:
    """List the changes of a player

    The newest first; a change appears at once.
    """
    return cursor_response(page(args, page_size(args), ("player",), players.get_id_ever(key)))


@of_users.route("/<lookup:key>/history")
@guard.required(Scope.HISTORY_READ, Scope.USERS_READ, Role.USERS_QUERY)
@of_users.arguments(SubjectHistoryArgs(), location="query")
@of_users.documents_response(200, EntryPageSchema)
def list_user_history(args: dict[str, Any], key: Lookup) -> Response:
    """List the changes of a user

    The newest first; a change appears at once.
    """
    return cursor_response(page(args, page_size(args), ("user",), users.get(key, "_id")["_id"]))
