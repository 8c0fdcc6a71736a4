"""Completes an operation of the OpenAPI document from its view and its path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from app.errors import (
    Invalid,
    InvalidField,
    KeyNotAllowed,
    QuartermasterError,
    RateLimited,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
    Unavailable,
)
from app.http.errors import BUG, SENTENCES, body_of, headers_of, http_body, status_of
from app.http.intents import REASON_PATTERN
from app.openapi.guide import STATUSES
from app.openapi.path_parameters import parameters_of
from app.types import Document

JSON = "application/json"
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": (
        "Makes retries safe: a repeated request with the same key changes nothing and gets the "
        "first answer, as long as history is kept. Printable ASCII characters."
    ),
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
}
REASON = {
    "in": "header",
    "name": "X-Reason",
    "description": (
        "The reason for the change, for the history: percent-encoded UTF-8, up to 500 characters."
    ),
    "required": False,
    "schema": {"type": "string", "pattern": REASON_PATTERN},
}
# What a field with this format or type must be, in sentences.
KINDS = {"uuid": "a guid", "boolean": "true or false", "array": "a list"}


class Operation:
    """An operation as flask-smorest documents it, completed in place."""

    def __init__(self, operation: Document, rule: Rule, app: Flask, schemas: Document) -> None:
        self._operation = operation
        view: Any = app.view_functions[rule.endpoint]
        self._view = view
        self._schemas = schemas
        self._path_parameters = parameters_of(rule, operation).values()
        self._roles = list(view.access)
        self._scopes: tuple[str, ...] | None = view.scopes

    def complete(self) -> None:
        operation = self._operation
        operation["operationId"] = _camel_case(self._view.__name__)
        paragraphs = [operation.get("description", ""), self._access()]
        operation["description"] = "\n\n".join(filter(None, paragraphs))
        operation["security"] = [{"password": self._roles}, {"bearer": []}] if self._roles else []
        operation["parameters"] = [
            *(parameter.to_openapi() for parameter in self._path_parameters),
            *operation.get("parameters", []),
            *([IDEMPOTENCY_KEY] if self._is("is_idempotent") else []),
            *([REASON] if self._is("is_recorded") else []),
        ]
        for media in operation.get("requestBody", {}).get("content", {}).values():
            media.setdefault("example", self._example(media["schema"]))
        self._complete_successes()
        self._add_failures()

    def _is(self, mark: str) -> bool:
        return hasattr(self._view, mark)

    def _access(self) -> str:
        if not self._roles:
            return "Public."
        roles = ", ".join(f"`{role}`" for role in self._roles)
        if self._scopes is None:
            return f"Roles: {roles}. Not with a key."
        scopes = ", ".join(f"`{scope}`" for scope in self._scopes) or "any"
        return f"Roles: {roles}. Scopes of a key: {scopes}."

    def _complete_successes(self) -> None:
        responses = self._operation["responses"]
        for status in responses:
            if status.startswith("20"):
                media = responses[status]["content"][JSON]
                media.setdefault("example", self._example(media["schema"]))
                self._require_all(media["schema"])
        responses["200"]["description"] = "Done."
        names = ["X-Request-ID"]
        if self._is("is_idempotent"):
            names.append("Idempotency-Replayed")
        if self._is("is_recorded") and not self._is("leaves_no_entry"):
            names.append("X-History-Id")
        bodies = self._operation.get("requestBody", {}).get("content", {}).values()
        schemas = [self._resolve(body["schema"]) for body in bodies]
        sent = {parameter["name"] for parameter in self._operation["parameters"]}
        sent = sent.union(*(schema.get("properties", ()) for schema in schemas))
        if self._is("warns") or sent & {"pageSize", "count"}:
            names.append("Warning")
        if self._is("has_version"):
            names.append("X-Version")
        if self._operation.get("deprecated"):
            names += ["Deprecation", "Link"]
        for status in responses.keys() & {"200", "201"}:
            responses[status]["headers"] = _headers(names)

    def _example(self, schema: Document) -> Any:
        """Compose the example of a schema from the examples of its properties."""
        schema = self._resolve(schema)
        if "example" in schema:
            return schema["example"]
        if schema.get("type") == "array":
            return [self._example(schema["items"])]
        properties = schema.get("properties", {})
        return {
            name: self._example(inner)
            for name, inner in properties.items()
            if "example" in inner or "$ref" in inner or inner.get("type") == "array"
        }

    def _require_all(self, schema: Document) -> None:
        """Mark every property of a response as required, except Next, which not all pages have."""
        schema = self._resolve(schema)
        if schema.get("type") == "array":
            self._require_all(schema["items"])
        elif "properties" in schema:
            schema["required"] = [name for name in schema["properties"] if name != "Next"]
            for inner in schema["properties"].values():
                self._require_all(inner)

    def _resolve(self, schema: Document) -> Document:
        name = schema.get("$ref", "").rpartition("/")[2]
        resolved: Document = self._schemas[name] if name else schema
        return resolved

    def _add_failures(self) -> None:
        responses = self._operation["responses"]
        documented = {status: body for status, body in responses.items() if "content" in body}
        for answer in documented.values():
            answer.setdefault("headers", _headers(["X-Request-ID"]))
        failures: dict[int, list[tuple[Document, dict[str, str]]]] = {}
        for error in (*self._bad_requests(), *self._refusals()):
            answer = (body_of(error), headers_of(error))
            failures.setdefault(status_of(error), []).append(answer)
        for status in (413, 415) if "requestBody" in self._operation else ():
            failures[status] = [(http_body(status, SENTENCES[status]), {})]
        failures[500] = [(http_body(500, BUG), {})]
        described = {str(status): _failure(status, failures[status]) for status in sorted(failures)}
        self._operation["responses"] = dict(sorted({**described, **documented}.items()))

    def _bad_requests(self) -> Iterator[Invalid]:
        for parameter in self._operation["parameters"]:
            name, schema = parameter["name"], parameter["schema"]
            if schema.get("format") == "uuid":
                sent = f"{name} '42'" if parameter["in"] == "path" else f"field '{name}'"
                yield Invalid(f"The {sent} must be a guid.", {name: ["Must be a guid."]})
            elif schema.get("type") == "integer":
                yield InvalidField(name, "Must be a whole number.")
        if self._is("is_recorded"):
            yield Invalid("The header X-Reason is required: give the reason for the change.")
        if "requestBody" in self._operation:
            yield self._bad_body()

    def _bad_body(self) -> Invalid:
        media = next(iter(self._operation["requestBody"]["content"].values()))
        schema = self._resolve(media["schema"])
        if "required" in schema:
            return InvalidField(schema["required"][0], "Is required.")
        name, field = next(iter(schema["properties"].items()))
        kind = field.get("format", field.get("type"))
        return InvalidField(name, f"Must be {KINDS.get(kind, 'a whole number')}.")

    def _refusals(self) -> Iterator[QuartermasterError]:
        """Yield the errors that the roles and the path imply, then those that the view declares."""
        if self._roles:
            yield Unauthorized()
        yield from map(RoleMissing, self._roles)
        if self._scopes is None:
            yield KeyNotAllowed()
        yield from map(ScopeMissing, self._scopes or ())
        yield from (found.missing for found in self._path_parameters if found.missing)
        yield from getattr(self._view, "refusals", ())
        yield RateLimited("caller", 17, "requests")
        yield Unavailable("The database is not available at the moment; please try again.")


def _camel_case(name: str) -> str:
    """Return a name in camelCase, which client generators convert to the style of a language."""
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def _headers(names: list[str]) -> Document:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _failure(status: int, answers: list[tuple[Document, dict[str, str]]]) -> Document:
    names = dict.fromkeys(name for _, headers in answers for name in headers)
    bodies = list({body["Message"]: body for body, _ in answers}.values())
    examples = {str(number): {"value": body} for number, body in enumerate(bodies, start=1)}
    example = {"examples": examples} if len(bodies) > 1 else {"example": bodies[0]}
    return {
        "description": STATUSES[status],
        "headers": _headers(["X-Request-ID", *names]),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Failure"}, **example}},
    }
