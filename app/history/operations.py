"""The undo of a change, which is an operation itself."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.history.schemas import UndoRowArgs
from app.operations import ANY, BY_CHANGES, BatchRow, InverseByFields, Operation

UNDO = Operation(
    name="undo",
    subject=ANY,
    needs=(Permission.UNDO_OWN,),
    arguments=UndoRowArgs(),
    prepare="the inverse of the operation that it undoes",
    inverse=InverseByFields(),
    # The inverse declares the items that it moves.
    moves=None,
    batch=BatchRow(order="Undo", orders="Undo {changes}"),
    sentence=BY_CHANGES,
    notice="Undid a change of {whom}: {lines}.",
)
