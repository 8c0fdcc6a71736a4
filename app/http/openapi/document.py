"""The OpenAPI document, from the declarations of the views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flask_smorest
from flask import Flask
from flask_smorest.spec.plugins import FlaskPlugin

from app.core.changes import ABSENT
from app.core.errors import QuartermasterError
from app.core.types import Document
from app.http.api import REPLAYED, Blueprint, FailureSchema
from app.http.errors import BUG, SENTENCES, body_of, causes, codes, headers_of, http_body, status_of
from app.http.openapi import guide
from app.http.openapi.guide import FAILURES
from app.http.path_converters import CONVERTERS, PATH_ARGUMENTS, PathArgument

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
    api = Api(app, spec_kwargs=guide.ABOUT)
    for blueprint in blueprints:
        api.register_blueprint(blueprint)
    document: Document = api.spec.to_dict()
    schemas = document["components"]["schemas"]
    # flask-smorest adds it for its X-Pagination header, which no response has here.
    schemas.pop("PaginationMetadata")
    # Not an enum: with one, generated clients would fail at a code of a later release.
    code = schemas["Failure"]["properties"]["Code"]
    code["x-extensible-enum"] = list(codes())
    code["description"] += "".join(
        f"\n- `{name}`: {cause}" for name, cause in sorted(causes().items())
    )
    paths = dict[str, Document]()
    for rule in app.url_map.iter_rules():
        item = document["paths"].get(FlaskPlugin.flaskpath2openapi(rule.rule), {})
        for method in item.keys() & map(str.lower, rule.methods or ()):
            operation, view = item[method], app.view_functions[rule.endpoint]
            arguments = [PATH_ARGUMENTS[name] for name in ARGUMENT.findall(rule.rule)]
            _complete(operation, view, arguments, schemas)
            names = [f"{{{argument.name}}}" for argument in arguments]
            paths.setdefault(ARGUMENT.sub("{}", rule.rule).format(*names), {})[method] = operation

    failures = {f"Failure{status}": _failure(status, of) for status, of in FAILURES.items()}
    return {
        **document,
        # Blueprints that share the group of another have no description.
        "tags": [tag for tag in document["tags"] if tag["description"]],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": guide.SECURITY,
            "headers": guide.HEADERS,
            "responses": failures,
        },
    }


def _complete(
    operation: Document, view: Any, arguments: Sequence[PathArgument], schemas: Document
) -> None:
    """Complete an operation, as flask-smorest documents it, in place."""
    headers = {"X-Request-ID", *getattr(view, "headers", ())}
    takes_key, takes_reason = REPLAYED in headers, headers & {REPLAYED, "X-History-Id"}
    # The names of views in camelCase, which client generators convert to the style of a language.
    name = re.sub(r"_(.)", lambda match: match[1].upper(), view.__name__)
    parameters = [
        *map(_path_parameter, arguments),
        *operation.get("parameters", []),
        *([guide.IDEMPOTENCY_KEY] if takes_key else []),
        *([guide.REASON] if takes_reason else []),
    ]
    bodies = list(operation.get("requestBody", {}).get("content", {}).values())
    sent = {parameter["name"] for parameter in parameters}
    for body in bodies:
        body.setdefault("example", _example(body["schema"], schemas, is_answer=False))
        sent |= _resolve(body["schema"], schemas).get("properties", {}).keys()
    if sent & {"pageSize", "count"}:
        headers.add("Warning")
    if operation.get("deprecated"):
        headers |= {"Deprecation", "Link"}
    # Without the reference to an error of flask-smorest's parser.
    responses = {s: body for s, body in operation["responses"].items() if "content" in body}
    responses["200"]["description"] = "Done."
    for status, response in responses.items():
        media = response["content"][JSON]
        media.setdefault("example", _example(media["schema"], schemas, is_answer=status < "3"))
        response["headers"] = _headers(headers if status < "202" else {"X-Request-ID"})

    general = {429, 500, 503}
    if view.access:
        general |= {401, 403}
    if bodies:
        general |= {413, 415}
    formats = {parameter["schema"].get("format") for parameter in parameters}
    if bodies or takes_reason or formats & {"uuid", "int64"}:
        general.add(400)
    missing = [argument.missing for argument in arguments if argument.missing]
    errors = [*missing, *getattr(view, "refusals", ())]
    for status in general | set(map(status_of, errors)):
        own = [error for error in errors if status_of(error) == status]
        shared = FAILURES[status] if status in general else ()
        reference = {"$ref": f"#/components/responses/Failure{status}"}
        failure = _failure(status, [*shared, *own]) if own else reference
        responses.setdefault(str(status), failure)
    scopes = ", ".join(f"`{scope}`" for scope in view.scopes or ()) or "any"
    of_keys = "Not with a key." if view.scopes is None else f"Scopes of a key: {scopes}."
    roles = ", ".join(f"`{role}`" for role in view.access)
    access = f"Roles: {roles}. {of_keys}" if view.access else "Public."
    operation.update(
        operationId=name,
        description="\n\n".join(filter(None, (operation.get("description"), access))),
        security=[{"password": list(view.access)}, {"bearer": []}] if view.access else [],
        parameters=parameters,
        responses=dict(sorted(responses.items())),
    )


def _path_parameter(argument: PathArgument) -> Document:
    schema = {"type": "string", **({"format": "uuid"} if argument.is_guid else {})}
    about = {"description": argument.about, "example": argument.example, "schema": schema}
    return {"in": "path", "name": argument.name, "required": True, **about}


def _example(schema: Document, schemas: Document, is_answer: bool) -> Any:
    """Compose the example of a schema from those of its parts; ABSENT if it has none.

    Every property of an answer is marked as required, except those that it may lack.
    """
    schema = _resolve(schema, schemas)
    if schema.get("type") == "array":
        composed: Any = [_example(schema["items"], schemas, is_answer)]
    else:
        parts = schema.get("properties", {})
        if is_answer and parts:
            schema["required"] = [n for n, part in parts.items() if not part.get("x-optional")]
        found = {name: _example(part, schemas, is_answer) for name, part in parts.items()}
        composed = {name: value for name, value in found.items() if value is not ABSENT} or ABSENT
    return schema.get("example", composed)


def _resolve(schema: Document, schemas: Document) -> Document:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: Document = schemas[name] if name else schema
    return resolved


def _headers(names: Iterable[str]) -> Document:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in sorted(names)}


def _failure(status: int, errors: Iterable[QuartermasterError]) -> Document:
    """Return the response with these errors; without any, that of Flask for its status."""
    bodies = [*map(body_of, errors)] or [http_body(status, SENTENCES.get(status, BUG))]
    named = {str(number): {"value": body} for number, body in enumerate(bodies, start=1)}
    examples = {"examples": named} if len(bodies) > 1 else {"example": bodies[0]}
    headers = [name for error in errors for name in headers_of(error)]
    return {
        "description": guide.STATUSES[status],
        "headers": _headers(["X-Request-ID", *headers]),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Failure"}, **examples}},
    }
