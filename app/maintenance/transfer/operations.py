"""Importing records."""

from __future__ import annotations

from app.core.operations import ANY, NotUndoable, Operation, no_items

IMPORT = Operation(
    name="import",
    subject=ANY,
    needs=None,
    arguments=None,
    inverse=NotUndoable("import the former record instead"),
    moves=no_items,
    sentence="Imported",
)
