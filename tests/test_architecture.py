"""Who may import whom, as the layout promises."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GROUND = {"errors", "keys", "paging", "changes", "metrics", "types"}
# From the top floor to the ground.
FLOORS = [
    *({"__main__"}, {"__init__"}, {"cli"}, {"oauth"}, {"users"}, {"items"}, {"spells"}),
    *({"variables"}, {"players"}, {"auth"}, {"http"}, {"storage"}, GROUND),
]
FEATURES = {"oauth", "users", "items", "spells", "variables", "players"}
PURE = {"domain", "documents", "passwords", "powers"}
PURE_LIBRARIES = {"argon2"}
PURE_STANDARD = {
    *("__future__", "collections", "datetime", "email", "enum", "functools", "hmac", "itertools"),
    *("math", "re", "secrets", "typing", "unicodedata"),
}
CLOCKS = {"now", "utcnow", "today"}
FLASK = {"flask", "werkzeug", "flask_smorest", "flask_mail"}
MONGODB = {"pymongo", "bson", "gridfs", "mongomock"}


def floor_of(room):
    return next(level for level, rooms in enumerate(FLOORS) if room in rooms)


def imports_of(source):
    """Yield the full dotted name of everything that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A relative import would hide where it leads.
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def reads_a_clock(source):
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        for node in ast.walk(ast.parse(source))
    )


def violations(path, source):
    """Return which rules a file of app/ breaks."""
    parts = Path(path).with_suffix("").parts
    room, layer = parts[0], parts[-1]
    found = []
    if layer in PURE and reads_a_clock(source):
        found.append("a pure layer reads a clock")
    for name in imports_of(source):
        top = name.split(".")[0]
        if top == "app":
            found += internal_violations(room, layer, [*name.split(".")[1:], "", ""])
        else:
            found += external_violations(room, layer, top)
    return found


def external_violations(room, layer, library):
    if library in MONGODB and room != "storage" and layer != "store":
        yield f"{library} outside of storage and store"
    may_know_flask = layer in {"routes", "mail"} or room in {
        "http",
        "auth",
        "cli",
        "__init__",
        "__main__",
    }
    if library in FLASK and (not may_know_flask or layer in PURE):
        yield f"{library} in {room}/{layer}"
    if not library:
        yield "a relative import"
    if layer in PURE and library not in PURE_LIBRARIES | PURE_STANDARD:
        yield f"{library} in a pure layer"
    if layer == "schemas" and library not in {"marshmallow", *sys.stdlib_module_names}:
        yield f"{library} in schemas"


def internal_violations(room, layer, target):
    other, other_layer = target[0] or "__init__", target[1]
    if other not in GROUND | FEATURES | {"auth", "http", "storage", "cli"}:
        other = "__init__"
    if other != room and floor_of(other) <= floor_of(room):
        yield f"{room} imports {other}, which is not below it"
    if other_layer == "routes" and room != "__init__":
        yield "routes are imported by create_app only"
    if room == "http" and other == "storage":
        yield "http knows no MongoDB"
    if room not in FEATURES and layer not in PURE:
        return
    if layer in PURE and other == "metrics":
        yield "a pure layer counts"
    if layer in PURE and other not in GROUND and other_layer not in PURE:
        yield f"a pure layer imports {other}.{other_layer}"
    if layer == "store" and other in {"http", "auth"}:
        yield "a store knows no HTTP"
    if layer == "schemas" and other not in {"http", *GROUND}:
        yield f"schemas import {other}"
    is_own = other == room and other_layer in {"schemas", *PURE}
    # A record that two features serve has one schema, in the room of the feature that stores it.
    reachable = {"http", "auth", *GROUND}
    layers = {"store", "schemas", "hashing", *PURE} | ({"mail"} if other == room else set())
    if layer == "routes" and not (is_own or other in reachable or other_layer in layers):
        yield f"routes import {other}.{other_layer}"


FILES = sorted(str(path.relative_to(ROOT / "app")) for path in (ROOT / "app").rglob("*.py"))


@pytest.mark.parametrize("path", FILES)
def test_every_file_keeps_to_the_layout(path):
    assert violations(path, (ROOT / "app" / path).read_text()) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("players/store.py", "from app.items import domain"),
        ("auth/callers.py", "from app.users.store import Users"),
        ("items/domain.py", "import pymongo"),
        ("items/domain.py", "from flask import g"),
        ("items/domain.py", "import marshmallow"),
        ("items/domain.py", "from app.storage.swap import swap"),
        ("items/domain.py", "from datetime import datetime\nnow = datetime.now()"),
        ("items/domain.py", "from time import time"),
        ("items/domain.py", "import socket"),
        ("items/domain.py", "from app import metrics"),
        ("items/routes.py", "from ..storage.swap import swap"),
        ("auth/callers.py", "from ..users.store import Users"),
        ("players/store.py", "from . import documents"),
        ("players/store.py", "from app.http.json import encode"),
        ("players/store.py", "import flask"),
        ("players/schemas.py", "from app.storage.pages import Page"),
        ("players/schemas.py", "import pymongo"),
        ("players/routes.py", "from pymongo import MongoClient"),
        ("players/routes.py", "from app.storage.swap import swap"),
        ("items/routes.py", "from app.players.routes import blp"),
        ("cli/data.py", "from app.players import routes"),
        ("http/json.py", "from app.storage.client import Storage"),
        ("storage/client.py", "from app.http import json"),
        ("cli/serve.py", "from app import create_app"),
        ("errors.py", "from app.keys import NIL\nfrom app.storage import swap"),
    ],
)
def test_a_broken_rule_is_noticed(path, source):
    assert violations(path, source)
