"""What players own: inventory, bank and bags, giving and taking."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import Scope
from app.errors import NotFound
from app.execution import change_route, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.items.domain import BagNotEmpty, NoRoom, NotEnoughItems, served
from app.items.operations import GIVE, TAKE
from app.items.schemas import (
    BagSchema,
    GivenSchema,
    ItemsSchema,
    SlotSchema,
    TakenSchema,
)
from app.items.store import Bags
from app.naming import Lookup
from app.openapi import examples
from app.players.store import Players

blp = Blueprint("Items", __name__, url_prefix="/api/v1/players", group="Players")

bags = current(Bags)
players = current(Players)


@blp.route("/<player:key>/items")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, ItemsSchema)
def get_items(key: Lookup) -> Response:
    """Get a player's inventory and bank

    All slots in slot order, empty ones included.
    """
    player = players.read(key, "Inventory", "Bank")
    sizes = current_app.config
    inventory = served(player["Inventory"], sizes["INVENTORY_SIZE"])
    return json_response(
        {"inventory": inventory, "bank": served(player["Bank"], sizes["BANK_SIZE"])}
    )


@blp.route("/<player:key>/items/inventory")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, SlotSchema(many=True))
def get_inventory(key: Lookup) -> Response:
    """Get a player's inventory

    All slots in slot order. An empty slot has the all-zero ItemId and the Quantity 0.
    """
    slots = players.read(key, "Inventory")["Inventory"]
    return json_response(served(slots, current_app.config["INVENTORY_SIZE"]))


@blp.route("/<player:key>/items/bank")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, SlotSchema(many=True))
def get_bank(key: Lookup) -> Response:
    """Get a player's bank

    All slots in slot order. An empty slot has the all-zero ItemId and the Quantity 0.
    """
    slots = players.read(key, "Bank")["Bank"]
    return json_response(served(slots, current_app.config["BANK_SIZE"]))


@blp.route("/bag/<bag_id>")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, BagSchema)
@blp.refuses(NotFound("bag", examples.TOKEN))
def get_bag(bag_id: str) -> Response:
    """Get a bag

    All slots of the bag in slot order, empty ones included. BagId in an inventory names it.
    """
    return json_response(bags.get(path_guid("bagId", bag_id)))


@change_route(
    blp,
    GIVE,
    "/<player:key>/items/give",
    GivenSchema,
    NoRoom(examples.ITEM, 5, 2, bank=False),
    NoRoom(examples.ITEM, 5, 2, bank=True),
)
def give_item(args: dict[str, Any], key: Lookup) -> Response:
    """Give an item to a player

    Fills stacks of the item first, then empty slots, both in slot order; with bankoverflow what
    does not fit goes to the bank. All or nothing. Gear with StatBuffs and bags never merge. The
    answer counts what the player has of the item then. Where the catalogue holds items, and not
    this one, the answer has a `Warning`, or it is refused (`QM_STRICT_CATALOGUE`).
    """
    return answer(execute(GIVE, players, key, args))


@change_route(
    blp,
    TAKE,
    "/<player:key>/items/take",
    TakenSchema,
    NotEnoughItems(examples.ITEM, 5, 3),
    BagNotEmpty(examples.BAG_ITEM, examples.BAG),
)
def take_item(args: dict[str, Any], key: Lookup) -> Response:
    """Take an item from a player's inventory

    From the inventory alone, in slot order, all or nothing. A bag that holds something stays.
    """
    return answer(execute(TAKE, players, key, args))
