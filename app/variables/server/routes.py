"""The variables of the whole game."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import KeyAccess
from app.errors import NotFound
from app.execution import change_route, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer
from app.http.json import json_response
from app.http.lists import LegacyListArgs, legacy_envelope, legacy_window
from app.http.path_converters import path_guid
from app.objects.store import ObjectKey, Objects
from app.openapi.examples import GLOBAL_VARIABLE, TOKEN
from app.types import Document
from app.variables.operations import SET_GLOBAL_VARIABLE
from app.variables.schemas import SetVariableArgs, ValueSchema
from app.variables.server.domain import INTEGER, TYPE, OtherType, served, value_of
from app.variables.server.schemas import GlobalVariableSchema, LegacyGlobalVariablePageSchema

ABOUT = "The variables of the whole game, which are objects of its catalogue with a value."

blp = Blueprint(
    "Global variables", __name__, url_prefix="/api/v1/variables/global", description=ABOUT
)

objects = current(Objects)

unknown = blp.refuses(NotFound(TYPE, TOKEN))


@blp.route("", methods=["POST"])
@guard.required(KeyAccess.ANY)
@blp.arguments(LegacyListArgs(), required=False)
@blp.documents_response(200, LegacyGlobalVariablePageSchema)
def list_global_variables(args: dict[str, Any]) -> Response:
    """List the global variables

    By name, in the former envelope.
    """
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    page = objects.list(TYPE, window)
    variables = page._replace(values=[served(variable) for variable in page.values])
    return json_response(legacy_envelope(window, variables))


@blp.route("/<variable_id>")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, GlobalVariableSchema)
@unknown
def get_global_variable(variable_id: str) -> Response:
    """Get a global variable

    With its name, its type and its value.
    """
    return json_response(served(read(variable_id)))


@blp.route("/<variable_id>/value")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, ValueSchema)
@unknown
def get_global_variable_value(variable_id: str) -> Response:
    """Get the bare value of a global variable

    As `{"value": ...}`, for tools that need no more.
    """
    return json_response({"value": value_of(read(variable_id))})


@change_route(
    blp,
    SET_GLOBAL_VARIABLE,
    "/<variable_id>",
    GlobalVariableSchema,
    NotFound(TYPE, TOKEN),
    OtherType(GLOBAL_VARIABLE, INTEGER),
    body=SetVariableArgs(),
)
def set_global_variable(args: dict[str, Any], variable_id: str) -> Response:
    """Set a global variable

    To a value of the type that it has.
    """
    id_ = path_guid("id", variable_id)
    meant = {"variable_id": id_, **args}
    return answer(execute(SET_GLOBAL_VARIABLE, objects, ObjectKey(TYPE, id_), meant))


def read(variable_id: str) -> Document:
    return objects.get(TYPE, path_guid("id", variable_id))
