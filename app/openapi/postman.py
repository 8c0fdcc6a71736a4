"""The Postman collection and its environment, made from the OpenAPI document. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from app.openapi import examples
from app.openapi import postman_scripts as scripts
from app.types import Document

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
JSON = "application/json"
# Saved are the answers that tell something of their request; the others look alike everywhere.
SAVED = (200, 400, 401, 403, 404, 409)
FOLDERS = ("Players", "Users", "Credentials")
ENVIRONMENT = {
    "baseUrl": "http://127.0.0.1:8000",
    "username": "demo",
    "password": "demo",
    "player": examples.PLAYER,
    "user": examples.USER,
    "itemId": examples.ITEM,
    "spellId": examples.SPELL,
    "variableId": examples.VARIABLE,
    "bagId": examples.BAG,
}
# In what order the requests stand: reads, then changes that undo each other, as far as they can.
ORDER = [
    "listPlayers",
    "rankPlayers",
    "listOnlinePlayers",
    "countOnlinePlayers",
    "getPlayer",
    "listVariables",
    "getVariable",
    "getVariableValue",
    "setVariable",
    "getItems",
    "getInventory",
    "getBank",
    "getBag",
    "giveItem",
    "takeItem",
    "listSpells",
    "teachSpell",
    "forgetSpell",
    "listPlayersByBody",
    "listUsers",
    "getUser",
    "registerUser",
    "validatePassword",
    "changeEmail",
    "changePassword",
    "sendResetCode",
    "redeemResetCode",
    "listCharacters",
    "getCharacter",
    "manageEmail",
    "managePassword",
    "listUsersByBody",
    "createToken",
    "revokeToken",
    "revokeTokens",
]
PATH_VALUES = {
    ("Players", "lookupKey"): "{{player}}",
    ("Players", "variableId"): "{{variableId}}",
    ("Players", "bagId"): "{{bagId}}",
    ("Users", "lookupKey"): "{{newUser}}",
    ("Users", "lookupKey1"): "{{user}}",
    ("Users", "lookupKey2"): "0",
    ("Credentials", "username"): "{{username}}",
    ("Credentials", "tokenId"): "{{spareToken}}",
}
# Where reading somebody who is there says more than reading the account that was just made.
OF_THE_WORLD = {"getUser", "listCharacters"}
BODY_VALUES: dict[str, Document] = {
    "setVariable": {"value": "{{value}}"},
    "giveItem": {"itemid": "{{itemId}}"},
    "takeItem": {"itemid": "{{itemId}}"},
    "teachSpell": {"spellid": "{{spellId}}"},
    "forgetSpell": {"spellid": "{{spellId}}"},
    "registerUser": {"username": "{{newUser}}", "email": "{{newUser}}@example.com"},
    "changeEmail": {"new": "{{newUser}}.moved@example.com"},
    "manageEmail": {"new": "{{newUser}}.managed@example.com"},
    "redeemResetCode": {"code": "{{resetCode}}"},
    "createToken": {"username": "{{username}}", "password": "{{passwordHash}}"},
}


def environment() -> Document:
    """Return the environment of the demo world."""
    return {
        "name": "Quartermaster (demo world)",
        "values": [
            {"key": key, "value": value, "type": _kind(key), "enabled": True}
            for key, value in ENVIRONMENT.items()
        ],
        "_postman_variable_scope": "environment",
    }


def _kind(key: str) -> str:
    return "secret" if key == "password" else "default"


def collection(document: Document) -> Document:
    """Return the collection of all operations that the document and the order name."""
    requests = {
        operation["operationId"]: Request(document, path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    folders: dict[str, list[Document]] = {folder: [] for folder in FOLDERS}
    for name in ORDER:
        folders[requests[name].folder] += requests[name].items()
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [_bearer("{{accessToken}}")]},
        "event": [_event("prerequest", scripts.SIGN_IN)],
        "variable": [{"key": "newUser", "value": "newcomer"}, {"key": "value", "value": "294"}],
        "item": [
            {"name": folder, "description": tags[folder], "item": items}
            for folder, items in folders.items()
        ],
    }


def _bearer(value: str) -> Document:
    return {"key": "token", "value": value, "type": "string"}


def _event(listen: str, script: str) -> Document:
    return {"listen": listen, "script": {"type": "text/javascript", "exec": script.splitlines()}}


class Request:
    """One operation, as Postman has it."""

    def __init__(self, document: Document, path: str, method: str, operation: Document) -> None:
        self._schemas: Document = document["components"]["schemas"]
        self._path = path
        self._method = method.upper()
        self._operation = operation
        self._name: str = operation["operationId"]
        self.folder: str = operation["tags"][0]

    def items(self) -> list[Document]:
        """Return the request; of the one that gets a token, both ways to do so."""
        item = self._item(self._operation["summary"], self._request(self._body()))
        if self._name != "createToken":
            return [item]
        refresh = {"grant_type": "refresh_token", "refresh_token": "{{refreshToken}}"}
        again = self._item("Refresh an access token", self._request(_form(refresh)))
        return [item, {**again, "response": []}]

    def _item(self, name: str, request: Document) -> Document:
        events = [_event("test", scripts.tests(self._shape(), self._name))]
        if self._name in scripts.BEFORE:
            events.insert(0, _event("prerequest", scripts.BEFORE[self._name]))
        return {
            "name": name,
            "event": events,
            "request": request,
            "response": list(self._answers(request)),
        }

    def _request(self, body: Document | None) -> Document:
        headers = []
        if body and body["mode"] == "raw":
            headers.append({"key": "Content-Type", "value": JSON})
        if any(parameter["in"] == "header" for parameter in self._operation["parameters"]):
            headers.append({"key": "Idempotency-Key", "value": "{{$guid}}"})
        request = {
            "method": self._method,
            "header": headers,
            "url": self._url(),
            "description": self._operation["description"],
        }
        if not self._operation["security"]:
            request["auth"] = {"type": "noauth"}
        return {**request, "body": body} if body else request

    def _url(self) -> Document:
        path = re.sub(r"\{(\w+)\}", r":\1", self._path)
        query = [
            {
                "key": parameter["name"],
                "value": str(parameter["schema"].get("default", "")),
                "description": parameter.get("description", ""),
                "disabled": True,
            }
            for parameter in self._operation["parameters"]
            if parameter["in"] == "query"
        ]
        return {
            "raw": "{{baseUrl}}" + path,
            "host": ["{{baseUrl}}"],
            "path": path.strip("/").split("/"),
            "query": query,
            "variable": self._path_values(),
        }

    def _path_values(self) -> list[Document]:
        return [
            {"key": parameter["name"], "value": self._path_value(parameter["name"])}
            for parameter in self._operation["parameters"]
            if parameter["in"] == "path"
        ]

    def _path_value(self, name: str) -> str:
        if self._name in OF_THE_WORLD:
            return "{{user}}"
        if self._name == "revokeTokens":
            return "{{newUser}}"
        return PATH_VALUES[self.folder, name]

    def _body(self) -> Document | None:
        content = self._operation.get("requestBody", {}).get("content")
        if not content:
            return None
        kind, media = next(iter(content.items()))
        body = {**media["example"], **BODY_VALUES.get(self._name, {})}
        if kind != JSON:
            return _form(body)
        # A number or a flag stands in a body without quotes.
        text = json.dumps(body, indent=2).replace('"{{value}}"', "{{value}}")
        return {"mode": "raw", "raw": text, "options": {"raw": {"language": "json"}}}

    def _shape(self) -> Document:
        answer = self._operation["responses"]["200"]["content"][JSON]
        return self._draft_7(answer["schema"])

    def _draft_7(self, schema: Any) -> Any:
        """Return a schema as JSON Schema has it: without references, nullable or examples."""
        if isinstance(schema, list):
            return [self._draft_7(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._draft_7(self._schemas[schema["$ref"].rpartition("/")[2]])
        plain = {
            name: self._draft_7(part)
            for name, part in schema.items()
            if name not in ("example", "description", "nullable")
            and (name, part) != ("format", "int64")
        }
        if schema.get("nullable"):
            plain["type"] = [plain["type"], "null"]
        return plain

    def _answers(self, request: Document) -> Iterator[Document]:
        original = {name: part for name, part in request.items() if name != "description"}
        original["url"] = {**request["url"], "query": [], "variable": self._path_values()}
        for status, answer in self._operation["responses"].items():
            if int(status) not in SAVED:
                continue
            media = answer["content"][JSON]
            bodies = [media["example"]] if "example" in media else []
            bodies += [example["value"] for example in media.get("examples", {}).values()]
            for body in bodies:
                phrase = HTTPStatus(int(status)).phrase
                yield {
                    "name": body["Message"] if int(status) >= 400 else phrase,
                    "originalRequest": original,
                    "status": phrase,
                    "code": int(status),
                    "_postman_previewlanguage": "json",
                    "header": [{"key": "Content-Type", "value": "application/json; charset=utf-8"}],
                    "body": json.dumps(body, indent=2),
                }


def _form(fields: Document) -> Document:
    pairs = [{"key": key, "value": value, "type": "text"} for key, value in fields.items()]
    return {"mode": "urlencoded", "urlencoded": pairs}
