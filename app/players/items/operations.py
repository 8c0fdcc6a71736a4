"""Giving and taking items."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.catalogue.store import in_catalogue
from app.core.changes import Change
from app.core.operations import BatchRow, Inverse, Operation, OwnInverse, ReadsAndRule
from app.core.permissions import Permission
from app.core.types import Document
from app.players.items.domain import CONTAINERS, FILLED_BAG, bag_of, give, receive, take
from app.players.items.schemas import (
    GiveBackArgs,
    GiveItemArgs,
    TakeItemArgs,
    TransferItemArgs,
)
from app.players.items.store import bags, catalogue
from app.players.items.transfers import transfer, undo_transfer
from app.players.items.undo import quantities, undo
from app.players.store import players


def moved(args: Document) -> dict[str, int]:
    return {args["itemid"]: args["quantity"]}


def moved_with_bags(changes: list[Document]) -> dict[str, int] | str:
    """Return what changes moved; what is in a bag is not known."""
    slots = [change[side] or {} for change in changes for side in ("Before", "After")]
    return FILLED_BAG if any(map(bag_of, slots)) else quantities(changes)


def give_item(player: Document, **args: Any) -> Change:
    return give(player, **args, limits=catalogue.limits(args["itemid"]))


def prepare_batch_give(args: Document) -> ReadsAndRule:
    """Return the give of a batch row: it reads the bank, which is large, only for an overflow."""
    bank = args["bankoverflow"]
    held = {"ItemId": args["itemid"], "Quantity": args["quantity"]}
    rule = partial(receive, held=[held], bankoverflow=bank, limits_of=catalogue.limits)
    return CONTAINERS if bank else ("Inventory",), rule


def take_item(player: Document, **args: Any) -> Change:
    # Check-then-act: a bag that the game fills between this read and the write is taken anyway.
    # A bag is a document of its own, and only the game fills bags.
    return take(player, **args, is_filled=bags.is_filled)


def undo_moves(player: Document, **undone: Any) -> Change:
    return undo(player, **undone, limits_of=catalogue.limits, is_filled=bags.is_filled)


UNDO_MOVES = Inverse(
    fields=CONTAINERS,
    rule=undo_moves,
    takes_partial=True,
    moves=quantities,
)

GIVE = Operation(
    name="give",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=GiveItemArgs(),
    store=players,
    reads=CONTAINERS,
    rule=give_item,
    inverse=UNDO_MOVES,
    moves=moved,
    in_catalogue=in_catalogue("item", "itemid"),
    batch=BatchRow(
        order="Give {Quantity} × {ItemId}{BankOverflow:, the rest to the bank}",
        orders="Give {count} × {object}{in_all} to {whom}",
        prepare=prepare_batch_give,
        label="Give an item",
    ),
    notice="Gave {Quantity} {ItemId} to {whom}.",
)
TAKE = Operation(
    name="take",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=TakeItemArgs(),
    store=players,
    reads=("Inventory",),
    rule=take_item,
    inverse=UNDO_MOVES,
    moves=moved,
    batch=BatchRow(
        order="Take {Quantity} × {ItemId}",
        orders="Take {count} × {object}{in_all} from {whom}",
        label="Take an item",
    ),
    notice="Took {Quantity} {ItemId} from {whom}.",
)
GIVE_BACK = Operation(
    name="give-back",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=GiveBackArgs(),
    inverse=UNDO_MOVES,
    # Of the event; history has them among the arguments.
    moves=lambda args: {args["ItemId"]: args["Quantity"]},
    notice="Gave {Quantity} {ItemId} back to {whom}.",
)
TRANSFER = Operation(
    name="transfer",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=TransferItemArgs(),
    store=players,
    run=transfer,
    # An entry of a transfer has this field.
    inverse=OwnInverse(
        fields=("Transfer",),
        moves=moved_with_bags,
        make=undo_transfer,
    ),
    moves=moved,
    notice="Moved {Quantity} {ItemId} from {whom} to {To}.",
)
