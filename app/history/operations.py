"""The undo of a change, which is an operation itself."""

from __future__ import annotations

from app.core.operations import ANY, BY_CHANGES, BatchRow, Operation, no_items
from app.core.permissions import Permission
from app.history.schemas import UndoRowArgs

UNDO = Operation(
    name="undo",
    subject=ANY,
    needs=(Permission.UNDO_OWN,),
    arguments=UndoRowArgs(),
    inverse=None,
    # The inverse declares the items that it moves.
    moves=no_items,
    batch=BatchRow(order="Undo", orders="Undo {changes}"),
    sentence=BY_CHANGES,
    notice="Undid a change of {whom}: {lines}.",
)
