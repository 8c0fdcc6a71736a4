"""The path parameters of the OpenAPI document, whose names differ from those of the views."""

from __future__ import annotations

import re
from typing import NamedTuple

from werkzeug.routing import Rule

from app.openapi import examples
from app.types import Document

_ARGUMENT = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")


class PathParameter(NamedTuple):
    """A path parameter as it is documented."""

    name: str
    description: str
    example: str
    # What a 404 says is missing; None for a guid, which can only be malformed.
    kind: str | None = None


PATH_PARAMETERS = {
    ("Players", "key"): PathParameter(
        "lookupKey", "A character's name or id.", examples.PLAYER, "player"
    ),
    ("Players", "bag_id"): PathParameter("bagId", "The id of a bag.", examples.BAG),
    ("Players", "variable_id"): PathParameter(
        "variableId", "The id of a variable.", examples.VARIABLE
    ),
    ("Users", "key"): PathParameter("lookupKey", "A username or user id.", examples.USER, "user"),
    ("Users", "character"): PathParameter(
        "lookupKey2",
        "A character's id, or its name, or its place in the user's list, from 0.",
        examples.PLAYER,
        "player",
    ),
    ("History", "entry_id"): PathParameter(
        "id", "The id of an entry.", examples.ENTRY, "entry of history"
    ),
    ("Credentials", "key"): PathParameter("username", "A username or user id.", "demo", "user"),
    ("Credentials", "token_id"): PathParameter("tokenId", "The refresh token.", examples.TOKEN),
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
