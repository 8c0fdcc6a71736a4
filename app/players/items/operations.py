"""Giving and taking items."""

from __future__ import annotations

from functools import partial

from app.core.operations import BY_CHANGES, BatchRow, Inverse, Operation, OwnInverse, Prepared
from app.core.permissions import Permission
from app.core.types import Document
from app.http.context import current
from app.players.items.domain import CONTAINERS, FILLED_BAG, bag_of, give, receive, take
from app.players.items.schemas import (
    GiveBackArgs,
    GiveItemArgs,
    TakeItemArgs,
    TransferItemArgs,
)
from app.players.items.store import Bags, Catalogue
from app.players.items.transfers import (
    preview_transfer,
    preview_undo_transfer,
    transfer,
    undo_transfer,
)
from app.players.items.undo import quantities, undo
from app.players.store import Players

bags = current(Bags)
catalogue = current(Catalogue)
players = current(Players)


def moved(args: Document) -> dict[str, int]:
    return {args["itemid"]: args["quantity"]}


def moved_with_bags(changes: list[Document]) -> dict[str, int] | str:
    """Return what changes moved; what is in a bag is not known."""
    slots = [change[side] or {} for change in changes for side in ("Before", "After")]
    has_bag = any(isinstance(held, dict) and bag_of(held) for held in slots)
    return FILLED_BAG if has_bag else quantities(changes)


def prepare_give(args: Document) -> Prepared:
    return Prepared(CONTAINERS, partial(give, **args, limits=catalogue.limits(args["itemid"])))


def prepare_batch_give(args: Document) -> Prepared:
    """Return the give of a batch row: it reads the bank, which is large, only for an overflow."""
    bank = args["bankoverflow"]
    held = {"ItemId": args["itemid"], "Quantity": args["quantity"]}
    rule = partial(receive, held=[held], bankoverflow=bank, limits_of=catalogue.limits)
    return Prepared(CONTAINERS if bank else ("Inventory",), rule)


def prepare_take(args: Document) -> Prepared:
    # Check-then-act: a bag that the game fills between this read and the write is taken anyway.
    # A bag is a document of its own, and only the game fills bags.
    return Prepared(("Inventory",), partial(take, **args, is_filled=bags.is_filled))


def prepare_undo(changes: list[Document], is_partial: bool = False) -> Prepared:
    limits, is_filled = catalogue.limits, bags.is_filled
    rule = partial(undo, limits_of=limits, is_filled=is_filled, is_partial=is_partial)
    return Prepared(CONTAINERS, partial(rule, changes=changes))


UNDO_MOVES = Inverse(
    fields=CONTAINERS,
    prepare=prepare_undo,
    prepare_partial=partial(prepare_undo, is_partial=True),
    moves=quantities,
)

GIVE = Operation(
    name="give",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=GiveItemArgs(),
    store=players,
    prepare=prepare_give,
    inverse=UNDO_MOVES,
    moves=moved,
    needs_object="itemid",
    batch=BatchRow(
        order="Give {Quantity} × {ItemId}{BankOverflow:, the rest to the bank}",
        orders="Give {count} × {object}{in_all} to {whom}",
        prepare=prepare_batch_give,
        label="Give an item",
    ),
    sentence=BY_CHANGES,
    notice="Gave {Quantity} {ItemId} to {whom}.",
)
TAKE = Operation(
    name="take",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=TakeItemArgs(),
    store=players,
    prepare=prepare_take,
    inverse=UNDO_MOVES,
    moves=moved,
    batch=BatchRow(
        order="Take {Quantity} × {ItemId}",
        orders="Take {count} × {object}{in_all} from {whom}",
        label="Take an item",
    ),
    sentence=BY_CHANGES,
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
    sentence=BY_CHANGES,
    notice="Gave {Quantity} {ItemId} back to {whom}.",
)
TRANSFER = Operation(
    name="transfer",
    subject="player",
    needs=(Permission.ITEMS_MOVE,),
    arguments=TransferItemArgs(),
    store=players,
    run=transfer,
    preview=preview_transfer,
    # An entry of a transfer has this field.
    inverse=OwnInverse(
        fields=("Transfer",),
        moves=moved_with_bags,
        make=undo_transfer,
        preview=preview_undo_transfer,
    ),
    moves=moved,
    sentence=BY_CHANGES,
    notice="Moved {Quantity} {ItemId} from {whom} to {To}.",
)
