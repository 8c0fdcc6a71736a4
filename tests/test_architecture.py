"""What the import linter cannot see: pure modules stay pure, and no private names of others."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
# Of the room core, these modules know Flask, locks or clocks.
IMPURE = {"limits", "metrics", "services"}
PURE_LAYERS = {"domain", "passwords"}
PURE_LIBRARIES = {"argon2", "idna", "markupsafe", "pyotp"}
PURE_STANDARD = {
    *("__future__", "binascii", "collections", "copy", "dataclasses", "datetime", "email", "enum"),
    *("functools", "hashlib", "hmac", "http", "ipaddress", "itertools", "json", "math", "re"),
    *("secrets", "string", "typing", "unicodedata", "urllib"),
}
# Of these, pure modules may use what needs no input and no output.
PURE_PARTS = {
    "http": {"HTTPStatus"},
    "email": {"utils.formatdate"},
    "urllib": {"parse.quote"},
}
CLOCKS = {"now", "utcnow", "today", "localtime"}
# Ways to import that hide where they lead.
DYNAMIC = {"import_module", "__import__", "import_string", "resolve_name", "exec", "eval"}


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
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def attributes_in(source):
    return {node.attr for node in nodes_of(source) if isinstance(node, ast.Attribute)}


def names_in(source):
    names = {node.id for node in nodes_of(source) if isinstance(node, ast.Name)}
    return names | attributes_in(source)


def is_pure(path, source):
    docstring = ast.get_docstring(nodes_of(source)[0]) or ""
    return Path(path).stem in PURE_LAYERS or "Pure." in docstring


def is_pure_module(parts):
    """Tell whether what is imported from app is pure: the module itself, or a name in it."""
    if parts[0] == "core":
        return not IMPURE.intersection(parts[1:2])
    paths = (APP.joinpath(*parts[:end]).with_suffix(".py") for end in (len(parts), len(parts) - 1))
    found = next((path for path in paths if path.is_file()), None)
    return found is not None and is_pure(found, found.read_text())


def violations(path, source):
    """Return which rules a file of app/ breaks."""
    found = [f"{name} hides what is imported" for name in names_in(source) & DYNAMIC]
    if not is_pure(path, source):
        return found
    if attributes_in(source) & CLOCKS:
        found.append("a pure module reads a clock")
    if "open" in names_in(source):
        found.append("a pure module opens a file")
    for name in imports_of(source):
        top, *rest = name.split(".")
        is_known = top in PURE_LIBRARIES | PURE_STANDARD
        is_part = ".".join(rest) in PURE_PARTS.get(top, {".".join(rest)})
        if not (is_pure_module(rest) if top == "app" else is_known and is_part):
            found.append(f"a pure module imports {name}")
    return found


FILES = sorted(str(path.relative_to(APP)) for path in APP.rglob("*.py"))


def test_pure_modules_are_pure():
    found = {path: violations(path, (APP / path).read_text()) for path in FILES}
    assert {path: broken for path, broken in found.items() if broken} == {}


BROKEN = [
    ("players/items/domain.py", "import pymongo"),
    ("players/items/domain.py", "from app.storage.client import Storage"),
    ("players/items/domain.py", "from datetime import datetime\nnow = datetime.now()"),
    ("players/items/domain.py", "from app.core import metrics"),
    ("storage/search_fields.py", '"""Search. Pure."""\nimport pymongo'),
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
