"""The catalogue: what the game's items, spells, maps and so on are."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import KeyAccess
from app.errors import NotFound
from app.http.api import Blueprint
from app.http.context import current
from app.http.cursors import Cursors
from app.http.json import json_response
from app.http.lists import (
    LegacyListArgs,
    cursor_response,
    legacy_envelope,
    legacy_window,
    page_size,
)
from app.http.path_converters import path_guid
from app.objects.domain import NoTime, UnknownType, entry, parse_type
from app.objects.schemas import (
    NAMES,
    GameObjectListArgs,
    GameObjectPageSchema,
    GameObjectSchema,
    GameTimeSchema,
    LegacyGameObjectPageSchema,
)
from app.objects.store import Objects
from app.openapi.examples import TOKEN
from app.paging import CursorPage, Window

ABOUT = "The catalogue of the game: its items, spells, classes, maps and so on."

blp = Blueprint("Catalogue", __name__, url_prefix="/api/v1/gameobjects", description=ABOUT)

cursors = current(Cursors)
objects = current(Objects)

of_a_type = blp.refuses(UnknownType("nothing"))


@blp.route("/<object_type:type_name>")
@guard.required(KeyAccess.ANY)
@blp.arguments(GameObjectListArgs(), location="query")
@blp.documents_response(200, GameObjectPageSchema)
@of_a_type
def list_objects(args: dict[str, Any], type_name: str) -> Response:
    """List the objects of a type

    By name. To read all of them, go on with the Next of each answer.
    """
    size = page_size(args)
    window = Window(0, size, size, cursors.read(args.get("after", "")))
    page = objects.walk(parse_type(type_name), window, args.get("search"))
    return cursor_response(CursorPage(page.values, page.next))


@blp.route("/<object_type:type_name>", methods=["POST"])
@guard.required(KeyAccess.ANY)
@blp.arguments(LegacyListArgs(), required=False)
@blp.documents_response(200, LegacyGameObjectPageSchema)
@of_a_type
def list_objects_by_body(args: dict[str, Any], type_name: str) -> Response:
    """List the objects of a type by page numbers

    By name, each under its id, in the former envelope.
    """
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    page = objects.list(parse_type(type_name), window)
    entries = page._replace(values=[entry(record) for record in page.values])
    return json_response(legacy_envelope(window, entries))


@blp.route("/<object_type:type_name>/names")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, NAMES)
@of_a_type
def list_object_names(type_name: str) -> Response:
    """Get the names of all objects of a type

    By id, in the order of names.
    """
    return json_response(objects.names(parse_type(type_name)))


@blp.route("/<object_type:type_name>/<object_id>")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, GameObjectSchema)
@blp.refuses(UnknownType("nothing"), NotFound("item", TOKEN))
def get_object(type_name: str, object_id: str) -> Response:
    """Get one object

    With all fields that the game has stored on it.
    """
    return json_response(objects.get(parse_type(type_name), path_guid("id", object_id)))


@blp.route("/time")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, GameTimeSchema)
@blp.refuses(NoTime())
def get_time() -> Response:
    """Get the game's clock

    The object of the type `time`, where the catalogue holds one.
    """
    return json_response(objects.get_time())
