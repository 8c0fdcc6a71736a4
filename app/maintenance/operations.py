"""The operations of the rooms below that only commands execute."""

from __future__ import annotations

from app.core.operations import ANY, NotUndoable, Operation, no_items

REPAIR = Operation(
    name="repair",
    subject=ANY,
    needs=None,
    arguments=None,
    inverse=NotUndoable("what was repaired was damaged before"),
    moves=no_items,
    sentence="Repaired",
)


IMPORT = Operation(
    name="import",
    subject=ANY,
    needs=None,
    arguments=None,
    inverse=NotUndoable("import the former record instead"),
    moves=no_items,
    sentence="Imported",
)
