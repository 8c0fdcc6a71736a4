"""What the import linter and ruff cannot see: modules that say so are pure."""

import ast
from pathlib import Path

APP = Path(__file__).parents[1] / "app"
SOURCES = {path: path.read_text() for path in sorted(APP.rglob("*.py"))}
# Of the room core, these modules know Flask, locks or clocks.
IMPURE = {"limits", "metrics", "services"}
PURE_LIBRARIES = {"argon2", "idna", "markupsafe", "pyotp"}
PURE_STANDARD = {
    *("__future__", "binascii", "collections", "copy", "dataclasses", "datetime", "enum"),
    *("functools", "hashlib", "hmac", "ipaddress", "itertools", "json", "math", "re"),
    *("secrets", "string", "typing", "unicodedata"),
}
# Of larger packages, what needs no input and no output.
PURE_NAMES = {"http.HTTPStatus", "email.utils.formatdate", "urllib.parse.quote"}
CLOCKS = {"now", "utcnow", "today"}
WAYS_OUT = {"open", "__import__", "exec", "eval"}


def is_pure(path, source):
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return path.stem in ("domain", "passwords") or "Pure." in docstring


PURE = {path for path, source in SOURCES.items() if is_pure(path, source)}


def impure_parts(source):
    """Yield what a pure module must neither import nor call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if not is_allowed(name.name))
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{name.name}" for name in node.names)
            yield from (name for name in names if not is_allowed(name))
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in WAYS_OUT:
            yield node.id


def is_allowed(name):
    top, *rest = name.split(".")
    if top != "app":
        return top in PURE_LIBRARIES | PURE_STANDARD or name in PURE_NAMES
    if rest[0] == "core":
        return not IMPURE & set(rest)
    # A module, or a name in it.
    return any(APP.joinpath(*part).with_suffix(".py") in PURE for part in (rest, rest[:-1]))


def test_pure_modules_import_no_others_and_read_no_clock_and_no_file():
    assert len(PURE) > 20
    found = {path: list(impure_parts(SOURCES[path])) for path in PURE}
    assert {path: parts for path, parts in found.items() if parts} == {}
