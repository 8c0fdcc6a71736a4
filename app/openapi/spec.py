"""The OpenAPI document: what the views' decorators declare, and what follows from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from flask import Flask
from werkzeug.routing import Rule

from app.http.api import Api
from app.openapi.guide import HEADERS, SECURITY
from app.openapi.operation import Operation
from app.openapi.path_parameters import documented_path, openapi_path
from app.types import Document


class Specification:
    """The OpenAPI document, made when it is first asked for."""

    def __init__(self, app: Flask, api: Api) -> None:
        self._app, self._api = app, api
        self._making = threading.Lock()
        self._document: Document | None = None

    def get(self) -> Document:
        with self._making:
            if self._document is None:
                self._document = specification(self._app, self._api)
        return self._document


def specification(app: Flask, api: Api) -> Document:
    api.document_views()
    document: Document = api.spec.to_dict()
    document["components"]["securitySchemes"] = SECURITY
    document["components"]["headers"] = HEADERS
    document["components"].pop("responses")
    document["components"].pop("parameters", None)
    # flask-smorest adds it for its X-Pagination header, which no response here has.
    document["components"]["schemas"].pop("PaginationMetadata")
    _let_any_value_be_null(document["components"]["schemas"])
    paths: Document = {}
    for rule in app.url_map.iter_rules():
        if item := document["paths"].get(openapi_path(rule.rule)):
            for method, operation in _operations(rule, item):
                Operation(operation, rule, app, document["components"]["schemas"]).complete()
                paths.setdefault(documented_path(rule, operation), {})[method] = operation
    document["paths"] = paths
    tags = {operation["tags"][0] for item in paths.values() for operation in item.values()}
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in tags]
    return document


def _let_any_value_be_null(schemas: Document) -> None:
    """Remove "nullable" where there is no type: OpenAPI 3.0 allows null there, and not the word."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if not field.keys() & {"type", "allOf", "$ref"}:
                field.pop("nullable", None)


def _operations(rule: Rule, item: Document) -> Iterator[tuple[str, Document]]:
    for method in sorted(rule.methods or ()):
        if method.lower() in item:
            yield method.lower(), item[method.lower()]
