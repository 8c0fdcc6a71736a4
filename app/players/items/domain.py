"""Items: how slots are stored and served, and the rules of giving and taking. Pure.

The stored form is a sparse map from slot number to content, without defaults. The served form is a
list of complete slot records in slot order, including empty slots.

The game writes these maps, too. An unreadable slot counts as occupied by something unknown: it is
served as empty, nothing is given to it, taken from it or counted in it, and db check reports it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from app.core.changes import Change, SubjectKind
from app.core.errors import Conflict
from app.core.naming import NIL
from app.core.types import decimal, whole
from app.players.domain import SLOTS
from app.storage.schema.shapes import COUNT, GUID, changeable

Slots = Mapping[str, Mapping[str, Any]]

LARGEST_BAG = 10_000
BAG_SHAPE = changeable(
    {"_id": GUID, "SlotCount": {**COUNT, "maximum": LARGEST_BAG}, "Slots": SLOTS}
)
BAG_SUBJECT = SubjectKind("bag")

NO_BUFFS = [0, 0, 0, 0, 0]
# The field values of an empty slot.
NOTHING = {"ItemId": (NIL,), "Quantity": (0,), "BagId": (None, NIL), "StatBuffs": (None, NO_BUFFS)}
# A larger quantity is a mistake; the sum of all slots must fit into an int64.
LARGEST_QUANTITY = 2**53
EMPTY = {"ItemId": NIL, "Quantity": 0}


def slot_record(number: int, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Slot": number,
        "BagId": bag_of(held),
        "ItemId": held["ItemId"],
        "Quantity": quantity_of(held),
        "StatBuffs": held.get("StatBuffs") or NO_BUFFS,
    }


def slot_records(slots: Slots, size: int) -> list[dict[str, Any]]:
    """Return all slots in order; filled slots beyond the size are appended, not hidden."""
    records = list(_empty_slots(size))
    for record in filled(slots):
        if record["Slot"] < size:
            records[record["Slot"]] = record
        else:
            records.append(record)
    return records


@functools.lru_cache(8)
def _empty_slots(size: int) -> tuple[dict[str, Any], ...]:
    """Return the records of empty slots. They are cached: callers must not change them."""
    return tuple(slot_record(number, EMPTY) for number in range(size))


def filled(slots: Slots) -> list[dict[str, Any]]:
    """Return the records of the filled slots, in order."""
    numbers = sorted(int(slot) for slot, held in slots.items() if is_readable(slot, held))
    return [slot_record(number, slots[str(number)]) for number in numbers]


def is_readable(slot: str, held: Any) -> bool:
    """Tell whether a slot is valid: a canonical number, an item, a quantity, optionally a bag."""
    return (
        (number := decimal(slot)) is not None
        and str(number) == slot
        and isinstance(held, dict)
        and isinstance(held.get("ItemId"), str)
        and quantity_of(held) >= 0
        and isinstance(held.get("BagId"), str | None)
    )


def is_empty(held: Any) -> bool:
    """Tell whether a stored slot is empty, and so should not be stored."""
    return (
        isinstance(held, dict)
        and held.keys() >= {"ItemId", "Quantity"}
        and all(value in NOTHING.get(name, ()) for name, value in held.items())
    )


def quantity_of(held: Mapping[str, Any]) -> int:
    """Return the quantity of a slot; -1 if it cannot be read."""
    quantity = held.get("Quantity")
    if type(quantity) is not int:
        quantity = whole(quantity)
    return -1 if quantity is None or quantity > LARGEST_QUANTITY else quantity


# Names a change in a refusal: how many items it moves is unknown.
FILLED_BAG = "moving a bag with its contents"


def bags_in(document: Mapping[str, Any]) -> set[str]:
    """Return the ids of the bags in the slots of a player or of a bag."""
    found = set()
    for field in ("Inventory", "Bank", "Slots"):
        slots = document.get(field)
        for held in slots.values() if isinstance(slots, dict) else ():
            bag = bag_of(held) if isinstance(held, dict) else None
            if isinstance(bag, str):
                found.add(bag)
    return found


def slot_map(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Turn slot records into the stored map."""
    slots = {}
    for record in sorted(records, key=lambda record: int(record["Slot"])):
        if record["Quantity"] == 0:
            continue
        held = {"ItemId": record["ItemId"], "Quantity": record["Quantity"]}
        if record.get("BagId"):
            held["BagId"] = record["BagId"]
        if any(record.get("StatBuffs") or ()):
            held["StatBuffs"] = list(record["StatBuffs"])
        slots[str(record["Slot"])] = held
    return slots


class Limits(NamedTuple):
    """The numbers of inventory and bank slots, and the quantity of one slot."""

    inventory: int
    bank: int
    stack: int


class NoRoom(Conflict):
    """There is no room for all of it, so nothing was given."""

    def __init__(self, item: str, quantity: int, left: int, bank: bool) -> None:
        place = "inventory and the bank have" if bank else "inventory has"
        super().__init__(f"The {place} no room for {left} of {quantity} of the item {item}.")
        self.item, self.quantity, self.left = item, quantity, left


class NotEnoughItems(Conflict):
    """The player has fewer of the item: nothing was taken."""

    def __init__(self, item: str, wanted: int, held: int) -> None:
        super().__init__(f"The inventory holds {held} of the item {item}, not {wanted}.")
        self.item, self.wanted, self.held = item, wanted, held


class BagNotEmpty(Conflict):
    """A bag that holds something cannot be taken: take what is in it first."""

    def __init__(self, item: str, bag: str) -> None:
        super().__init__(f"The bag {bag} (item {item}) is not empty and cannot be taken.")
        self.item, self.bag = item, bag


def give(
    player: dict[str, Any],
    *,
    itemid: str,
    quantity: int,
    limits: Limits,
    bankoverflow: bool = False,
) -> Change:
    """Put items into the inventory; with bankoverflow, the rest into the bank. All or nothing."""
    fields = _give_fields(player, itemid, quantity, limits, bankoverflow)
    inventory, bank = fields["Inventory"], fields.get("Bank", player["Bank"])
    counts = {"bank": count(bank, itemid), "inventory": count(inventory, itemid)}
    answer = {"id": itemid, "quantity": {"total": sum(counts.values()), **counts}}
    return Change({"Inventory": inventory, "Bank": bank}, answer)


def give_uncounted(player: dict[str, Any], *, bankoverflow: bool, **given: Any) -> Change:
    """Give items without counting them afterwards; reads the bank only for an overflow."""
    return Change(_give_fields(player, **given, bank=bankoverflow), None)


def _give_fields(
    player: dict[str, Any], itemid: str, quantity: int, limits: Limits, bank: bool
) -> dict[str, Any]:
    """Return the fields that giving changes: the inventory, and the bank if it takes the rest."""
    inventory, left = _fill_slots(
        player["Inventory"], limits.inventory, itemid, quantity, limits.stack
    )
    fields = {"Inventory": inventory}
    if left and bank:
        fields["Bank"], left = _fill_slots(player["Bank"], limits.bank, itemid, left, limits.stack)
    if left:
        raise NoRoom(itemid, quantity, left, bank)
    return fields


def take(
    player: dict[str, Any], *, itemid: str, quantity: int, is_filled: Callable[[str], bool]
) -> Change:
    """Take items out of the inventory, in slot order; refuse to take a filled bag."""
    inventory = dict(player["Inventory"])
    left, filled_bag = quantity, None
    for slot in _slots_of(inventory, itemid):
        bag = bag_of(inventory[slot])
        if bag and is_filled(bag):
            filled_bag = bag
            continue
        left -= take_from(inventory, slot, left)
        if not left:
            return Change({"Inventory": inventory}, {"ItemId": itemid, "Quantity": quantity})
    held_in_all = count(player["Inventory"], itemid)
    if filled_bag and held_in_all >= quantity:
        raise BagNotEmpty(itemid, filled_bag)
    raise NotEnoughItems(itemid, quantity, held_in_all)


def take_from(slots: dict[str, Any], slot: str, wanted: int) -> int:
    """Take a quantity out of a slot, or all of it if it has less; return the quantity taken."""
    quantity = quantity_of(slots[slot])
    taken = min(wanted, quantity)
    if taken == quantity:
        del slots[slot]
    else:
        slots[slot] = {**slots[slot], "Quantity": quantity - taken}
    return taken


def count(slots: Slots, item: str) -> int:
    return sum(quantity_of(slots[slot]) for slot in _slots_of(slots, item))


def _fill_slots(
    slots: Slots, size: int, item: str, quantity: int, stack: int
) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Fill plain stacks, then empty slots, in slot order; return the slots and the rest."""
    after = dict(slots)
    stacks = (slot for slot in _slots_of(slots, item) if is_plain(slots[slot]))
    empty = (slot for slot in map(str, range(size)) if slot not in slots)
    for slot in chain(stacks, empty):
        if not quantity:
            break
        held = quantity_of(slots[slot]) if slot in slots else 0
        if added := max(0, min(quantity, stack - held)):
            after[slot] = {**slots.get(slot, {"ItemId": item}), "Quantity": held + added}
            quantity -= added
    return after, quantity


def is_plain(held: Mapping[str, Any]) -> bool:
    """Tell whether a slot may be merged into: neither gear with StatBuffs nor a bag."""
    buffs = held.get("StatBuffs") or []
    return isinstance(buffs, list) and not any(buffs) and bag_of(held) is None


def bag_of(held: Mapping[str, Any]) -> str | None:
    """Return the bag in a slot; games write the all-zero guid for none."""
    bag: str | None = held.get("BagId")
    return None if bag == NIL else bag


def _slots_of(slots: Slots, item: str) -> list[str]:
    """Return the slots that hold an item, in slot order."""
    found = (
        slot
        for slot, held in slots.items()
        if isinstance(held, dict) and held.get("ItemId") == item and is_readable(slot, held)
    )
    return sorted(found, key=int)
