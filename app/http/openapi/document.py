"""The OpenAPI document, from the declarations of the views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import flask_smorest
from flask import Flask
from flask_smorest.spec.plugins import FlaskPlugin
from werkzeug.routing import Rule

from app.core.errors import NotFound, QuartermasterError
from app.core.naming import Lookup
from app.core.types import Document
from app.http.api import Blueprint, FailureSchema
from app.http.errors import BUG, SENTENCES, body_of, codes, headers_of, http_body, status_of
from app.http.openapi.guide import (
    ABOUT,
    FAILURES,
    GUID,
    HEADERS,
    IDEMPOTENCY_KEY,
    PATH_PARAMETERS,
    REASON,
    SECURITY,
    STATUSES,
)
from app.http.path_converters import CONVERTERS

JSON = "application/json"
# An argument in a rule of Werkzeug, with its converter.
ARGUMENT = re.compile(r"<([^<>]+)>")


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
    for blueprint in blueprints:
        api.register_blueprint(blueprint)
    document: Document = api.spec.to_dict()
    schemas = document["components"]["schemas"]
    # flask-smorest adds it for its X-Pagination header, which no response has here.
    schemas.pop("PaginationMetadata")
    # Not an enum: with one, generated clients would fail at a code of a later release.
    schemas["Failure"]["properties"]["Code"]["x-extensible-enum"] = list(codes())
    paths: Document = {}
    for rule in app.url_map.iter_rules():
        item = document["paths"].get(FlaskPlugin.flaskpath2openapi(rule.rule), {})
        for method in sorted(name.lower() for name in rule.methods or ()):
            if operation := item.get(method):
                parameters, missing = _path_parameters(rule, operation["tags"][0])
                view = app.view_functions[rule.endpoint]
                _complete(operation, view, parameters, missing, schemas)
                path = rule.rule
                for parameter in parameters:
                    path = ARGUMENT.sub(f"{{{parameter['name']}}}", path, count=1)
                paths.setdefault(path, {})[method] = operation
    document["paths"] = paths
    document["components"] = {
        "schemas": schemas,
        "securitySchemes": SECURITY,
        "headers": HEADERS,
        "responses": {
            f"Failure{status}": _failure(status, errors) for status, errors in FAILURES.items()
        },
    }
    tags = {of["tags"][0] for item in paths.values() for of in item.values()}
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in tags]
    return document


def _path_parameters(rule: Rule, group: str) -> tuple[list[Document], list[NotFound]]:
    """Return the parameters of a path in their order, and examples of what may be missing."""
    parameters, missing = list[Document](), []
    for argument in ARGUMENT.findall(rule.rule):
        found = PATH_PARAMETERS.get(f"{group} {argument}") or PATH_PARAMETERS[argument]
        name, description, example, kind = found
        if name == "lookupKey" and "lookup:character" in rule.rule:
            name = "lookupKey1"
        if kind in ("player", "user"):
            missing.append(NotFound(kind, Lookup.parse("nobody")))
        elif kind not in ("", GUID):
            missing.append(NotFound(kind, "nobody"))
        schema = {"type": "string", "format": "uuid"} if kind == GUID else {"type": "string"}
        about = {"description": description, "example": example, "schema": schema}
        parameters.append({"in": "path", "name": name, "required": True, **about})
    return parameters, missing


def _complete(
    operation: Document,
    view: Any,
    path_parameters: list[Document],
    missing: list[NotFound],
    schemas: Document,
) -> None:
    """Complete an operation, as flask-smorest documents it, in place."""
    is_idempotent, is_recorded = hasattr(view, "is_idempotent"), hasattr(view, "is_recorded")
    roles = list(view.access)
    # The names of views in camelCase, which client generators convert to the style of a language.
    name = re.sub(r"_(.)", lambda match: match[1].upper(), view.__name__)
    access = "Public."
    if roles:
        scopes = ", ".join(f"`{scope}`" for scope in view.scopes or ()) or "any"
        of_keys = "Not with a key." if view.scopes is None else f"Scopes of a key: {scopes}."
        access = f"Roles: {', '.join(f'`{role}`' for role in roles)}. {of_keys}"
    about = operation.get("description")
    parameters = [
        *path_parameters,
        *operation.get("parameters", []),
        *([IDEMPOTENCY_KEY] if is_idempotent else []),
        *([REASON] if is_recorded else []),
    ]
    bodies = list(operation.get("requestBody", {}).get("content", {}).values())
    responses = operation["responses"]
    successes = [responses[status]["content"][JSON] for status in responses if status[0] == "2"]
    for media in (*bodies, *successes):
        media.setdefault("example", _example(media["schema"], schemas))
    for media in successes:
        _require_all(media["schema"], schemas)

    sent = {parameter["name"] for parameter in parameters}
    for body in bodies:
        sent |= _resolve(body["schema"], schemas).get("properties", {}).keys()
    conditions = {
        "X-Request-ID": True,
        "Idempotency-Replayed": is_idempotent,
        "X-History-Id": is_recorded and not hasattr(view, "leaves_no_entry"),
        "Warning": hasattr(view, "warns") or sent & {"pageSize", "count"},
        "X-Version": hasattr(view, "has_version"),
        **dict.fromkeys(("Deprecation", "Link"), operation.get("deprecated")),
    }
    headers = [name for name, is_sent in conditions.items() if is_sent]
    responses["200"]["description"] = "Done."
    for status in responses.keys() & {"200", "201"}:
        responses[status]["headers"] = _headers(headers)
    documented = {status: body for status, body in responses.items() if "content" in body}
    for response in documented.values():
        response.setdefault("headers", _headers(["X-Request-ID"]))

    formats = {parameter["schema"].get("format") for parameter in parameters}
    general = {429, 500, 503}
    general |= {401, 403} if roles else set()
    general |= {413, 415} if bodies else set()
    general |= {400} if bodies or is_recorded or formats & {"uuid", "int64"} else set()
    errors = [*missing, *getattr(view, "refusals", ())]
    failures: Document = {}
    for status in general | set(map(status_of, errors)):
        own = [error for error in errors if status_of(error) == status]
        shared = FAILURES[status] if status in general else ()
        reference = {"$ref": f"#/components/responses/Failure{status}"}
        failures[str(status)] = _failure(status, [*shared, *own]) if own else reference
    operation.update(
        operationId=name,
        description="\n\n".join(filter(None, (about, access))),
        security=[{"password": roles}, {"bearer": []}] if roles else [],
        parameters=parameters,
        responses=dict(sorted({**failures, **documented}.items())),
    )


def _example(schema: Document, schemas: Document) -> Any:
    """Compose the example of a schema from the examples of its properties."""
    schema = _resolve(schema, schemas)
    if "example" in schema:
        return schema["example"]
    if schema.get("type") == "array":
        return [_example(schema["items"], schemas)]
    properties = schema.get("properties", {})
    return {
        name: _example(inner, schemas)
        for name, inner in properties.items()
        if "example" in inner or "$ref" in inner or inner.get("type") == "array"
    }


def _require_all(schema: Document, schemas: Document) -> None:
    """Mark every property of a response as required, except Next, which not all pages have."""
    schema = _resolve(schema, schemas)
    if schema.get("type") == "array":
        _require_all(schema["items"], schemas)
    elif "properties" in schema:
        schema["required"] = [name for name in schema["properties"] if name != "Next"]
        for inner in schema["properties"].values():
            _require_all(inner, schemas)


def _resolve(schema: Document, schemas: Document) -> Document:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: Document = schemas[name] if name else schema
    return resolved


def _headers(names: Iterable[str]) -> Document:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _failure(status: int, errors: Iterable[QuartermasterError]) -> Document:
    """Return the response with these errors; without any, that of Flask for its status."""
    bodies = [body_of(error) for error in errors]
    bodies = bodies or [http_body(status, SENTENCES.get(status, BUG))]
    named = {str(number): {"value": body} for number, body in enumerate(bodies, start=1)}
    examples = {"examples": named} if len(bodies) > 1 else {"example": bodies[0]}
    headers = [name for error in errors for name in headers_of(error)]
    return {
        "description": STATUSES[status],
        "headers": _headers(["X-Request-ID", *headers]),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Failure"}, **examples}},
    }
