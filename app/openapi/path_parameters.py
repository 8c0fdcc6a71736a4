"""The path parameters of the OpenAPI document, whose names differ from those of the views."""

from __future__ import annotations

import re
from typing import NamedTuple

from werkzeug.routing import Rule

from app.errors import NotFound
from app.naming import Lookup
from app.openapi import examples
from app.types import Document

_ARGUMENT = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")


class PathParameter(NamedTuple):
    """A path parameter as it is documented."""

    name: str
    description: str
    example: str
    # What a 404 says; None for what can only be malformed.
    missing: NotFound | None = None
    is_guid: bool = False


NOBODY = Lookup.parse("nobody")
PATH_PARAMETERS = {
    ("Players", "key"): PathParameter(
        "lookupKey", "A character's name or id.", examples.PLAYER, NotFound("player", NOBODY)
    ),
    ("Players", "player_id"): PathParameter(
        "lookupKey", "A character's id.", examples.PLAYER_ID, is_guid=True
    ),
    ("Players", "bag_id"): PathParameter("bagId", "The id of a bag.", examples.BAG, is_guid=True),
    ("Players", "variable_id"): PathParameter(
        "variableId", "The id of a variable.", examples.VARIABLE, is_guid=True
    ),
    ("Users", "key"): PathParameter(
        "lookupKey", "A username or user id.", examples.USER, NotFound("user", NOBODY)
    ),
    ("Users", "character"): PathParameter(
        "lookupKey2",
        "A character's id, or its name, or its place in the user's list, from 0.",
        examples.PLAYER,
        NotFound("player", NOBODY),
    ),
    ("History", "entry_id"): PathParameter(
        "id", "The id of an entry.", examples.ENTRY, NotFound("entry of history", "nobody")
    ),
    ("Batches", "batch_id"): PathParameter(
        "id", "The id of a batch.", examples.BATCH, is_guid=True
    ),
    ("Game", "map_id"): PathParameter("mapId", "The id of a map.", examples.MAP, is_guid=True),
    ("Game", "key"): PathParameter(
        "lookupKey", "A character's name or id.", examples.PLAYER, NotFound("player", NOBODY)
    ),
    ("Game", "action_id"): PathParameter(
        "id", "The id of an action.", examples.ACTION, is_guid=True
    ),
    ("Catalogue", "type_name"): PathParameter(
        "type", "A type of objects, such as item, spell or map.", "item"
    ),
    ("Catalogue", "object_id"): PathParameter(
        "id", "The id of an object.", examples.ITEM, is_guid=True
    ),
    ("Global variables", "variable_id"): PathParameter(
        "id", "The id of a global variable.", examples.GLOBAL_VARIABLE, is_guid=True
    ),
    ("Logs", "user_key"): PathParameter(
        "id", "A username or user id.", examples.USER, NotFound("user", NOBODY)
    ),
    ("Logs", "player_key"): PathParameter(
        "id", "A character's name or id.", examples.PLAYER, NotFound("player", NOBODY)
    ),
    ("Keys", "key_id"): PathParameter("id", "The id of a key.", examples.KEY_ID, is_guid=True),
    ("Credentials", "key"): PathParameter(
        "username", "A username or user id.", "demo", NotFound("user", NOBODY)
    ),
    ("Credentials", "token_id"): PathParameter(
        "tokenId", "The refresh token.", examples.TOKEN, is_guid=True
    ),
    ("Credentials", "sign_in_id"): PathParameter(
        "id", "The id of a sign-in.", examples.SIGN_IN, is_guid=True
    ),
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
