"""History: who changed what, when and why, and undo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.roles import Role
from app.changes import Applied
from app.errors import AlreadyUndone, NotFound
from app.history.domain import CannotUndo, filters_of, is_of_user, served
from app.history.schemas import (
    EntryPageSchema,
    EntrySchema,
    HistoryArgs,
    SubjectHistoryArgs,
    UndoArgs,
    UndoSchema,
)
from app.history.store import History
from app.history.undo import Inverses
from app.http.api import Blueprint
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import answer, keyed_intent, previewed_intent
from app.http.json import json_response
from app.items.undo import Spent
from app.keys import Lookup
from app.objects.store import Objects
from app.openapi.examples import ENTRY, ITEM
from app.players.store import Players
from app.server_variables.domain import TYPE
from app.types import Document
from app.users.store import Users
from app.variables.undo import ChangedSince

ABOUT = "Who changed what, when and why, and undo."
# Whose history a caller sees with the role api alone.
WITHOUT_USERS = ("player", "bag", "object")

blp = Blueprint("History", __name__, url_prefix="/api/v1/history", description=ABOUT)
of_players = Blueprint("PlayerHistory", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserHistory", __name__, url_prefix="/api/v1/users", group="Users")

cursors = current(Cursors)
objects = current(Objects)
history = current(History)
inverses = current(Inverses)
players = current(Players)
users = current(Users)


@blp.route("")
@guard.required()
@blp.arguments(HistoryArgs(), location="query")
@blp.documents_response(200, EntryPageSchema)
@blp.refuses(NotFound("player", Lookup.parse("nobody")))
def list_history(args: dict[str, Any]) -> Response:
    """List changes of players, users and the catalogue

    The newest first, those of users only with the role `users.query`. A change appears within two
    seconds; in the history of its player or user it does at once.
    """
    kinds: tuple[str, ...] = WITHOUT_USERS
    if Role.USERS_QUERY in guard.caller().roles:
        kinds = (*WITHOUT_USERS, "user")
    if "user" in args:
        guard.caller().require(Role.USERS_QUERY)
        # No entry is about a player and a user.
        return listed(args, () if "player" in args else ("user",), user_id(args["user"]))
    if "player" in args:
        return listed(args, ("player",), player_id(args["player"]))
    return listed(args, kinds)


@blp.route("/<entry_id>")
@guard.required()
@blp.documents_response(200, EntrySchema)
def get_history_entry(entry_id: str) -> Response:
    """Get one change

    By the id of its entry. For a change of a user, the role `users.query` is needed too.
    """
    return json_response(history.serve([visible_entry(entry_id)])[0])


@blp.route("/<entry_id>/undo", methods=["POST"])
@guard.required()
@blp.arguments(UndoArgs(), required=False)
@blp.documents_response(200, UndoSchema)
@blp.refuses(
    AlreadyUndone(ENTRY, ENTRY.replace(":7", ":9")),
    CannotUndo(ENTRY, "a registration is never undone"),
    Spent(ITEM, 5, 3),
    ChangedSince(ITEM),
)
@blp.idempotent
def undo_change(args: dict[str, Any], entry_id: str) -> Response:
    """Undo a change

    What was given is taken from where it lies now, what was taken is given back, a variable gets
    its former value if it still has the one that was set. What cannot be undone without a guess is
    refused. The answer is the entry of the undo, which can be undone as well. With DryRun nothing
    changes, and the entry, without Id and At, tells what would.
    """
    entry = visible_entry(entry_id)
    inverse = inverses.of(entry)
    preview, change = ways_to(entry["Subject"])
    if args["DryRun"]:
        history.require_not_undone(entry_id)
        intent = previewed_intent("undo", entry, Id=entry_id)
        return json_response(served(preview(*inverse, intent), None))
    applied = change(*inverse, keyed_intent("undo", {"Id": entry_id}, entry))
    return answer(applied._replace(answer=served(applied.entry or entry, None)))


@of_players.route("/<player:key>/history")
@guard.required()
@of_players.arguments(SubjectHistoryArgs(), location="query")
@of_players.documents_response(200, EntryPageSchema)
def list_player_history(args: dict[str, Any], key: Lookup) -> Response:
    """List the changes of a player

    The newest first; a change appears at once.
    """
    return listed(args, ("player",), players.get_id(key))


@of_users.route("/<lookup:key>/history")
@guard.required(Role.USERS_QUERY)
@of_users.arguments(SubjectHistoryArgs(), location="query")
@of_users.documents_response(200, EntryPageSchema)
def list_user_history(args: dict[str, Any], key: Lookup) -> Response:
    """List the changes of a user

    The newest first; a change appears at once.
    """
    return listed(args, ("user",), users.get(key, "_id")["_id"])


def listed(args: dict[str, Any], kinds: tuple[str, ...], subject: str | None = None) -> Response:
    """Answer a page of entries."""
    size = min(args["pageSize"], current_app.config["PAGE_SIZE_MAX"])
    after = cursors.read(args.get("after", ""))
    page = history.list(filters_of(args, kinds, subject), size, after)
    return json_response({"Values": page.values, "Next": cursors.write(page.next)})


def ways_to(subject: Document) -> tuple[Callable[..., Document], Callable[..., Applied]]:
    """Return what previews a change of a player or a global variable, and what makes it."""
    if subject["Kind"] == "object":
        variable = (TYPE, subject["Id"])
        return partial(objects.preview, *variable), partial(objects.change, *variable)
    key = Lookup.parse(subject["Id"])
    return partial(players.preview, key), partial(players.change, key)


def player_id(text: str) -> str:
    """Return the id of a player; an id needs no player, whose history may outlive it."""
    key = Lookup.parse(text)
    return key.id or players.get_id(key)


def user_id(text: str) -> str:
    key = Lookup.parse(text)
    return key.id or users.get(key, "_id")["_id"]


def visible_entry(entry_id: str) -> Document:
    """Return an entry that the caller may see."""
    if is_of_user(entry_id):
        # Before it is looked for: whether it exists is not told either.
        guard.caller().require(Role.USERS_QUERY)
    return history.get(entry_id)
