"""History: who changed what, when and why; undo; and the activity of a user or a player."""

from __future__ import annotations

from flask import Response

from app.auth.execution import change_route, execute, preview
from app.auth.views import read_route
from app.core.errors import AlreadyUndone, NotFound
from app.core.naming import Lookup
from app.core.paging import Page
from app.core.permissions import Permission
from app.core.types import Document
from app.history import activity
from app.history.access import (
    UNDO,
    page,
    require_undoable,
    search,
    undo_arguments,
    visible_entry,
)
from app.history.domain import CannotUndo, public_entry
from app.history.schemas import (
    ActivityPageSchema,
    AddressPageSchema,
    EntryPageSchema,
    EntrySchema,
    HistoryArgs,
    SubjectHistoryArgs,
    UndoArgs,
    UndoSchema,
)
from app.history.store import history
from app.http.api import Blueprint
from app.http.examples import ENTRY, ITEM, UNDO_ENTRY
from app.http.intents import answer
from app.http.json import json_response
from app.http.lists import PageNumberArgs, cursor_response, page_size, paged_list
from app.players.items.undo import Spent
from app.players.store import players
from app.players.variables.domain import ChangedSince
from app.users.store import users

ABOUT = "Who changed what, when and why, and undo."
ABOUT_LOGS = "What happened to a user or a player; history has the details."
OF_USERS = (Permission.HISTORY_READ, Permission.USERS_READ)

blp = Blueprint("History", __name__, url_prefix="/api/v1/history", description=ABOUT)
of_players = Blueprint("PlayerHistory", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserHistory", __name__, url_prefix="/api/v1/users", group="Users")
logs = Blueprint("Logs", __name__, url_prefix="/api/v1/logs", description=ABOUT_LOGS)


@read_route(
    blp,
    "",
    EntryPageSchema,
    Permission.HISTORY_READ,
    args=HistoryArgs(),
    refuses=(NotFound("player", Lookup.parse("nobody")),),
)
def list_history(args: Document) -> Response:
    """List changes of players, users and the catalogue

    Newest first. Changes of users need the role `users.query`, those of roles `staff.manage`.
    """
    return cursor_response(search(args, page_size(args)))


@read_route(blp, "/<entry_id>", EntrySchema, Permission.HISTORY_READ)
def get_history_entry(entry_id: str) -> Document:
    """Get one change

    By the id of its entry. A change of a user also needs the role `users.query`.
    """
    return history.present([visible_entry(entry_id)])[0]


@change_route(
    blp,
    UNDO,
    "/<entry_id>/undo",
    UndoSchema,
    AlreadyUndone(ENTRY, UNDO_ENTRY),
    CannotUndo(ENTRY, "a registration is never undone"),
    Spent(3, ITEM, 5),
    ChangedSince(ITEM),
    body=UndoArgs(),
)
def undo_change(args: Document, entry_id: str) -> Response:
    """Undo a change

    Takes back given items from where they are now, and gives back taken ones. Resets a variable if
    it still has the value that was set. Restores a former name or a deleted player. Hides a note.
    Refuses what cannot be undone exactly; with Partial, items are taken or given back as far as
    possible, and the Warning of the entry says what is missing. Returns the entry of the undo,
    which can be undone, too. With DryRun, nothing changes, and the entry, without Id and At, shows
    what would change.
    """
    wanted = undo_arguments(entry_id, args["Partial"])
    if args["DryRun"]:
        require_undoable(None, wanted)
        return json_response(public_entry(preview(UNDO, None, wanted), None))
    applied = execute(UNDO, None, wanted)
    entry = applied.entry or history.get(entry_id)
    return answer(applied._replace(answer=public_entry(entry, None)))


@read_route(
    of_players,
    "/<player:key>/history",
    EntryPageSchema,
    Permission.HISTORY_READ,
    args=SubjectHistoryArgs(),
)
def list_player_history(args: Document, key: Lookup) -> Response:
    """List the changes of a player

    Newest first.
    """
    return cursor_response(page(args, page_size(args), ("player",), players.get_id_ever(key)))


@read_route(
    of_users, "/<lookup:key>/history", EntryPageSchema, *OF_USERS, args=SubjectHistoryArgs()
)
def list_user_history(args: Document, key: Lookup) -> Response:
    """List the changes of a user

    Newest first.
    """
    return cursor_response(page(args, page_size(args), ("user",), users.get_id(key)))


@read_route(
    logs, "/user/<lookup:user_key>/activity", ActivityPageSchema, *OF_USERS, args=PageNumberArgs()
)
def list_user_activity(args: Document, user_key: Lookup) -> Document:
    """List what has happened to a user

    Changes of the account, and active sign-ins. Newest first.
    """
    user_id = users.get_id(user_key)
    return paged_list(args, lambda window: activity.of_user(user_id, window))


@read_route(
    logs,
    "/player/<lookup:player_key>/activity",
    ActivityPageSchema,
    Permission.HISTORY_READ,
    args=PageNumberArgs(),
)
def list_player_activity(args: Document, player_key: Lookup) -> Document:
    """List what has happened to a player

    The changes that this service made. Newest first.
    """
    player = players.identity(player_key)
    return paged_list(args, lambda window: activity.of_player(player.id, player.user_id, window))


@read_route(logs, "/user/<lookup:user_key>/ip", AddressPageSchema, *OF_USERS, args=PageNumberArgs())
def list_user_addresses(args: Document, user_key: Lookup) -> Document:
    """List the active sign-ins of a user

    Newest first, for clients that ask for addresses: the service keeps none.
    """
    user_id = users.get_id(user_key)
    return paged_list(args, lambda window: activity.sign_ins(user_id, window))


@logs.alias("GET", "/chat")
@logs.alias("GET", "/pm")
@logs.alias("GET", "/guild/<guild>/activity")
@read_route(logs, "/trade", ActivityPageSchema, Permission.HISTORY_READ, args=PageNumberArgs())
def list_trades(args: Document, **_: str) -> Document:
    """List trades

    Always empty: only the game knows them. For clients that ask for them.
    """
    return paged_list(args, lambda _: Page(0, []))
