"""Private names of other packages are not used, but for the few that are listed here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [*sorted((ROOT / "app").rglob("*.py")), *sorted((ROOT / "config").glob("*.py"))]
# Each with why it may be used, or with the test that would notice an upgrade that changes it.
ALLOWED = {
    # The HOWTO of Python's logging advises it.
    "app/http/logs.py": {"_srcfile"},
}
# marshmallow documents the first as the method to override, and Python the second as the way out.
DOCUMENTED = {"_deserialize", "_exit"}


def foreign_private_names(path):
    """Yield the private names that a file uses of anything but its own classes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            # namedtuple's _replace is public in spite of its name.
            if not is_own and node.attr != "_replace":
                yield node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_name_of_another_package_is_used(path):
    allowed = ALLOWED.get(str(path.relative_to(ROOT)), set())
    assert set(foreign_private_names(path)) - allowed - DOCUMENTED == set()
