"""Giving back what a player lost in the game."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.game_events.schemas import GiveBackArgs
from app.items.operations import UNDO_MOVES
from app.operations import BY_CHANGES, Operation
from app.types import Document


def moved(args: Document) -> dict[str, int]:
    """Return the items of the event, which history records as arguments."""
    return {args["ItemId"]: args["Quantity"]}


GIVE_BACK = Operation(
    name="give-back",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=GiveBackArgs(),
    prepare="app/game_events/access, because an event has the item",
    inverse=UNDO_MOVES,
    moves=moved,
    batch=None,
    sentence=BY_CHANGES,
    notice="Gave {Quantity} {ItemId} back to {whom}.",
)
