"""Events that a game reports of its players, and giving back what a player lost. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.changes import Change
from app.errors import Conflict
from app.items.domain import LARGEST_QUANTITY, bag_of
from app.items.transfers.domain import LimitsOf, receive
from app.items.undo import BagIsElsewhere
from app.storage.schema.shapes import GUID, MOMENT, TEXT, TEXT_OR_NULL, integers, object_shape
from app.types import Document, whole

LARGEST_MOVED = 2**31 - 1
ITEM: Document = {
    **object_shape(
        {
            "ItemId": GUID,
            "Quantity": {
                "bsonType": ["int", "long"],
                "minimum": -LARGEST_MOVED,
                "maximum": LARGEST_MOVED,
            },
        },
        {"BagId": GUID, "StatBuffs": integers(5)},
    ),
    "additionalProperties": False,
}
SHAPE = object_shape(
    {"_id": TEXT, "Player": GUID, "At": MOMENT, "Kind": TEXT},
    {
        "Text": TEXT_OR_NULL,
        "Items": {"bsonType": "array", "items": ITEM},
        "With": {**GUID, "bsonType": ["string", "null"]},
        "ExpiresAt": MOMENT,
    },
)
# The kinds that pages have words for; a game may report others.
WORDS = {
    "loot": "Picked up",
    "trade": "Traded",
    "death": "Died",
    "drop": "Dropped",
    "log-in": "Logged in",
    "log-out": "Logged out",
}
# Whether a player gains (1) or loses (-1) items by an event of a kind.
SIGNS = {"loot": 1, "drop": -1, "death": -1}
PROPERTIES = ("ItemId", "BagId", "StatBuffs")
BAG_GONE = "The bag of the item no longer exists, so the item came back without it."


class NotLost(Conflict):
    sentence = "The event '{event}' has no lost item with the number {number}."


class AlreadyGivenBack(Conflict):
    sentence = "This item was already given back by the change {entry}."


def event_items(event: Document) -> list[Document]:
    """Return the items of an event; a game may have stored values that cannot be read."""
    stored = event.get("Items")
    return [item for item in stored if _is_item(item)] if isinstance(stored, list) else []


def _is_item(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("ItemId"), str):
        return False
    quantity = whole(item.get("Quantity"))
    return quantity is not None and 0 < abs(quantity) <= LARGEST_QUANTITY


def restoration_id(event_id: str, number: int) -> str:
    """Return what the entry of a give-back records as undone: an item is given back once."""
    return f"event:{event_id}:{number}"


def public_event(event: Document, given_back: dict[str, str]) -> Document:
    """Return an event as it is served; given_back has entries by what they restored."""
    items = [
        {
            "ItemId": item["ItemId"],
            "Quantity": whole(item["Quantity"]),
            "BagId": item.get("BagId"),
            "StatBuffs": item.get("StatBuffs"),
            "GivenBackBy": given_back.get(restoration_id(event["_id"], number)),
        }
        for number, item in enumerate(event_items(event))
    ]
    served = {name: event.get(name) for name in ("Player", "At", "Kind", "Text", "With")}
    return {"Id": event["_id"], **served, "Items": items}


def lost_slot(event: Document, number: int) -> Document:
    """Return a lost item of an event as a slot holds it, or raise NotLost."""
    items = event_items(event)
    quantity = whole(items[number]["Quantity"]) if number < len(items) else None
    if quantity is None or quantity > 0:
        raise NotLost(event["_id"], number)
    kept = {name: items[number][name] for name in PROPERTIES if items[number].get(name)}
    return {**kept, "Quantity": -quantity}


def give_back(
    player: Document,
    *,
    held: Document,
    bankoverflow: bool,
    limits_of: LimitsOf,
    is_carried: Callable[[str], bool],
) -> Change:
    """Put a lost item with its properties into the inventory, unless somebody has its bag."""
    bag = bag_of(held)
    if bag and is_carried(bag):
        raise BagIsElsewhere(bag)
    lost = [{"Path": "Inventory", "Before": held, "After": None}]
    change = receive(player, changes=lost, bankoverflow=bankoverflow, limits_of=limits_of)
    return change._replace(answer={"ItemId": held["ItemId"], "Quantity": held["Quantity"]})
