"""Declarations of operations: complete, and the only place that lists them."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

import app
from app.batches import rows
from app.core.operations import (
    IncompleteOperation,
    Operation,
    all_operations,
    batch_operations,
    operation_names,
)
from app.http.api import Schema
from app.http.fields import Text

ROOT = Path(app.__file__).parent


def test_an_operation_is_declared_once_and_forgets_no_fact():
    required = {"subject", "needs", "arguments", "inverse", "moves"}
    with pytest.raises(TypeError) as missing:
        Operation(name="dance")
    assert all(fact in str(missing.value) for fact in required)
    with pytest.raises(IncompleteOperation, match="declared twice"):
        Operation(name="give", **{**dict.fromkeys(required), "subject": "player"})


def test_an_operation_of_batches_has_a_rule_and_the_names_of_bodies_in_history():
    """A row has the names of history, in any case, and is checked as a body."""
    for operation in batch_operations().values():
        assert operation.changes_one or operation.is_undo
        for name, argument in operation.arguments.fields.items():
            (called,) = operation.history_arguments({name: None})
            assert called.lower() == (argument.data_key or name).lower()


def test_an_operation_with_needs_has_a_route_and_others_have_none():
    without = {operation.name for operation in all_operations() if not operation.routes}
    assert without == {operation.name for operation in all_operations() if operation.needs is None}


def names_in(path):
    """Return the operations that one collection in a file spells."""
    known = set(operation_names())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            yield known & {part.value for part in parts if isinstance(part, ast.Constant)}


def test_no_second_list_of_operations_exists():
    # A step is never changed after a release, so it spells what was there then.
    files = {*ROOT.rglob("*.py")} - {ROOT / "storage/schema/migrations.py"}
    found = {path: [names for names in names_in(path) if len(names) > 1] for path in files}
    assert {path: lists for path, lists in found.items() if lists} == {}


@pytest.mark.parametrize("spelling", ["Portrait", "portrait", "PORTRAIT"])
def test_a_row_names_an_argument_in_any_case(monkeypatch, spelling):
    class Args(Schema):
        portrait = Text(required=True, data_key="Portrait")

    paint = SimpleNamespace(name="paint", is_undo=False, arguments=Args(), object_types={})
    monkeypatch.setattr(rows, "batch_operations", lambda: {"paint": paint})
    row = rows.parse_row({"Player": "Bob", "Operation": "paint", spelling: "fox.png"})
    assert (row.fault, row.arguments) == (None, {"portrait": "fox.png"})
