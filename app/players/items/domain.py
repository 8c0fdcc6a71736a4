"""Items: how slots are stored and served, and the rules of giving and taking. Pure.

The stored form is a sparse map from slot number to content, without defaults. The served form is a
list of complete slot records in slot order, including empty slots.

The game writes these maps, too. An unreadable slot counts as occupied by something unknown: it is
served as empty, nothing is given to it, taken from it or counted in it, and db check reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from app.core.changes import Change, SubjectKind
from app.core.errors import Conflict
from app.core.naming import NIL
from app.core.types import Document, decimal, whole
from app.players.domain import SLOT, SLOTS
from app.storage.schema.shapes import COUNT, GUID, changeable

# What a slot holds.
Held = Mapping[str, Any]
Slots = Mapping[str, Held]
CONTAINERS = ("Inventory", "Bank")

LARGEST_BAG = 10_000
BAG_SHAPE = changeable(
    {"_id": GUID, "SlotCount": {**COUNT, "maximum": LARGEST_BAG}, "Slots": SLOTS}
)
BAG_SUBJECT = SubjectKind("bag")

NO_BUFFS = [0, 0, 0, 0, 0]
# A larger quantity is a mistake; the sum of all slots must fit into an int64.
LARGEST_QUANTITY = 2**53
EMPTY = {"ItemId": NIL, "Quantity": 0}


def slot_record(number: int, held: Held) -> dict[str, Any]:
    return {
        "Slot": number,
        "BagId": bag_of(held),
        "ItemId": held["ItemId"],
        "Quantity": quantity_of(held),
        "StatBuffs": held.get("StatBuffs") or NO_BUFFS,
    }


def slot_records(slots: Slots, size: int) -> list[dict[str, Any]]:
    """Return all slots in order; filled slots beyond the size are appended, not hidden."""
    records = {number: slot_record(number, EMPTY) for number in range(size)}
    records |= {record["Slot"]: record for record in filled(slots)}
    return list(records.values())


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
        and (held.get("ItemId"), held.get("Quantity")) == (NIL, 0)
        and is_plain(held)
        and held.keys() <= SLOT["properties"].keys()
    )


def quantity_of(held: Held) -> int:
    """Return the quantity of a slot; -1 if it cannot be read."""
    quantity = whole(held.get("Quantity"))
    return -1 if quantity is None or quantity > LARGEST_QUANTITY else quantity


# Names a change in a refusal: how many items it moves is unknown.
FILLED_BAG = "moving a bag with its contents"


def bags_in(document: Held) -> set[str]:
    """Return the ids of the bags in the slots of a player or of a bag."""
    found = set()
    for field in ("Inventory", "Bank", "Slots"):
        slots = document.get(field)
        for held in slots.values() if isinstance(slots, dict) else ():
            bag = bag_of(held) if isinstance(held, dict) else None
            if isinstance(bag, str):
                found.add(bag)
    return found


class Limits(NamedTuple):
    """The numbers of inventory and bank slots, and the quantity of one slot."""

    inventory: int
    bank: int
    stack: int


LimitsOf = Callable[[str], Limits]


class NoRoom(Conflict):
    """There is no room for all of it, so nothing was given."""

    sentence = "The {inventory_has} no room for {left} of {quantity} of the item {item}."


class NotEnoughItems(Conflict):
    """The player has fewer of the item: nothing was taken."""

    sentence = "The inventory holds {held} of the item {item}, not {wanted}."


class BagNotEmpty(Conflict):
    """A bag that holds something cannot be taken: take what is in it first."""

    sentence = "The bag {bag} (item {item}) is not empty and cannot be taken."


def no_room(item: str, quantity: int, left: int, bank: bool) -> NoRoom:
    inventory_has = "inventory and the bank have" if bank else "inventory has"
    return NoRoom(inventory_has, left, quantity, item)


def give(
    player: Document,
    *,
    itemid: str,
    quantity: int,
    limits: Limits,
    bankoverflow: bool = False,
) -> Change:
    """Put items into the inventory; with bankoverflow, the rest into the bank. All or nothing."""
    held = {"ItemId": itemid, "Quantity": quantity}
    change = receive(player, held=[held], bankoverflow=bankoverflow, limits_of=lambda _: limits)
    after = {**player, **change.fields}
    counts = {"bank": count(after["Bank"], itemid), "inventory": count(after["Inventory"], itemid)}
    answer = {"id": itemid, "quantity": {"total": sum(counts.values()), **counts}}
    return change._replace(answer=answer)


def receive(
    player: Document, *, held: Iterable[Document], bankoverflow: bool, limits_of: LimitsOf
) -> Change:
    """Put contents of slots into the inventory, with their properties. All or nothing.

    With bankoverflow, the rest goes into the bank; otherwise the bank need not have been read.
    """
    slots = {name: dict(player[name]) for name in CONTAINERS[: 1 + bankoverflow]}
    for one in held:
        item, quantity = one["ItemId"], one["Quantity"]
        if left := fill(slots, one, quantity, limits_of(item)):
            raise no_room(item, quantity, left, bankoverflow)
    return Change(slots, None)


def fill(slots: dict[str, Document], held: Held, quantity: int, limits: Limits) -> int:
    """Put more of what a slot holds onto plain stacks, then into empty slots, in slot order.

    Return the rest.
    """
    sizes = {"Inventory": limits.inventory, "Bank": limits.bank}
    for name, into in slots.items():
        stacks = slots_of(into, held["ItemId"]) if is_plain(held) else []
        for slot in (*stacks, *map(str, range(sizes[name]))):
            if not quantity:
                return 0
            if slot in stacks or slot not in into:
                quantity -= put(into, slot, held, quantity, limits.stack)
    return quantity


def put(slots: Document, slot: str, held: Held, quantity: int, stack: int) -> int:
    """Put a quantity into an empty slot, or onto the same thing; return the quantity put."""
    there = slots.get(slot, {**held, "Quantity": 0})
    if slot in slots and not holds(slots, slot, held):
        return 0
    already = quantity_of(there)
    if added := max(0, min(quantity, stack - already)):
        slots[slot] = {**there, "Quantity": already + added}
    return added


def holds(slots: Slots, slot: str, held: Held) -> bool:
    """Tell whether a slot holds the same thing, in whatever quantity."""
    there: Any = slots.get(slot)
    return is_readable(slot, there) and mark_of(there) == mark_of(held)


def take(
    player: Document,
    *,
    itemid: str,
    quantity: int,
    is_filled: Callable[[str], bool] = lambda _: False,
) -> Change:
    """Take items out of the inventory, in slot order; refuse to take a filled bag."""
    inventory = dict(player["Inventory"])
    left, filled_bag = quantity, None
    for slot in slots_of(inventory, itemid):
        bag = bag_of(inventory[slot])
        if bag and is_filled(bag):
            filled_bag = bag
            continue
        left -= take_from(inventory, slot, left)
        if not left:
            return Change({"Inventory": inventory}, {"ItemId": itemid, "Quantity": quantity})
    held_in_all = count(player["Inventory"], itemid)
    if filled_bag and held_in_all >= quantity:
        raise BagNotEmpty(filled_bag, itemid)
    raise NotEnoughItems(held_in_all, itemid, quantity)


def take_from(slots: Document, slot: str, wanted: int) -> int:
    """Take a quantity out of a slot, or all of it if it has less; return the quantity taken."""
    quantity = quantity_of(slots[slot])
    taken = min(wanted, quantity)
    if taken == quantity:
        del slots[slot]
    else:
        slots[slot] = {**slots[slot], "Quantity": quantity - taken}
    return taken


def count(slots: Slots, item: str) -> int:
    return sum(quantity_of(slots[slot]) for slot in slots_of(slots, item))


def mark_of(held: Held) -> str:
    """Return what equal things share: plain slots their item, others their whole content."""
    content = {name: value for name, value in held.items() if name != "Quantity"}
    return str(held["ItemId"]) if is_plain(held) else repr(sorted(content.items()))


def is_plain(held: Held) -> bool:
    """Tell whether a slot may be merged into: neither gear with StatBuffs nor a bag."""
    buffs = held.get("StatBuffs") or []
    return isinstance(buffs, list) and not any(buffs) and bag_of(held) is None


def bag_of(held: Held) -> str | None:
    """Return the bag in a slot; games write the all-zero guid for none."""
    bag: str | None = held.get("BagId")
    return None if bag == NIL else bag


def slots_of(slots: Slots, item: str) -> list[str]:
    """Return the slots that hold an item, in slot order."""
    found = (
        slot
        for slot, held in slots.items()
        if isinstance(held, dict) and held.get("ItemId") == item and is_readable(slot, held)
    )
    return sorted(found, key=int)
