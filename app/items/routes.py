"""Inventory, bank and bags of players; giving and taking items."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.auth.permissions import Permission
from app.auth.views import read_route
from app.errors import NotFound
from app.execution import change_route, change_routes, execute
from app.http.api import Blueprint
from app.http.context import current, setting
from app.http.intents import answer
from app.http.path_converters import path_guid
from app.items import operations
from app.items.domain import NoRoom, NotEnoughItems, slot_records
from app.items.schemas import BagSchema, ItemsSchema, SlotSchema, TransferredSchema
from app.items.store import Bags
from app.items.transfers.store import Transfers
from app.naming import Lookup
from app.openapi.examples import ITEM, OTHER_PLAYER_ID, TOKEN
from app.players.store import Players
from app.types import Document

blp = Blueprint("Items", __name__, url_prefix="/api/v1/players", group="Players")

bags = current(Bags)
players = current(Players)
transfers = current(Transfers)


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
    return bags.get(path_guid("bagId", bag_id))


change_routes(blp, operations)


@change_route(
    blp,
    operations.TRANSFER,
    "/<player:key>/items/transfer",
    TransferredSchema,
    NotEnoughItems(ITEM, 5, 3),
    NoRoom(ITEM, 5, 2, bank=False),
    NotFound("player", OTHER_PLAYER_ID),
)
def transfer_item(args: Document, key: Lookup) -> Response:
    """Move items from a player to another one

    From the inventory, in slot order, with their properties; a bag goes with what is in it. Both
    players change, or none. Each gets a history entry that names the other, and an undo of either
    entry undoes both. If the answer is 503, the transfer is finished or withdrawn within seconds:
    repeat the request with its Idempotency-Key to learn which.
    """
    return answer(execute(operations.TRANSFER, key, args))


def all_slots(player: Document, container: str) -> list[dict[str, Any]]:
    return slot_records(player[container], setting(f"{container.upper()}_SIZE"))
