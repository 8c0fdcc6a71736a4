"""Who may import whom, as docs/architecture.rst describes it; and no private names of others."""

from __future__ import annotations

import ast
import re
import sys
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"


def drawn_floors():
    """Return the rooms of each floor in the picture of docs/architecture.rst, the top one first."""
    page = (ROOT / "docs" / "architecture.rst").read_text()
    picture = page.split("::\n\n")[1].split("\n\n")[0]
    return [set(re.findall(r"\bapp/([\w/]+)", line)) for line in picture.splitlines()]


# A room within a room may have a floor of its own.
FLOORS = drawn_floors()
# Everybody may import this room, also what is pure.
GROUND = {"core"}
# Of it, these modules know Flask, locks or clocks.
IMPURE = {"limits", "metrics", "services"}
# Small subjects: one file with all of its layers.
SUBJECTS = {room for rooms in FLOORS for room in rooms if (APP / f"{room}.py").is_file()}
SUBJECTS -= {"__init__", "__main__", "services", "database", "auth/execution"}
PURE_LAYERS = {"domain", "passwords"}
PURE_LIBRARIES = {"argon2", "idna", "markupsafe", "pyotp"}
PURE_STANDARD = {
    *("__future__", "binascii", "collections", "copy", "dataclasses", "datetime", "email", "enum"),
    *("functools", "hashlib", "hmac", "http", "ipaddress", "itertools", "json", "math", "re"),
    *("secrets", "string", "typing", "unicodedata", "urllib"),
}
CLOCKS = {"now", "utcnow", "today", "localtime"}
# Ways to import that hide where they lead.
DYNAMIC = {"import_module", "__import__", "import_string", "resolve_name", "exec", "eval"}
# Of these, pure modules may use what needs no input and no output.
PURE_PARTS = {
    "http": {"HTTPStatus"},
    "email": {"utils.formatdate"},
    "urllib": {"parse.quote"},
}
# Programs above the application; nothing in it may lean on them.
OUTSIDE = {"wsgi", "tests", "tools", "benchmarks"}
KNOW_MARSHMALLOW = {"http", "http/openapi", "maintenance/transfer"}
SERVERS = {"gunicorn", "granian"}
FLASK = {"flask", "werkzeug", "flask_smorest", "flask_mail"}
MONGODB = {"pymongo", "bson", "gridfs", "mongomock"}
# Rooms that may know Flask, and layers that may in any room.
KNOW_FLASK = {
    "__init__",
    "__main__",
    "services",
    "core",
    "http",
    "http/openapi",
    "auth",
    "cli",
}
KNOW_FLASK |= {"maintenance/transfer", "compatibility", "console"}
FLASK_LAYERS = {"routes", "mail", "command"}
# What routes reach on a floor below or beside, besides stores and pure layers.
SERVICES = {"access", "accounts", "enforcement", "hashing", "mail", "sign_ins", "undo"}
SERVICES |= {"asking", "erasing", "management", "personal_data", "rows", "saving", "spending"}
SERVICES |= {"activity", "operations", "kinds", "planning", "running", "invitations"}


def room_of(parts):
    """Return the innermost room of a module that has a floor."""
    known = set().union(*FLOORS)
    paths = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((path for path in paths if path in known), "__init__")


# Rooms that store something and serve it; the others that store are tools of operators.
FEATURES = {room_of(path.relative_to(APP).parts) for path in APP.rglob("store.py")}
FEATURES -= {"console", "maintenance/integrity", "maintenance/transfer"}


def floor_of(room):
    return next(level for level, rooms in enumerate(FLOORS) if room in rooms)


@lru_cache(1)
def nodes_of(source):
    """Return the syntax tree of a source in a list, the module first."""
    return list(ast.walk(ast.parse(source)))


def imports_of(source):
    """Yield the full dotted name of everything that a source imports."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A relative import would hide where it leads.
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def names_in(source):
    """Yield every name and attribute that a source mentions."""
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def attributes_in(source):
    return {node.attr for node in nodes_of(source) if isinstance(node, ast.Attribute)}


def says_pure(source):
    return "Pure." in (ast.get_docstring(nodes_of(source)[0]) or "")


def is_pure(path, source):
    return Path(path).stem in PURE_LAYERS or says_pure(source)


def module_file(parts):
    """Return the file of an imported name: of the module itself, or of the one that holds it."""
    for end in (len(parts), len(parts) - 1):
        path = APP.joinpath(*parts[:end]).with_suffix(".py")
        if end and path.is_file():
            return path
    return None


def is_pure_import(parts):
    if parts[0] == "core" and IMPURE.intersection(parts[1:2]):
        return False
    path = module_file(parts)
    return room_of(parts) in GROUND or (path is not None and is_pure(path, path.read_text()))


def violations(path, source):
    """Return which rules a file of app/ breaks."""
    parts = Path(path).with_suffix("").parts
    room, layer = room_of(parts), parts[-1]
    pure = is_pure(path, source)
    found = []
    if pure and attributes_in(source) & CLOCKS:
        found.append("a pure module reads a clock")
    names = set(names_in(source))
    found += [f"{name} hides what is imported" for name in names & DYNAMIC]
    if pure and "open" in names:
        found.append("a pure module opens a file")
    for name in imports_of(source):
        top, *rest = name.split(".")
        if top == "app":
            found += internal_violations(room, layer, rest or ["__init__"])
            if rest and rest[-1] in MONGODB | FLASK | SERVERS:
                # A library, imported from a module that has imported it.
                found += external_violations(room, layer, rest[-1])
            if pure and not is_pure_import(rest or ["__init__"]):
                found.append(f"a pure module imports {name}")
        else:
            found += external_violations(room, layer, top)
            if pure and top not in PURE_LIBRARIES | PURE_STANDARD:
                found.append(f"{top} in a pure module")
            if pure and ".".join(rest) not in PURE_PARTS.get(top, {".".join(rest)}):
                found.append(f"{name} in a pure module")
    return found


def external_violations(room, layer, library):
    if library in MONGODB and layer != "store" and room not in {"storage", *SUBJECTS}:
        yield f"{library} outside of storage and store"
    if library in FLASK and room not in KNOW_FLASK | SUBJECTS and layer not in FLASK_LAYERS:
        yield f"{library} in {room}/{layer}"
    if library in SERVERS and room != "server":
        yield f"{library} outside of server"
    if library == "marshmallow" and layer != "schemas" and room not in KNOW_MARSHMALLOW | SUBJECTS:
        yield "marshmallow outside of schemas"
    # A worker of gunicorn loads the application.
    if library in OUTSIDE and (layer, library) != ("gunicorn_server", "wsgi"):
        yield f"{library} stands above the application"
    if not library:
        yield "a relative import"
    if layer == "schemas" and library not in {"marshmallow", *sys.stdlib_module_names}:
        yield f"{library} in schemas"


def internal_violations(room, layer, target):
    other = room_of(target)
    # A folder within a room has the same layers.
    below = target[other.count("/") + 1 :]
    inner = [part for part in below if not APP.joinpath(other, part).is_dir()]
    other_layer = inner[0] if inner else ""
    if other != room and floor_of(other) <= floor_of(room):
        yield f"{room} imports {other}, which is not below it"
    if other_layer == "routes" and room != "__init__":
        yield "routes are imported by create_app only"
    if room in {"http", "http/openapi"} and other == "storage":
        yield "http knows no MongoDB"
    if room not in FEATURES:
        return
    if layer == "store" and (other in {"http", "auth", "http/openapi"} or other_layer == "schemas"):
        yield "a store knows no HTTP"
    # A record may hold another, and a choice is one of the words of a rule.
    is_shape = other_layer == "schemas" or is_pure_import(target)
    if layer == "schemas" and other not in {"http", "http/openapi", *GROUND} and not is_shape:
        yield f"schemas import {other}"
    # A record that two features serve has one schema, in the room of the feature that stores it.
    layers = {"store", "schemas", *PURE_LAYERS, *SERVICES}
    is_shared = other in {"http", "http/openapi", "auth", "auth/execution", *GROUND, *SUBJECTS}
    reachable = is_shared or other_layer in layers
    if layer == "routes" and not reachable:
        yield f"routes import {other}.{other_layer}"


FILES = sorted(str(path.relative_to(APP)) for path in APP.rglob("*.py"))


def test_every_file_keeps_to_the_layout():
    found = {path: violations(path, (APP / path).read_text()) for path in FILES}
    assert {path: broken for path, broken in found.items() if broken} == {}


def test_every_room_has_a_floor():
    rooms = {room_of(Path(path).with_suffix("").parts) for path in FILES}
    assert rooms == set().union(*FLOORS)


BROKEN = [
    ("players/store.py", "from app.players.items import domain"),
    ("auth/callers.py", "from app.users.store import Users"),
    ("players/items/domain.py", "import pymongo"),
    ("players/items/domain.py", "from app.storage.swap import swap"),
    ("players/items/domain.py", "from datetime import datetime\nnow = datetime.now()"),
    ("players/items/domain.py", "from app.core import metrics"),
    (
        "maintenance/integrity/repairs.py",
        '"""Repairs. Pure."""\nfrom app.maintenance.integrity.store import read',
    ),
    ("storage/search_fields.py", '"""Search. Pure."""\nimport pymongo'),
    ("players/items/routes.py", "from ..storage.swap import swap"),
    ("players/store.py", "from app.http.json import encode"),
    ("players/store.py", "import flask"),
    ("players/schemas.py", "from app.storage.paging.pages import Pages"),
    ("players/routes.py", "from app.storage.swap import swap"),
    ("players/items/routes.py", "from app.players.routes import blp"),
    ("cli/data.py", "from app.players import routes"),
    ("cli/serve.py", "from gunicorn.app.base import Application"),
    ("http/json.py", "from app.storage.client import Storage"),
    ("http/json.py", "from app.http.openapi.guide import GUIDE"),
    ("http/openapi/document.py", "from app.players.store import Players"),
    ("storage/client.py", "from app.http import json"),
    ("cli/serve.py", "from app import create_app"),
    ("cli/serve.py", "import wsgi"),
    ("players/store.py", "from tests.factories import World"),
    ("players/store.py", "from app.players.schemas import PlayerSchema"),
    ("core/errors.py", "import marshmallow"),
    ("players/items/routes.py", "from app.players.store import pymongo"),
    ("http/json.py", "from importlib import import_module\nimport_module('app.storage')"),
    ("players/items/domain.py", "__import__('pymongo')"),
    ("players/items/domain.py", "from datetime import datetime\nclock = datetime.now"),
    ("players/items/domain.py", "from email.utils import localtime"),
    ("players/items/domain.py", "from http import client"),
    ("players/items/domain.py", "text = open('/etc/hosts').read()"),
]


def test_a_broken_rule_is_noticed():
    assert [broken for broken in BROKEN if not violations(*broken)] == []


# marshmallow documents the first as the method to override, and Python the second as the way out.
# namedtuple's _asdict and _replace and enum's _value_ are public in spite of their names.
DOCUMENTED = {"_asdict", "_deserialize", "_exit", "_replace", "_value_"}


def foreign_private_names(source):
    """Yield the private names that a source uses of anything but its own classes."""
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not is_own and node.attr not in DOCUMENTED:
                yield node.attr


def test_no_private_name_of_another_package_is_used():
    files = [*(APP / path for path in FILES), *(ROOT / "config").glob("*.py")]
    found = {path: set(foreign_private_names(path.read_text())) for path in files}
    assert {path: names for path, names in found.items() if names} == {}
