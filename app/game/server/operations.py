"""Saving a character from the game."""

from __future__ import annotations

from app.core.operations import NotUndoable, Operation, UnknownItems
from app.core.permissions import Permission
from app.game.server.schemas import SaveArgs

SAVE = Operation(
    name="save",
    subject="player",
    needs=(Permission.GAME_ACT,),
    arguments=SaveArgs(),
    inverse=NotUndoable("the game may have gone on from it; save the character anew instead"),
    moves=UnknownItems("saving a character"),
    sentence="{changes:Made by the game}",
)
