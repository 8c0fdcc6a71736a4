"""Events that a game reports of its players, and giving back what a player lost. Pure."""

from __future__ import annotations

from app.core.errors import Conflict
from app.core.types import Document
from app.players.domain import SLOT
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
BAG_GONE = "The bag of the item no longer exists, so the item came back without it."


class NotLost(Conflict):
    sentence = "The event '{event}' has no lost item with the number {number}."


class AlreadyGivenBack(Conflict):
    sentence = "This item was already given back by the change {entry}."


def restoration_id(event_id: str, number: int) -> str:
    """Return what the entry of a give-back records as undone: an item is given back once."""
    return f"event:{event_id}:{number}"


def public_event(event: Document, given_back: dict[str, str]) -> Document:
    """Return an event as it is served; given_back has entries by what they restored."""
    items = [
        {
            **{name: item.get(name) for name in ("ItemId", "BagId", "StatBuffs", "Quantity")},
            "GivenBackBy": given_back.get(restoration_id(event["_id"], number)),
        }
        for number, item in enumerate(event.get("Items", []))
    ]
    served = {name: event.get(name) for name in ("Player", "At", "Kind", "Text", "With")}
    return {"Id": event["_id"], **served, "Items": items}


def lost_slot(event: Document, number: int) -> Document:
    """Return a lost item of an event as a slot holds it, or raise NotLost."""
    items = event.get("Items", [])
    if number >= len(items) or items[number]["Quantity"] >= 0:
        raise NotLost(event["_id"], number)
    return {**items[number], "Quantity": -items[number]["Quantity"]}
