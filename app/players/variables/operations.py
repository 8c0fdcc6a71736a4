"""Setting variables of players and of the whole game."""

from __future__ import annotations

from functools import partial

from app.catalogue.store import objects
from app.core.operations import BatchRow, Inverse, Operation, no_items
from app.core.permissions import Permission
from app.players.character import player_change
from app.players.domain import restore_fields
from app.players.variables.domain import (
    GLOBAL_READS,
    ChangedSince,
    assign,
    assign_global,
    undo_global,
)
from app.players.variables.schemas import VariableArgs

SET_VARIABLE = player_change(
    name="set-variable",
    arguments=VariableArgs(),
    reads=("Variables",),
    rule=assign,
    inverse=Inverse(fields=("Variables",), rule=partial(restore_fields, changed=ChangedSince)),
    batch=BatchRow(
        order="Set {VariableId} to {Value}",
        orders="Set {object}{to_value} for {whom}",
        label="Set a variable",
    ),
)
SET_GLOBAL_VARIABLE = Operation(
    name="set-variable",
    subject="object",
    needs=(Permission.OBJECTS_CHANGE,),
    arguments=VariableArgs(),
    store=objects,
    reads=GLOBAL_READS,
    rule=assign_global,
    # A batch row that undoes it does not change a player, so it is carried out alone.
    inverse=Inverse(fields=("Value",), rule=undo_global),
    moves=no_items,
)
