"""The catalogue of the game: items, spells, maps and so on."""

from __future__ import annotations

from functools import partial

from app.auth.views import read_route
from app.catalogue.domain import NoTime, UnknownType, entry, parse_type
from app.catalogue.schemas import (
    NAMES,
    GameObjectListArgs,
    GameObjectPageSchema,
    GameObjectSchema,
    GameTimeSchema,
    LegacyGameObjectPageSchema,
)
from app.catalogue.store import objects
from app.core.errors import NotFound
from app.core.paging import Page, Window, map_page
from app.core.permissions import KeyAccess, Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.examples import TOKEN
from app.http.lists import LegacyListArgs, cursor_list, legacy_list

ABOUT = "The catalogue of the game: its items, spells, classes, maps and so on."
OF_TYPE = "/<object_type:type_name>"

blp = Blueprint("Catalogue", __name__, url_prefix="/api/v1/gameobjects", description=ABOUT)


read = partial(read_route, blp)
unknown_type = UnknownType("nothing")


@read(
    OF_TYPE,
    GameObjectPageSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    args=GameObjectListArgs(),
    refuses=(unknown_type,),
)
def list_objects(args: Document, type_name: str) -> Document:
    """List the objects of a type

    By name. To read all of them, send the Next of each answer as `after`.
    """

    def walk(size: int, after: bytes) -> Page:
        return objects.walk(parse_type(type_name), Window(0, size, size, after), args.get("search"))

    return cursor_list(args, walk)


@read(
    OF_TYPE,
    LegacyGameObjectPageSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    args=LegacyListArgs(),
    method="POST",
    refuses=(unknown_type,),
)
def list_objects_by_body(args: Document, type_name: str) -> Document:
    """List the objects of a type by page numbers

    By name, each under its id, in the deprecated envelope.
    """

    def list_entries(window: Window) -> Page:
        return map_page(entry, objects.list(parse_type(type_name), window))

    return legacy_list(args, list_entries)


@blp.alias("POST", f"{OF_TYPE}/names")
@read(f"{OF_TYPE}/names", NAMES, Permission.PLAYERS_READ, KeyAccess.ANY, refuses=(unknown_type,))
def list_object_names(type_name: str) -> Document:
    """Get the names of all objects of a type

    By id, in the order of names.
    """
    return objects.names(parse_type(type_name))


@read(
    f"{OF_TYPE}/<object_id>",
    GameObjectSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    refuses=(unknown_type, NotFound("item", TOKEN)),
)
def get_object(type_name: str, object_id: str) -> Document:
    """Get one object

    With all fields that the game stores.
    """
    return objects.get(parse_type(type_name), object_id)


@read("/time", GameTimeSchema, Permission.PLAYERS_READ, KeyAccess.ANY, refuses=(NoTime(),))
def get_time() -> Document:
    """Get the game's clock

    The object of the type `time`, if the catalogue has one.
    """
    return objects.get_time()
