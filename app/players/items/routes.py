"""Inventory, bank and bags of players; giving and taking items."""

from __future__ import annotations

from typing import Any

from app.auth.execution import change_route
from app.auth.views import read_route
from app.catalogue.domain import NotInCatalogue
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.context import setting
from app.http.examples import BAG, BAG_ITEM, ITEM, OTHER_PLAYER_ID, TOKEN
from app.players.items.domain import BagNotEmpty, NotEnoughItems, no_room, slot_records
from app.players.items.operations import GIVE, TAKE, TRANSFER
from app.players.items.schemas import (
    BagSchema,
    GivenSchema,
    ItemsSchema,
    SlotSchema,
    TakenSchema,
    TransferredSchema,
)
from app.players.items.store import bags
from app.players.store import players

blp = Blueprint("Items", __name__, url_prefix="/api/v1/players", group="Players")


@read_route(blp, "/<player:key>/items", ItemsSchema, Permission.PLAYERS_READ)
def get_items(key: Lookup) -> Document:
    """Get a player's inventory and bank

    All slots in slot order, empty ones included.
    """
    player = players.read(key, "Inventory", "Bank")
    return {"inventory": all_slots(player, "Inventory"), "bank": all_slots(player, "Bank")}


@read_route(blp, "/<player:key>/items/inventory", SlotSchema(many=True), Permission.PLAYERS_READ)
def get_inventory(key: Lookup) -> list[Document]:
    """Get a player's inventory

    All slots in slot order. An empty slot has the all-zero ItemId and the Quantity 0.
    """
    return all_slots(players.read(key, "Inventory"), "Inventory")


@read_route(blp, "/<player:key>/items/bank", SlotSchema(many=True), Permission.PLAYERS_READ)
def get_bank(key: Lookup) -> list[Document]:
    """Get a player's bank

    All slots in slot order. An empty slot has the all-zero ItemId and the Quantity 0.
    """
    return all_slots(players.read(key, "Bank"), "Bank")


@read_route(
    blp, "/bag/<bag_id>", BagSchema, Permission.PLAYERS_READ, refuses=(NotFound("bag", TOKEN),)
)
def get_bag(bag_id: str) -> Document:
    """Get a bag

    All slots of the bag in slot order, empty ones included. BagId in an inventory names it.
    """
    return bags.get(bag_id)


change_route(
    blp,
    GIVE,
    "/<player:key>/items/give",
    GivenSchema,
    no_room(ITEM, 5, 2, bank=False),
    no_room(ITEM, 5, 2, bank=True),
    NotInCatalogue("item", ITEM),
    view="give_item",
    about="""Give an item to a player

    Fills stacks of the item first, then empty slots, both in slot order; with bankoverflow,
    what does not fit goes into the bank. All or nothing. Gear with StatBuffs and bags never
    merge. Returns how many of the item the player has now. If the catalogue has items but not
    this one, the answer has a `Warning`, or the request is refused (`QM_STRICT_CATALOGUE`).
    """,
)
change_route(
    blp,
    TAKE,
    "/<player:key>/items/take",
    TakenSchema,
    NotEnoughItems(3, ITEM, 5),
    BagNotEmpty(BAG, BAG_ITEM),
    view="take_item",
    about="""Take an item from a player's inventory

    Only from the inventory, in slot order, all or nothing. A bag that is not empty stays.
    """,
)
change_route(
    blp,
    TRANSFER,
    "/<player:key>/items/transfer",
    TransferredSchema,
    NotEnoughItems(3, ITEM, 5),
    no_room(ITEM, 5, 2, bank=False),
    NotFound("player", OTHER_PLAYER_ID),
    view="transfer_item",
    about="""Move items from a player to another one

    From the inventory, in slot order, with their properties; a bag goes with what is in it. Both
    players change, or none. Each gets a history entry that names the other, and an undo of either
    entry undoes both. If the answer is 503, the transfer is finished or withdrawn within seconds:
    repeat the request with its Idempotency-Key to learn which.
    """,
)


def all_slots(player: Document, container: str) -> list[dict[str, Any]]:
    return slot_records(player[container], setting(f"{container.upper()}_SIZE"))
