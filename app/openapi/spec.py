"""The OpenAPI document, from the declarations of the views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flask_smorest
from flask import Flask
from werkzeug.routing import Rule

from app.http.api import Blueprint, FailureSchema
from app.http.errors import codes
from app.http.path_converters import CONVERTERS
from app.openapi.guide import ABOUT, HEADERS, SECURITY
from app.openapi.operation import Operation
from app.openapi.path_parameters import documented_path, openapi_path
from app.types import Document


class Api(flask_smorest.Api):
    """flask-smorest's API with our error format."""

    # Not named ErrorSchema: generated JavaScript clients would get a class Error.
    ERROR_SCHEMA = FailureSchema


def specification(settings: Mapping[str, Any], blueprints: Iterable[Blueprint]) -> Document:
    """Return the document of some blueprints.

    A separate application registers them: documenting all views would take most of the startup time
    of the application that serves requests.
    """
    app = Flask("documentation", static_folder=None)
    app.config.update(settings)
    app.url_map.converters |= CONVERTERS
    api = Api(app, spec_kwargs=ABOUT)
    for converter in CONVERTERS.values():
        api.register_converter(converter, lambda _: {"type": "string"})
    for blueprint in blueprints:
        api.register_blueprint(blueprint)
    document: Document = api.spec.to_dict()
    _complete_components(document["components"])
    document["paths"] = _paths(app, document)
    tags = {of["tags"][0] for item in document["paths"].values() for of in item.values()}
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in tags]
    return document


def _complete_components(components: Document) -> None:
    components["securitySchemes"] = SECURITY
    components["headers"] = HEADERS
    # Not an enum: with one, generated clients would fail at a code of a later release.
    components["schemas"]["Failure"]["properties"]["Code"]["x-extensible-enum"] = list(codes())
    components.pop("responses")
    components.pop("parameters", None)
    # flask-smorest adds it for its X-Pagination header, which no response has here.
    components["schemas"].pop("PaginationMetadata")
    for schema in components["schemas"].values():
        for field in schema.get("properties", {}).values():
            # OpenAPI 3.0 forbids nullable without a type; such a schema accepts null anyway.
            if not field.keys() & {"type", "allOf", "$ref"}:
                field.pop("nullable", None)


def _paths(app: Flask, document: Document) -> Document:
    paths: Document = {}
    for rule in app.url_map.iter_rules():
        for method, operation in _operations(rule, document["paths"]):
            Operation(operation, rule, app, document["components"]["schemas"]).complete()
            paths.setdefault(documented_path(rule, operation), {})[method] = operation
    return paths


def _operations(rule: Rule, paths: Document) -> Iterator[tuple[str, Document]]:
    item = paths.get(openapi_path(rule.rule), {})
    for method in sorted(rule.methods or ()):
        if method.lower() in item:
            yield method.lower(), item[method.lower()]
