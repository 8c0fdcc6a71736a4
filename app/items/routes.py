"""What players own: inventory, bank and bags, giving and taking."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import Scope
from app.auth.spending import OverBudget, spend
from app.changes import Intent, Rule
from app.errors import NotFound
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, keyed_intent
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.items.domain import BagNotEmpty, NoRoom, NotEnoughItems, give, served, take
from app.items.schemas import (
    BagSchema,
    GiveItemArgs,
    GivenSchema,
    ItemsSchema,
    SlotSchema,
    TakeItemArgs,
    TakenSchema,
)
from app.items.store import Bags, Catalogue
from app.naming import Lookup
from app.objects.domain import NotInCatalogue
from app.objects.store import KnownObjects
from app.openapi import examples
from app.players.store import Players

OVER_BUDGET = OverBudget("shop", "it may move 3 of an item at once, not 5", "LargestQuantity")

blp = Blueprint("Items", __name__, url_prefix="/api/v1/players", group="Players")

bags = current(Bags)
catalogue = current(Catalogue)
known_objects = current(KnownObjects)
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


@blp.route("/<player:key>/items/give", methods=["POST"])
@guard.required(Scope.PLAYERS_CHANGE)
@blp.arguments(GiveItemArgs())
@blp.documents_response(200, GivenSchema)
@blp.refuses(
    NoRoom(examples.ITEM, 5, 2, bank=False),
    NoRoom(examples.ITEM, 5, 2, bank=True),
    NotInCatalogue("item", examples.ITEM),
    OVER_BUDGET,
)
@blp.warns
@blp.idempotent
def give_item(args: dict[str, Any], key: Lookup) -> Response:
    """Give an item to a player

    Fills stacks of the item first, then empty slots, both in slot order; with bankoverflow what
    does not fit goes to the bank. All or nothing. Gear with StatBuffs and bags never merge. The
    answer counts what the player has of the item then. Where the catalogue holds items, and not
    this one, the answer has a `Warning`, or it is refused (`QM_STRICT_CATALOGUE`).
    """
    rule = partial(give, **args, limits=catalogue.limits(args["itemid"]))
    change = known_objects.checked(args, rule, keyed_intent("give", args))
    return moved(key, ("Inventory", "Bank"), *change, args)


@blp.route("/<player:key>/items/take", methods=["POST"])
@guard.required(Scope.PLAYERS_CHANGE)
@blp.arguments(TakeItemArgs())
@blp.documents_response(200, TakenSchema)
@blp.refuses(
    NotEnoughItems(examples.ITEM, 5, 3), BagNotEmpty(examples.BAG_ITEM, examples.BAG), OVER_BUDGET
)
@blp.idempotent
def take_item(args: dict[str, Any], key: Lookup) -> Response:
    """Take an item from a player's inventory

    From the inventory alone, in slot order, all or nothing. A bag that holds something stays.
    """
    # Check-then-act: a bag that the game fills between this read and the write is taken anyway.
    # A bag is a document of its own, and only the game fills bags.
    rule = partial(take, **args, is_filled=bags.is_filled)
    return moved(key, ("Inventory",), rule, keyed_intent("take", args), args)


def moved(
    key: Lookup, reads: tuple[str, ...], rule: Rule, intent: Intent, args: dict[str, Any]
) -> Response:
    """Answer a change that moves items, within the budget of the caller's key if it has one."""
    applied = spend(
        {args["itemid"]: args["quantity"]},
        partial(players.change, key, reads, rule, intent),
        partial(players.find_earlier, key, intent),
    )
    return answer(applied)
