"""Setting variables of players and of the whole game."""

from __future__ import annotations

from functools import partial

from app.catalogue.store import Objects
from app.core.operations import BY_CHANGES, BatchRow, Inverse, Operation, Prepared, no_items
from app.core.permissions import Permission
from app.core.types import Document
from app.http.context import current
from app.players.store import Players
from app.players.variables.domain import GLOBAL_READS, assign, assign_global, undo, undo_global
from app.players.variables.schemas import VariableArgs

objects = current(Objects)
players = current(Players)


def prepare_set(args: Document) -> Prepared:
    return Prepared((f"Variables.{args['variable_id']}",), partial(assign, **args))


def prepare_undo(changes: list[Document]) -> Prepared:
    reads = tuple(change["Path"] for change in changes)
    return Prepared(reads, partial(undo, changes=changes))


def prepare_set_global(args: Document) -> Prepared:
    return Prepared(GLOBAL_READS, partial(assign_global, value=args["value"]))


def prepare_undo_global(changes: list[Document]) -> Prepared:
    return Prepared(("Value",), partial(undo_global, changes=changes))


SET_VARIABLE = Operation(
    name="set-variable",
    subject="player",
    needs=(Permission.PLAYERS_CHANGE,),
    arguments=VariableArgs(),
    store=players,
    prepare=prepare_set,
    inverse=Inverse(fields=("Variables",), prepare=prepare_undo),
    moves=no_items,
    batch=BatchRow(
        order="Set {VariableId} to {Value}",
        orders="Set {object}{to_value} for {whom}",
        label="Set a variable",
    ),
    sentence=BY_CHANGES,
)
SET_GLOBAL_VARIABLE = Operation(
    name="set-variable",
    subject="object",
    needs=(Permission.OBJECTS_CHANGE,),
    arguments=VariableArgs(),
    store=objects,
    prepare=prepare_set_global,
    # A batch row that undoes it does not change a player, so it is carried out alone.
    inverse=Inverse(fields=("Value",), prepare=prepare_undo_global),
    moves=no_items,
    sentence=BY_CHANGES,
)
