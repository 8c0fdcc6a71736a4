"""The variables of players, and those of the whole game."""

from __future__ import annotations

from flask import Response

from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.catalogue.store import ObjectKey, objects
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.paging import Page, Window, map_page
from app.core.permissions import KeyAccess, Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.examples import GLOBAL_VARIABLE, TOKEN, VARIABLE
from app.http.intents import answer
from app.http.lists import LegacyListArgs, PageNumberArgs, legacy_list, paged_list
from app.http.path_converters import path_guid
from app.players.store import players
from app.players.variables.domain import (
    GLOBAL,
    INTEGER,
    WORDS,
    OtherType,
    Value,
    global_value,
    global_variable_record,
    variable_record,
    variable_records,
)
from app.players.variables.operations import SET_GLOBAL_VARIABLE, SET_VARIABLE
from app.players.variables.schemas import (
    GlobalVariablePageSchema,
    GlobalVariableSchema,
    LegacyGlobalVariablePageSchema,
    SetVariableArgs,
    ValueSchema,
    VariableSchema,
)

ABOUT = "The variables of the whole game, which are objects of its catalogue with a value."

of_players = Blueprint("Variables", __name__, url_prefix="/api/v1/players", group="Players")
of_game = Blueprint("Global variables", __name__, url_prefix="/api/v1/variables", description=ABOUT)


unset = NotFound("variable", VARIABLE)
unknown = NotFound(GLOBAL, TOKEN)


@read_route(
    of_players, "/<player:key>/variables", VariableSchema(many=True), Permission.PLAYERS_READ
)
def list_variables(key: Lookup) -> list[Document]:
    """List the variables of a player

    All that are set, in order of id.
    """
    return variable_records(players.read(key, "Variables")["Variables"])


@read_route(
    of_players,
    "/<player:key>/variables/<variable_id>",
    VariableSchema,
    Permission.PLAYERS_READ,
    refuses=(unset,),
)
def get_variable(key: Lookup, variable_id: str) -> Document:
    """Get a variable of a player

    A variable is an integer or a boolean, as it was set.
    """
    return variable_record(variable_id, read_value(key, variable_id))


@read_route(
    of_players,
    "/<player:key>/variables/<variable_id>/value",
    ValueSchema,
    Permission.PLAYERS_READ,
    refuses=(unset,),
)
def get_variable_value(key: Lookup, variable_id: str) -> Document:
    """Get the bare value of a variable

    As `{"value": ...}`, for tools that need no more.
    """
    return {"value": read_value(key, variable_id)}


@change_route(
    of_players,
    SET_VARIABLE,
    "/<player:key>/variables/<variable_id>",
    VariableSchema,
    body=SetVariableArgs(),
)
def set_variable(args: Document, key: Lookup, variable_id: str) -> Response:
    """Set a variable of a player

    It need not exist before.
    """
    variable = path_guid("variableId", variable_id, nil=False)
    return answer(execute(SET_VARIABLE, key, {"variable_id": variable, **args}))


@read_route(
    of_game,
    "",
    GlobalVariablePageSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    args=PageNumberArgs(),
)
def list_global_variables_by_page(args: Document) -> Document:
    """List the global variables by page

    By name, in the envelope of all other lists.
    """
    return paged_list(args, read_page)


@of_game.alias("POST", "")
@read_route(
    of_game,
    "/global",
    LegacyGlobalVariablePageSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    args=LegacyListArgs(),
    method="POST",
)
def list_global_variables(args: Document) -> Document:
    """List the global variables

    By name, in the deprecated envelope.
    """
    return legacy_list(args, read_page)


@of_game.alias("GET", "/<guid:global_id>")
@read_route(
    of_game,
    "/global/<global_id>",
    GlobalVariableSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    refuses=(unknown,),
)
def get_global_variable(global_id: str) -> Document:
    """Get a global variable

    With its name, its type and its value.
    """
    return global_variable_record(objects.get(GLOBAL, global_id))


@of_game.alias("GET", "/<guid:global_id>/value")
@read_route(
    of_game,
    "/global/<global_id>/value",
    ValueSchema,
    Permission.PLAYERS_READ,
    KeyAccess.ANY,
    refuses=(unknown,),
)
def get_global_variable_value(global_id: str) -> Document:
    """Get the bare value of a global variable

    As `{"value": ...}`, for tools that need no more.
    """
    return {"value": global_value(objects.get(GLOBAL, global_id))}


@of_game.alias("POST", "/<guid:global_id>")
@change_route(
    of_game,
    SET_GLOBAL_VARIABLE,
    "/global/<global_id>",
    GlobalVariableSchema,
    unknown,
    OtherType(GLOBAL_VARIABLE, WORDS[INTEGER]),
    body=SetVariableArgs(),
)
def set_global_variable(args: Document, global_id: str) -> Response:
    """Set a global variable

    The value must have the type of the variable.
    """
    meant = {"variable_id": global_id, **args}
    return answer(execute(SET_GLOBAL_VARIABLE, ObjectKey(GLOBAL, global_id), meant))


def read_value(key: Lookup, variable: str) -> Value:
    """Read one variable, and nothing else of the player."""
    variables = players.read(key, f"Variables.{variable}")["Variables"]
    if variable not in variables:
        raise NotFound("variable", variable)
    value: Value = variables[variable]
    return value


def read_page(window: Window) -> Page:
    return map_page(global_variable_record, objects.list(GLOBAL, window))
