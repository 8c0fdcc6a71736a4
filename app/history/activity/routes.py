"""Logs: what has happened to a user or a player, as far as this service knows it."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.history.activity.domain import Happening, served
from app.history.activity.schemas import ActivityPageSchema
from app.history.activity.store import Activity
from app.http.api import Blueprint
from app.http.context import current
from app.http.json import json_response
from app.http.lists import PageNumberArgs, paged_envelope, paged_window
from app.naming import Lookup
from app.paging import Page, Window
from app.players.store import Players
from app.users.store import Users

ABOUT = "What has happened to a user or a player; history tells more of it."

blp = Blueprint("Logs", __name__, url_prefix="/api/v1/logs", description=ABOUT)

activity = current(Activity)
players = current(Players)
users = current(Users)


@blp.route("/user/<lookup:user_key>/activity")
@guard.required(Scope.HISTORY_READ, Scope.USERS_READ, Role.USERS_QUERY)
@blp.arguments(PageNumberArgs(), location="query")
@blp.documents_response(200, ActivityPageSchema)
def list_user_activity(args: dict[str, Any], user_key: Lookup) -> Response:
    """List what has happened to a user

    Changes of the account, and sign-ins whose tokens are in use. The newest first.
    """
    user_id = users.get(user_key, "_id")["_id"]
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    return listed(window, *activity.of_user(user_id, window), user_id, None)


@blp.route("/player/<lookup:player_key>/activity")
@guard.required(Scope.HISTORY_READ)
@blp.arguments(PageNumberArgs(), location="query")
@blp.documents_response(200, ActivityPageSchema)
def list_player_activity(args: dict[str, Any], player_key: Lookup) -> Response:
    """List what has happened to a player

    The changes that this service has made. The newest first.
    """
    player = players.identity(player_key)
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    return listed(window, *activity.of_player(player.id, window), player.user_id, player.id)


def listed(
    window: Window,
    total: int,
    lines: list[Happening],
    user_id: str | None,
    player_id: str | None,
) -> Response:
    values = [served(line, user_id, player_id) for line in lines]
    return json_response(paged_envelope(window, Page(total, values)))
