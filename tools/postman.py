"""Generate the Postman collection and its environment from the OpenAPI document.

Usage: quartermaster openapi | python -m tools.postman [FOLDER]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from app.core.types import Document
from tools.postman_values import (
    BODY_VALUES,
    ENVIRONMENT,
    FIXED_HEADERS,
    FOLDERS,
    HEADER_VALUES,
    MAY_BE_REFUSED,
    OWN_PATHS,
    PATH_VALUES,
    RUNS_AFTER,
    WHOLE_BODIES,
)

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
JSON = "application/json"
TOKEN = {"key": "token", "value": "{{accessToken}}", "type": "string"}
# JavaScript that runs before and after the request of an operation, and that checks responses.
SCRIPTS = Path(__file__).with_name("postman_scripts")
# Both erase somebody who was registered right before.
SAME_BEFORE = {"deleteUser": "eraseUser"}
# Longer examples of answers are in the OpenAPI document only.
EXAMPLE_LINES = 20


def script(name: str) -> str:
    """Return a script, or an empty text if it does not exist."""
    path = SCRIPTS / f"{name}.js"
    return path.read_text() if path.is_file() else ""


def environment() -> Document:
    types = {"password": "secret"}
    values = [
        {"key": key, "value": value, "type": types.get(key, "default"), "enabled": True}
        for key, value in ENVIRONMENT.items()
    ]
    scope = {"_postman_variable_scope": "environment"}
    return {"name": "Quartermaster (demo world)", "values": values, **scope}


def collection(document: Document) -> Document:
    requests = {
        operation["operationId"]: Request(document, path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    folders: dict[str, list[Document]] = {folder: [] for folder in FOLDERS}
    for name in in_order(requests):
        folders[requests[name].folder] += requests[name].items()
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [TOKEN]},
        "event": [_event("prerequest", script("sign_in"))],
        "variable": [{"key": "newUser", "value": "newcomer"}, {"key": "value", "value": "294"}],
        "item": [
            {"name": folder, "description": tags[folder], "item": items}
            for folder, items in folders.items()
        ],
    }


def in_order(names: Iterable[str], first: str | None = None) -> Iterator[str]:
    """Yield operations in the order of a run: each before those that depend on it."""
    for name in names:
        if RUNS_AFTER.get(name) == first:
            yield name
            yield from in_order(RUNS_AFTER, name)


def _event(listen: str, script: str) -> Document:
    return {"listen": listen, "script": {"type": "text/javascript", "exec": script.splitlines()}}


class Request:
    """One operation as an item of a Postman collection."""

    def __init__(self, document: Document, path: str, method: str, operation: Document) -> None:
        self._schemas: Document = document["components"]["schemas"]
        self._path = path
        self._method = method.upper()
        self._operation = operation
        self._name: str = operation["operationId"]
        self.folder: str = operation["tags"][0]

    def items(self) -> list[Document]:
        """Return the item of an operation; createToken has two, one for each grant."""
        item = self._item(self._operation["summary"], self._request(self._body()))
        if self._name != "createToken":
            return [item]
        refresh = {"grant_type": "refresh_token", "refresh_token": "{{refreshToken}}"}
        refresh_item = self._item("Refresh an access token", self._request(_form(refresh)))
        return [item, {**refresh_item, "response": []}]

    def _item(self, name: str, request: Document) -> Document:
        events = [_event("test", self._checks())]
        if before := script(f"before/{SAME_BEFORE.get(self._name, self._name)}"):
            events.insert(0, _event("prerequest", before))
        return {
            "name": name,
            "event": events,
            "request": request,
            "response": list(self._example(request)),
        }

    def _checks(self) -> str:
        """Return the script that checks the response, and sets variables for later requests."""
        may_be_refused = self._name in MAY_BE_REFUSED
        checks = script("answers_or_refuses" if may_be_refused else "answers")
        after = "" if may_be_refused else script(f"after/{self._name}")
        schema = self._operation["responses"]["200"]["content"][JSON]["schema"]
        return checks.replace("@schema@", json.dumps(self._json_schema(schema))) + after

    def _request(self, body: Document | None) -> Document:
        headers = []
        if body and body["mode"] == "raw":
            headers.append({"key": "Content-Type", "value": JSON})
        values = {**HEADER_VALUES, **FIXED_HEADERS.get(self._name, {})}
        headers += [
            {"key": name, "value": values[name]} for name in map(_name, self._parameters("header"))
        ]
        request = {
            "method": self._method,
            "header": headers,
            "url": self._url(),
            "description": self._operation["description"],
        }
        if not self._operation["security"]:
            request["auth"] = {"type": "noauth"}
        return {**request, "body": body} if body else request

    def _parameters(self, place: str) -> list[Document]:
        return [found for found in self._operation["parameters"] if found["in"] == place]

    def _url(self) -> Document:
        path = re.sub(r"\{(\w+)\}", r":\1", self._path)
        query = [
            {
                "key": parameter["name"],
                "value": str(parameter["schema"].get("default", "")),
                "description": parameter.get("description", ""),
                "disabled": True,
            }
            for parameter in self._parameters("query")
        ]
        return {
            "raw": "{{baseUrl}}" + path,
            "host": ["{{baseUrl}}"],
            "path": path.strip("/").split("/"),
            "query": query,
            "variable": [
                {"key": name, "value": OWN_PATHS.get(self._name) or PATH_VALUES[self.folder, name]}
                for name in map(_name, self._parameters("path"))
            ],
        }

    def _body(self) -> Document | None:
        content = self._operation.get("requestBody", {}).get("content")
        if not content:
            return None
        kind, media = next(iter(content.items()))
        body = {**media["example"], **BODY_VALUES.get(self._name, {})}
        body = WHOLE_BODIES.get(self._name, body)
        if kind != JSON:
            return _form(body)
        # Postman substitutes text: without the quotes, the body contains a number or a boolean.
        text = json.dumps(body, indent=2).replace('"{{value}}"', "{{value}}")
        return {"mode": "raw", "raw": text, "options": {"raw": {"language": "json"}}}

    def _json_schema(self, schema: Any) -> Any:
        """Convert an OpenAPI schema to JSON Schema draft 7: no references, nullable or examples."""
        if isinstance(schema, list):
            return [self._json_schema(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._json_schema(self._schemas[schema["$ref"].rpartition("/")[2]])
        converted = {
            name: self._json_schema(part)
            for name, part in schema.items()
            if name not in ("example", "description", "nullable")
            and (name, part) != ("format", "int64")
        }
        # A schema without a type accepts any value, including null.
        if schema.get("nullable") and "type" in converted:
            converted["type"] = [converted["type"], "null"]
        return converted

    def _example(self, request: Document) -> Iterator[Document]:
        """Yield the example of a success, if it is short."""
        media = self._operation["responses"]["200"]["content"][JSON]
        examples = [named["value"] for named in media.get("examples", {}).values()]
        body = json.dumps(media.get("example", *examples[:1]), indent=2)
        if len(body.splitlines()) <= EXAMPLE_LINES:
            yield {
                "name": "OK",
                "originalRequest": {"method": self._method, "url": request["url"]["raw"]},
                "status": "OK",
                "code": 200,
                "_postman_previewlanguage": "json",
                "header": [],
                "body": body,
            }


_name = itemgetter("name")


def _form(fields: Document) -> Document:
    pairs = [{"key": key, "value": value, "type": "text"} for key, value in fields.items()]
    return {"mode": "urlencoded", "urlencoded": pairs}


def files(document: Document) -> dict[str, str]:
    """Return the texts of the files, by their names."""
    made = {"collection": collection(document), "environment": environment()}
    return {
        f"quartermaster.postman_{name}.json": json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        for name, value in made.items()
    }


if __name__ == "__main__":
    folder = Path(*sys.argv[1:] or ["postman"])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(json.load(sys.stdin)).items():
        (folder / name).write_text(text)
        print(f"Wrote {folder / name}.")
