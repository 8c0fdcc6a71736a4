"""Events that a game reports of its players, and giving back what a player lost. Pure."""

from __future__ import annotations

from collections.abc import Callable

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document, whole
from app.players.domain import SLOT
from app.players.items.domain import bag_of
from app.players.items.transfers.domain import LimitsOf, receive
from app.players.items.undo import BagIsElsewhere
from app.storage.schema.shapes import (
    GUID,
    INTEGER,
    MOMENT,
    MOMENT_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    object_shape,
)

LARGEST_MOVED = 2**31 - 1
AMOUNT: Document = {**INTEGER, "minimum": -LARGEST_MOVED, "maximum": LARGEST_MOVED}
ITEM: Document = {**SLOT, "properties": {**SLOT["properties"], "Quantity": AMOUNT}}
SHAPE = object_shape(
    {"_id": TEXT, "Player": GUID, "At": MOMENT, "Kind": TEXT, "ExpiresAt": MOMENT_OR_NULL},
    {
        "Text": TEXT_OR_NULL,
        "Items": {"bsonType": "array", "items": ITEM},
        "With": {**GUID, "bsonType": ["string", "null"]},
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
PROPERTIES = ("ItemId", "BagId", "StatBuffs")
BAG_GONE = "The bag of the item no longer exists, so the item came back without it."


class NotLost(Conflict):
    sentence = "The event '{event}' has no lost item with the number {number}."


class AlreadyGivenBack(Conflict):
    sentence = "This item was already given back by the change {entry}."


def event_items(event: Document) -> list[Document]:
    items = event.get("Items")
    numbered = items if isinstance(items, list) else []
    return [item if isinstance(item, dict) else {} for item in numbered]


def restoration_id(event_id: str, number: int) -> str:
    """Return what the entry of a give-back records as undone: an item is given back once."""
    return f"event:{event_id}:{number}"


def public_event(event: Document, given_back: dict[str, str]) -> Document:
    """Return an event as it is served; given_back has entries by what they restored."""
    items = [
        {
            **{name: item.get(name) for name in (*PROPERTIES, "Quantity")},
            "GivenBackBy": given_back.get(restoration_id(event["_id"], number)),
        }
        for number, item in enumerate(event_items(event))
    ]
    served = {name: event.get(name) for name in ("Player", "At", "Kind", "Text", "With")}
    return {"Id": event["_id"], **served, "Items": items}


def lost_slot(event: Document, number: int) -> Document:
    """Return a lost item of an event as a slot holds it, or raise NotLost."""
    items = event_items(event)
    if number >= len(items) or (whole(items[number].get("Quantity")) or 0) >= 0:
        raise NotLost(event["_id"], number)
    return {**items[number], "Quantity": -items[number]["Quantity"]}


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
