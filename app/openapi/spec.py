"""The OpenAPI document: what the views' decorators say, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from flask import Flask
from werkzeug.routing import Rule

from app.errors import (
    Invalid,
    NotFound,
    QuartermasterError,
    RateLimited,
    RoleMissing,
    Unauthorized,
    Unavailable,
)
from app.http.api import Api
from app.http.errors import BUG, SENTENCES, body_of, headers_of, status_of
from app.openapi import examples
from app.openapi.guide import HEADERS, SECURITY, STATUSES
from app.types import Document

JSON = "application/json"


class PathPart(NamedTuple):
    """A variable part of a path, as the documentation names it."""

    name: str
    description: str
    example: str
    # What is not found where it leads nowhere; none for a guid, which can be malformed instead.
    kind: str | None = None


PATH_PARTS = {
    ("Players", "key"): PathPart(
        "lookupKey", "A character's name or id.", examples.PLAYER, "player"
    ),
    ("Players", "bag_id"): PathPart("bagId", "The id of a bag.", examples.BAG),
    ("Players", "variable_id"): PathPart("variableId", "The id of a variable.", examples.VARIABLE),
    ("Users", "key"): PathPart("lookupKey", "A username or user id.", examples.USER, "user"),
    ("Users", "character"): PathPart(
        "lookupKey2",
        "A character's id, or its name, or its place in the user's list, from 0.",
        examples.PLAYER,
        "player",
    ),
    ("Credentials", "key"): PathPart("username", "A username or user id.", "demo", "user"),
    ("Credentials", "token_id"): PathPart("tokenId", "The refresh token.", examples.TOKEN),
}


def specification(app: Flask, api: Api) -> Document:
    """Return the whole document."""
    document: Document = api.spec.to_dict()
    document["components"]["securitySchemes"] = SECURITY
    document["components"]["headers"] = HEADERS
    document["components"].pop("responses")
    document["components"].pop("parameters", None)
    # flask-smorest's own, for a header that no answer of ours has.
    document["components"]["schemas"].pop("PaginationMetadata")
    paths: Document = {}
    for rule in app.url_map.iter_rules():
        if item := document["paths"].get(_as_path(rule.rule)):
            for method, operation in _operations(rule, item):
                Operation(operation, rule, app, document["components"]["schemas"]).complete()
                paths.setdefault(_renamed_path(rule, operation), {})[method] = operation
    document["paths"] = paths
    tags = {operation["tags"][0] for item in paths.values() for operation in item.values()}
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in tags]
    return document


def _as_path(rule: str) -> str:
    return re.sub(r"<(?:[^:<>]+:)?([^<>]+)>", r"{\1}", rule)


def _operations(rule: Rule, item: Document) -> Iterator[tuple[str, Document]]:
    for method in sorted(rule.methods or ()):
        if method.lower() in item:
            yield method.lower(), item[method.lower()]


def _parts(rule: Rule, operation: Document) -> dict[str, PathPart]:
    parts = {
        argument: PATH_PARTS[operation["tags"][0], argument]
        for argument in re.findall(r"<(?:[^:<>]+:)?([^<>]+)>", rule.rule)
    }
    if "character" in parts:
        parts["key"] = parts["key"]._replace(name="lookupKey1")
    return parts


def _renamed_path(rule: Rule, operation: Document) -> str:
    names = {argument: f"{{{part.name}}}" for argument, part in _parts(rule, operation).items()}
    return _as_path(rule.rule).format(**names)


class Operation:
    """One operation of the document, on its way to completeness."""

    def __init__(self, operation: Document, rule: Rule, app: Flask, schemas: Document) -> None:
        self._operation = operation
        self._rule = rule
        view: Any = app.view_functions[rule.endpoint]
        self._view = view
        self._schemas = schemas
        self._parts = _parts(rule, operation)
        self._roles = [role.value for role in view.access]

    def complete(self) -> None:
        operation = self._operation
        operation["operationId"] = _camel_case(self._view.__name__)
        told = [operation.get("description", ""), self._access()]
        operation["description"] = "\n\n".join(filter(None, told))
        operation["security"] = [{"password": self._roles}, {"bearer": []}] if self._roles else []
        operation["parameters"] = [*self._path(), *operation.get("parameters", [])]
        if hasattr(self._view, "is_idempotent"):
            operation["parameters"].append(IDEMPOTENCY_KEY)
        self._complete_body()
        self._complete_success()
        self._add_failures()

    def _access(self) -> str:
        if not self._roles:
            return "Open to everybody."
        roles = ", ".join(f"`{role}`" for role in self._roles)
        return f"Roles: {roles}."

    def _path(self) -> list[Document]:
        return [
            {
                "in": "path",
                "name": part.name,
                "required": True,
                "description": part.description,
                "example": part.example,
                "schema": {"type": "string", **({} if part.kind else {"format": "uuid"})},
            }
            for part in self._parts.values()
        ]

    def _complete_body(self) -> None:
        for media in self._operation.get("requestBody", {}).get("content", {}).values():
            media.setdefault("example", self._example(media["schema"]))

    def _complete_success(self) -> None:
        success = self._operation["responses"]["200"]
        success["description"] = "Done."
        media = success["content"][JSON]
        media.setdefault("example", self._example(media["schema"]))
        self._require_all(media["schema"])
        names = ["X-Request-ID"]
        if hasattr(self._view, "is_idempotent"):
            names.append("Idempotency-Replayed")
        if self._operation.get("deprecated"):
            names += ["Deprecation", "Link"]
        success["headers"] = _headers(names)

    def _example(self, schema: Document) -> Any:
        """Return an example made of those of its parts."""
        schema = self._resolved(schema)
        if "example" in schema:
            return schema["example"]
        if schema.get("type") == "array":
            return [self._example(schema["items"])]
        parts = schema.get("properties", {})
        return {
            name: self._example(part)
            for name, part in parts.items()
            if "example" in part or "$ref" in part or part.get("type") == "array"
        }

    def _require_all(self, schema: Document) -> None:
        """Say that nothing is left out of an answer but what was not asked for."""
        schema = self._resolved(schema)
        if schema.get("type") == "array":
            self._require_all(schema["items"])
        elif "properties" in schema:
            schema["required"] = [name for name in schema["properties"] if name != "Next"]
            for part in schema["properties"].values():
                self._require_all(part)

    def _resolved(self, schema: Document) -> Document:
        name = schema.get("$ref", "").rpartition("/")[2]
        resolved: Document = self._schemas[name] if name else schema
        return resolved

    def _add_failures(self) -> None:
        responses = self._operation["responses"]
        documented = {status: body for status, body in responses.items() if "content" in body}
        for answer in documented.values():
            answer.setdefault("headers", _headers(["X-Request-ID"]))
        failures: dict[int, list[tuple[Document, dict[str, str]]]] = {}
        for error in self._failures():
            answer = (body_of(error), headers_of(error))
            failures.setdefault(status_of(error), []).append(answer)
        for status in (413, 415) if "requestBody" in self._operation else ():
            failures[status] = [({"Message": SENTENCES[status]}, {})]
        failures[500] = [({"Message": BUG}, {})]
        told = {str(status): _failure(status, failures[status]) for status in sorted(failures)}
        self._operation["responses"] = dict(sorted({**told, **documented}.items()))

    def _failures(self) -> Iterator[QuartermasterError]:
        """Yield what the arguments, the path and the role make plain, and what the view adds."""
        operation = self._operation
        for parameter in operation["parameters"]:
            if parameter["schema"].get("format") == "uuid":
                fault = {parameter["name"]: ["Must be a guid."]}
                yield Invalid(f"The {parameter['name']} '42' must be a guid.", fault)
            elif parameter["schema"].get("type") == "integer":
                fault = {parameter["name"]: ["Must be a whole number."]}
                yield Invalid(f"The field '{parameter['name']}' must be a whole number.", fault)
        if "requestBody" in operation:
            yield self._bad_body()
        if self._roles:
            yield Unauthorized()
        for role in self._roles:
            yield RoleMissing(role)
        for part in self._parts.values():
            if part.kind:
                yield NotFound(part.kind, "nobody")
        yield from getattr(self._view, "refusals", ())
        yield RateLimited("caller", 17, "requests")
        yield Unavailable("The database is not available at the moment; please try again.")

    def _bad_body(self) -> Invalid:
        media = next(iter(self._operation["requestBody"]["content"].values()))
        schema = self._resolved(media["schema"])
        name, fault = next(iter(schema["properties"])), "must be a whole number."
        if "required" in schema:
            name, fault = schema["required"][0], "is required."
        return Invalid(f"The field '{name}' {fault}", {name: [fault.capitalize()]})


IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": (
        "Makes a retry safe: the same key with the same request again changes nothing and gets "
        "the first answer, while the player has had fewer than 64 other changes with a key since. "
        "Printable ASCII characters."
    ),
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
}


def _camel_case(name: str) -> str:
    """Return a name as most generators write it, who know how to turn it into their own style."""
    return re.sub(r"_(.)", lambda part: part[1].upper(), name)


def _headers(names: list[str]) -> Document:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _failure(status: int, answers: list[tuple[Document, dict[str, str]]]) -> Document:
    """Describe one status of an operation, with an example of each reason for it."""
    names = dict.fromkeys(name for _, headers in answers for name in headers)
    bodies = list({body["Message"]: body for body, _ in answers}.values())
    examples = {str(number): {"value": body} for number, body in enumerate(bodies, start=1)}
    shown = {"examples": examples} if len(bodies) > 1 else {"example": bodies[0]}
    return {
        "description": STATUSES[status],
        "headers": _headers(["X-Request-ID", *names]),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Failure"}, **shown}},
    }
