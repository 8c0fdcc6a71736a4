"""The variables of players."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.auth import guard
from app.auth.scopes import Scope
from app.errors import NotFound
from app.execution import change_route, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.naming import Lookup
from app.openapi.examples import VARIABLE
from app.players.store import Players
from app.variables.domain import served, served_one, value_of
from app.variables.operations import SET_VARIABLE
from app.variables.schemas import SetVariableArgs, ValueSchema, VariableSchema

blp = Blueprint("Variables", __name__, url_prefix="/api/v1/players", group="Players")

players = current(Players)

unset = blp.refuses(NotFound("variable", VARIABLE))


@blp.route("/<player:key>/variables")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, VariableSchema(many=True))
def list_variables(key: Lookup) -> Response:
    """List the variables of a player

    Those that are set, by their ids.
    """
    return json_response(served(players.read(key, "Variables")["Variables"]))


@blp.route("/<player:key>/variables/<variable_id>")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, VariableSchema)
@unset
def get_variable(key: Lookup, variable_id: str) -> Response:
    """Get a variable of a player

    A variable is an integer or a boolean, and stays what it was set as.
    """
    variable = path_guid("variableId", variable_id)
    return json_response(served_one(variable, read_value(key, variable)))


@blp.route("/<player:key>/variables/<variable_id>/value")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, ValueSchema)
@unset
def get_variable_value(key: Lookup, variable_id: str) -> Response:
    """Get the bare value of a variable

    As `{"value": ...}`, for tools that need no more.
    """
    return json_response({"value": read_value(key, path_guid("variableId", variable_id))})


@change_route(
    blp,
    SET_VARIABLE,
    "/<player:key>/variables/<variable_id>",
    VariableSchema,
    body=SetVariableArgs(),
)
def set_variable(args: dict[str, Any], key: Lookup, variable_id: str) -> Response:
    """Set a variable of a player

    Whether it was set before or not, and to what.
    """
    variable = path_guid("variableId", variable_id, nil=False)
    return answer(execute(SET_VARIABLE, players, key, {"variable_id": variable, **args}))


def read_value(key: Lookup, variable: str) -> int | bool:
    """Read one variable, and nothing else of the player."""
    return value_of(players.read(key, f"Variables.{variable}")["Variables"], variable)
