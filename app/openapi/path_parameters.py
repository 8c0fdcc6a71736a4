"""The path parameters of the OpenAPI document; their names differ from those in the views."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from werkzeug.routing import Rule

from app.errors import NotFound
from app.naming import Lookup
from app.openapi import examples
from app.types import Document

_ARGUMENT = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")


class PathParameter(NamedTuple):
    """A documented path parameter."""

    name: str
    description: str
    example: str
    # The example of a 404; None if the parameter can only be malformed.
    missing: NotFound | None = None
    is_guid: bool = False

    def to_openapi(self) -> Document:
        return {
            "in": "path",
            "name": self.name,
            "required": True,
            "description": self.description,
            "example": self.example,
            "schema": {"type": "string", **({"format": "uuid"} if self.is_guid else {})},
        }


_guid = partial(PathParameter, is_guid=True)
NO_PLAYER = NotFound("player", Lookup.parse("nobody"))
NO_USER = NotFound("user", Lookup.parse("nobody"))
NO_ENTRY = NotFound("entry of history", "nobody")
NO_ROLE = NotFound("role", "nobody")
PLAYER = PathParameter("lookupKey", "A character's name or id.", examples.PLAYER, NO_PLAYER)
USER = PathParameter("lookupKey", "A username or user id.", examples.USER, NO_USER)
PLACE = "A character's id, name, or position in the user's list, from 0."
OBJECT_TYPE = "A type of objects, such as item, spell or map."

# By the group of the operation, and the argument name in the rule.
PATH_PARAMETERS = {
    ("Players", "key"): PLAYER,
    ("Players", "player_id"): _guid("lookupKey", "A character's id.", examples.PLAYER_ID),
    ("Players", "bag_id"): _guid("bagId", "The id of a bag.", examples.BAG),
    ("Players", "variable_id"): _guid("variableId", "The id of a variable.", examples.VARIABLE),
    ("Users", "key"): USER,
    ("Users", "character"): PathParameter("lookupKey2", PLACE, examples.PLAYER, NO_PLAYER),
    ("History", "entry_id"): PathParameter("id", "The id of an entry.", examples.ENTRY, NO_ENTRY),
    ("Batches", "batch_id"): _guid("id", "The id of a batch.", examples.BATCH),
    ("Approvals", "request_id"): _guid("id", "The id of a request.", examples.BATCH),
    ("Guilds", "guild_id"): _guid("guildId", "The id of a guild.", examples.GUILD),
    ("Game", "guild_id"): _guid("guildId", "The id of a guild.", examples.GUILD),
    ("Game", "variable_id"): _guid("variableId", "The id of a variable.", examples.VARIABLE),
    ("Game", "map_id"): _guid("mapId", "The id of a map.", examples.MAP),
    ("Game", "key"): PLAYER,
    ("Game", "action_id"): _guid("id", "The id of an action.", examples.ACTION),
    ("Catalogue", "type_name"): PathParameter("type", OBJECT_TYPE, "item"),
    ("Catalogue", "object_id"): _guid("id", "The id of an object.", examples.ITEM),
    ("Global variables", "variable_id"): _guid(
        "id", "The id of a global variable.", examples.GLOBAL_VARIABLE
    ),
    ("Logs", "user_key"): USER._replace(name="id"),
    ("Logs", "player_key"): PLAYER._replace(name="id"),
    ("Keys", "key_id"): _guid("id", "The id of a key.", examples.KEY_ID),
    ("Staff", "role"): PathParameter("name", "The name of a role.", "support", NO_ROLE),
    ("Staff", "key"): USER,
    ("Credentials", "key"): USER._replace(name="username", example="demo"),
    ("Credentials", "token_id"): _guid("tokenId", "The refresh token.", examples.TOKEN),
    ("Credentials", "sign_in_id"): _guid("id", "The id of a sign-in.", examples.SIGN_IN),
}


def openapi_path(rule: str) -> str:
    return _ARGUMENT.sub(r"{\1}", rule)


def parameters_of(rule: Rule, operation: Document) -> dict[str, PathParameter]:
    parameters = {
        argument: PATH_PARAMETERS[operation["tags"][0], argument]
        for argument in _ARGUMENT.findall(rule.rule)
    }
    if "character" in parameters:
        parameters["key"] = parameters["key"]._replace(name="lookupKey1")
    return parameters


def documented_path(rule: Rule, operation: Document) -> str:
    parameters = parameters_of(rule, operation)
    names = {argument: f"{{{parameter.name}}}" for argument, parameter in parameters.items()}
    return openapi_path(rule.rule).format(**names)
