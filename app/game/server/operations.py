"""Saving a character from the game."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.game.server.schemas import SaveArgs
from app.operations import Operation

SAVE = Operation(
    name="save",
    subject="player",
    needs=(Permission.GAME_ACT,),
    arguments=SaveArgs(),
    prepare="app/game/server/saving, because it may make the character",
    inverse="the game may have gone on from it; save the character anew instead",
    moves="saving a character",
    batch=None,
    sentence="{changes:Made by the game}",
)
