from __future__ import annotations

from typing import Any

from marshmallow import fields
from marshmallow.validate import Length

from app.core.naming import NAME_LENGTH, NIL, parse_guid
from app.core.types import Document
from app.http.api import Schema
from app.http.examples import BAG, BAG_ITEM, EVENT, ITEM, OTHER_PLAYER, OTHER_PLAYER_ID, STATS
from app.http.fields import MESSAGES, Flag, Guid, Integer, List, Nested, PlainText

QUANTITY_MAX = 2**31 - 1
LONGEST_EVENT_ID = 128


BAG_SLOTS = [
    {"Slot": slot, "BagId": None, "ItemId": item, "Quantity": quantity, "StatBuffs": [0] * 5}
    for slot, item, quantity in ((0, ITEM, 57), (1, NIL, 0))
]


class SlotSchema(Schema):
    """A slot of an inventory, a bank or a bag; the all-zero ItemId with Quantity 0 is empty."""

    Slot = Integer(0, example=0)
    BagId = Guid(
        allow_none=True, example=BAG, description="The id of the bag in this slot, if it holds one."
    )
    ItemId = Guid(nil=True, example=BAG_ITEM)
    Quantity = Integer(0, example=1)
    StatBuffs = List(
        Integer(), validate=Length(equal=5), example=[0, 0, 0, 0, 0], description=STATS
    )


class ItemsSchema(Schema):
    inventory = List(Nested(SlotSchema))
    bank = List(Nested(SlotSchema))


class BagSchema(Schema):
    Id = Guid(example=BAG)
    SlotCount = Integer(0, example=2)
    Slots = List(Nested(SlotSchema), example=BAG_SLOTS)


class TakeItemArgs(Schema):
    itemid = Guid(required=True, example=ITEM, history_name="ItemId", object_type="item")
    quantity = Integer(1, QUANTITY_MAX, required=True, example=5)


class GiveItemArgs(TakeItemArgs):
    bankoverflow = Flag(
        load_default=False,
        example=True,
        history_name="BankOverflow",
        description="Whether items that do not fit go into the bank.",
    )


class GiveBackArgs(Schema):
    event = PlainText(LONGEST_EVENT_ID, shortest=1, required=True, example=EVENT)
    item = Integer(0, load_default=0, example=0, description="Which of its Items.")
    bankoverflow = GiveItemArgs().fields["bankoverflow"]


class TransferItemArgs(GiveItemArgs):
    to = PlainText(
        NAME_LENGTH,
        shortest=1,
        required=True,
        example=OTHER_PLAYER,
        description="The id or the name of the player who gets the items.",
    )


class CountsSchema(Schema):
    total = Integer(0, example=5)
    bank = Integer(0, example=0)
    inventory = Integer(0, example=5)


class GivenSchema(Schema):
    id = Guid(example=ITEM)
    quantity = Nested(CountsSchema)


class TakenSchema(Schema):
    ItemId = Guid(example=ITEM)
    Quantity = Integer(1, example=5)


class TransferredSchema(TakenSchema):
    To = Guid(example=OTHER_PLAYER_ID, description="The player who has the items now.")


class SlotMap(fields.Field[Document]):
    """Slot records, loaded into the stored map, which has no empty slots.

    They are checked by hand, because an import has millions of them.
    """

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a list of slot records.",
        "unknown": "Has an unknown field '{name}' in slot {slot}.",
        "slot": "Has a slot {slot} that is not a whole number from 0 to {last}.",
        "twice": "Has slot {slot} twice.",
        "item": "Has an ItemId in slot {slot} that is not a guid.",
        "bag": "Has a BagId in slot {slot} that is neither a guid nor null.",
        "quantity": "Has a Quantity in slot {slot} that is not a whole number from 1 to {limit}.",
        "buffs": "Has StatBuffs in slot {slot} that are not 5 whole numbers.",
    }
    NAMES = SlotSchema().fields.keys()

    def __init__(self, size: int, stack_limit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._size = size
        self._limit = stack_limit

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Document:
        if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
            raise self.make_error("invalid")
        found: dict[int, Document] = {}
        for record in value:
            slot = record.get("Slot")
            if unknown := record.keys() - self.NAMES:
                raise self.make_error("unknown", slot=slot, name=min(unknown))
            if type(slot) is not int or not 0 <= slot < self._size:
                raise self.make_error("slot", slot=slot, last=self._size - 1)
            if slot in found:
                raise self.make_error("twice", slot=slot)
            found[slot] = self._load_slot(slot, record)
        return {str(slot): found[slot] for slot in sorted(found) if found[slot]}

    def _load_slot(self, slot: int, record: Document) -> Document:
        """Return what a slot holds, as it is stored; {} if it is empty."""
        item, bag = (parse_guid(str(record.get(name))) for name in ("ItemId", "BagId"))
        quantity, buffs = record.get("Quantity"), record.get("StatBuffs")
        if item is None or (item == NIL and quantity != 0):
            raise self.make_error("item", slot=slot)
        if type(quantity) is not int or not (item != NIL) <= quantity <= self._limit:
            raise self.make_error("quantity", slot=slot, limit=self._limit)
        if bag is None and record.get("BagId") is not None:
            raise self.make_error("bag", slot=slot)
        are_integers = isinstance(buffs, list) and [type(buff) for buff in buffs] == [int] * 5
        if buffs is not None and not are_integers:
            raise self.make_error("buffs", slot=slot)
        held = {"ItemId": item, "Quantity": quantity}
        if bag not in (None, NIL):
            held["BagId"] = bag
        if any(buffs or ()):
            held["StatBuffs"] = buffs
        return held if quantity else {}
