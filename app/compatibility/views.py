"""QM_COMPATIBILITY=intersect: the API as public clients of the Intersect Engine expect it.

These clients rely on more than the contract promises. The modules of this room change paths,
responses and errors, and app/http/parser.py reads bodies and queries more leniently; the table in
docs/compatibility.rst lists all of it. Without the setting, none of this runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flask import Flask, Response, request

from app.auth import guard
from app.catalogue.domain import NotInCatalogue, entry, parse_type
from app.catalogue.store import objects
from app.compatibility.responses import COMPLETIONS, complete_with, data_type
from app.core.errors import Invalid, NotFound
from app.core.naming import Lookup, with_hyphens
from app.core.paging import Page, Window, map_page
from app.core.penalties import BAN, MUTE, Penalty, is_in_force
from app.core.permissions import KeyAccess, Permission
from app.core.types import Document
from app.game.actions.domain import ActionFailed
from app.http.api import Blueprint, Schema
from app.http.errors import answer
from app.http.fields import QueryInteger
from app.http.json import json_response
from app.http.lists import ASCENDING, PAGE_MAX, PAGE_SIZE, PageNumberArgs, legacy_list, paged_list
from app.players.schemas import PlayerListArgs
from app.players.store import players
from app.users.domain import WrongPassword
from app.users.store import users

# The default of a variable by its data type: a boolean, an integer or a text.
DEFAULTS: dict[int, Any] = {1: False, 2: 0, 3: ""}


View = Callable[..., Any]


class CountArgs(Schema):
    """The query of a list in the deprecated envelope."""

    page = QueryInteger(0, PAGE_MAX, load_default=0)
    count = QueryInteger(1, load_default=PAGE_SIZE)


COUNT_ARGS, PAGE_ARGS, ONLINE_ARGS = CountArgs(), PageNumberArgs(), PlayerListArgs()


def read_query(schema: Schema) -> Document:
    args: Document = Blueprint.ARGUMENTS_PARSER.parse(schema, location="query")
    return args


def without_token(view: View) -> View:
    """Return a view that everybody may call."""
    return guard.public(view.__wrapped__)  # type: ignore[attr-defined] # by functools.wraps


def in_pages(view: View) -> View:
    """List objects by page numbers, unless the query is one of ours.

    Version 0.7.1 sends count and expects the deprecated envelope; 0.8 sends pageSize.
    """

    @guard.required(Permission.PLAYERS_READ, KeyAccess.ANY)
    def page(type_name: str) -> Response:
        type_ = parse_type(type_name)
        if "count" in request.args:
            return json_response(legacy_list(read_query(COUNT_ARGS), partial(list_entries, type_)))
        return json_response(paged_list(read_query(PAGE_ARGS), partial(objects.list, type_)))

    @functools.wraps(view)
    def list_objects(**path: Any) -> Any:
        is_ours = request.args.keys() & {"after", "search"}
        return view(**path) if is_ours else page(**path)

    return list_objects


def list_entries(type_: str, window: Window) -> Page:
    return map_page(entry, objects.list(type_, window))


def list_online_by_query(view: View) -> View:
    """List players who are online with the query of the list of all players."""

    @guard.required(Permission.PLAYERS_READ)
    def list_online() -> Response:
        args = read_query(ONLINE_ARGS)
        order = {"order": args["sortBy"], "ascending": args["sortDirection"] == ASCENDING}
        read = partial(players.list_online, search=args.get("search"), **order)
        return json_response(paged_list(args, read))

    return functools.wraps(view)(list_online)


def with_default(name: str) -> Callable[[View], View]:
    """Answer the default of an unset variable, if the catalogue has the variable."""

    def replace(view: View) -> View:
        @functools.wraps(view)
        def get(**path: Any) -> Any:
            try:
                return view(**path)
            except NotFound as error:
                if error.kind != "variable":
                    raise
                id_ = str(error.key)
                try:
                    defined = objects.get("playervariable", id_)
                except NotFound:
                    raise error from None
                value = DEFAULTS.get(data_type(defined), 0)
                return json_response(
                    {"VariableId": id_, name: value} if name == "Value" else {name: value}
                )

        return get

    return replace


def only_once(penalty: Penalty, done: str) -> Callable[[View], View]:
    """Refuse a penalty that is in force already."""

    def replace(view: View) -> View:
        @functools.wraps(view)
        def impose(key: Lookup) -> Any:
            guard.identify().require(*view.permissions)  # type: ignore[attr-defined] # by the guard
            player = players.identity(key) if "player" in view.__name__ else None
            owner = player.user_id if player else str(key)
            account = users.get(Lookup.parse(owner), "Name", *penalty) if owner else {}
            if is_in_force(account, penalty, users.now()):
                name = player.name if player else account["Name"]
                raise Invalid(f"{name} has already been {done}!")
            return view(key=key)

        return impose

    return replace


def only_online(view: View) -> View:
    """Answer 404 if the game refuses an action on somebody who is not online."""

    @functools.wraps(view)
    def ask(key: Lookup) -> Any:
        try:
            return view(key=key)
        except ActionFailed:
            if "player" in view.__name__:
                characters = [players.get(key)]
            else:
                characters = [*players.list_of_user(users.get_id(key))]
            if any(character["Online"] for character in characters):
                raise
            raise NotFound("user", key, "User not online!") from None

    return ask


OF_TARGETS = {"UserActions": "user", "PlayerActions": "player"}
# The function that replaces each view.
REPLACEMENTS: dict[str, Callable[[View], View]] = {
    "Info.get_info": without_token,
    "Catalogue.list_objects": in_pages,
    "Players.list_online_players_by_page": list_online_by_query,
    "Variables.get_variable": with_default("Value"),
    "Variables.get_variable_value": with_default("value"),
    **{
        f"{blueprint}.{verb}_{target}": only_once(penalty, done)
        for blueprint, target in (("UserModeration", "user"), ("PlayerModeration", "player"))
        for verb, penalty, done in (("ban", BAN, "banned"), ("mute", MUTE, "muted"))
    },
    **{
        f"{blueprint}.{view.format(target)}": only_online
        for blueprint, target in OF_TARGETS.items()
        for view in ("kick_{}", "kill_{}", "warp_{}", "warp_{}_to_place")
    },
}


INTERSECT = "intersect"
# The name of an action, such as Kick, at the end of a path.
ACTION = re.compile(r"(?<=/admin/)[A-Za-z]+(?=/?$)")


def apply(app: Flask) -> None:
    """Make an application, which has all its routes, compatible with these clients."""
    for endpoint, view in app.view_functions.items():
        name = endpoint.removesuffix("_alias")
        if replace := REPLACEMENTS.get(name):
            view = replace(view)
        if complete := COMPLETIONS.get(name):
            view = complete_with(view, complete)
        app.view_functions[endpoint] = view
    app.register_error_handler(WrongPassword, lambda _: answer(Invalid("Invalid credentials.")))
    app.register_error_handler(
        NotInCatalogue, lambda error: answer(Invalid(f"Invalid {error.type} id."))
    )
    application = app.wsgi_app

    def with_client_paths(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Add hyphens to the guids in a path of the API, and write its action in lower case."""
        path = environ.get("PATH_INFO", "")
        if path.startswith("/api/"):
            path = ACTION.sub(lambda name: name[0].lower(), path)
            environ["PATH_INFO"] = "/".join(map(with_hyphens, path.split("/")))
        return application(environ, start_response)

    app.wsgi_app = with_client_paths  # type: ignore[method-assign]
