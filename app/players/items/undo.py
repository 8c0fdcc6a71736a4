"""Undoes changes of items: takes back what was given, and gives back what was taken. Pure.

It works on the current slots. Later changes by others stay, and an undo that would need a guess is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document, decimal
from app.players.items.domain import (
    BagNotEmpty,
    Limits,
    NoRoom,
    bag_of,
    is_plain,
    is_readable,
    quantity_of,
    take_from,
)

Slots = dict[str, dict[str, Any]]
CONTAINERS = ("Inventory", "Bank")


class Spent(Conflict):
    """The player has spent some of what was given, so it cannot be taken back as a whole."""

    code = "ITEMS_SPENT"

    def __init__(self, item: str, wanted: int, held: int) -> None:
        super().__init__(f"The player has {held} of the item {item} left, but {wanted} were given.")
        self.item, self.wanted, self.held = item, wanted, held


class BagIsElsewhere(Conflict):
    """A bag was taken, and only the game knows whether somebody else has it now."""

    sentence = "The bag {bag} may belong to somebody else by now and cannot be given back."


class Thing(NamedTuple):
    """The content of a slot without its quantity; things with the same mark are equal."""

    item: str
    mark: str
    content: Mapping[str, Any]


class Move(NamedTuple):
    """A quantity of a thing that was added to a slot, or removed from it if negative.

    If the slot held the thing both before and after, the stack may grow again, even if it is not
    a plain stack.
    """

    container: str
    slot: str
    thing: Thing
    quantity: int
    may_grow: bool


def undo(
    player: Document,
    *,
    changes: list[Document],
    limits_of: Callable[[str], Limits],
    is_filled: Callable[[str], bool],
    has_bags: bool = False,
    is_partial: bool = False,
) -> Change:
    """Take back what the changes added, and give back what they removed; all or nothing.

    has_bags tells that removed bags are at hand, and certainly belong to nobody else. With
    is_partial, take or give back as much as possible, and warn about the rest.
    """
    slots = {name: dict(player[name]) for name in CONTAINERS}
    moves = moves_of(changes)
    came = [move for move in moves if move.quantity > 0]
    went = [move for move in moves if move.quantity < 0]
    faults: list[Spent | NoRoom] = []
    for mark in dict.fromkeys(move.thing.mark for move in came):
        of_mark = [move for move in came if move.thing.mark == mark]
        faults += _take_back(slots, of_mark, is_filled)
    faults += _give_back(slots, went, limits_of, has_bags)
    # To give back all that was removed, but take back only a part of what was added, makes items.
    may_be_partial = is_partial and not (came and went)
    if faults and not (may_be_partial and any(slots[name] != player[name] for name in CONTAINERS)):
        raise faults[0]
    return Change(slots, None, warning=" ".join(map(_missing, faults)) or None)


def _missing(fault: Spent | NoRoom) -> str:
    """Return what a partial undo leaves undone."""
    if isinstance(fault, Spent):
        left = f"{fault.wanted - fault.held} of {fault.wanted} of the item {fault.item}"
        return f"{left} cannot be taken back: the player no longer has them."
    left = f"{fault.left} of {fault.quantity} of the item {fault.item}"
    return f"{left} cannot be given back: there is no room."


def moves_of(changes: list[Document]) -> list[Move]:
    return [move for change in changes for move in _moves(change)]


def quantities(changes: list[Document]) -> dict[str, int]:
    """Return by item the quantity that the changes moved in either direction."""
    moved: dict[str, int] = {}
    for move in moves_of(changes):
        moved[move.thing.item] = moved.get(move.thing.item, 0) + abs(move.quantity)
    return moved


def thing_of(held: Mapping[str, Any]) -> Thing:
    """Return the thing in a slot. Plain slots of an item are equal; others are by content."""
    content = {name: value for name, value in held.items() if name != "Quantity"}
    item = held["ItemId"]
    return Thing(item, item if is_plain(held) else repr(sorted(content.items())), content)


def _moves(change: Document) -> Iterator[Move]:
    container, _, slot = change["Path"].partition(".")
    before, after = change["Before"], change["After"]
    if before and after and thing_of(before).mark == thing_of(after).mark:
        quantity = quantity_of(after) - quantity_of(before)
        yield Move(container, slot, thing_of(after), quantity, may_grow=True)
        return
    if before:
        yield Move(container, slot, thing_of(before), -quantity_of(before), may_grow=False)
    if after:
        yield Move(container, slot, thing_of(after), quantity_of(after), may_grow=False)


def _take_back(
    slots: dict[str, Slots], came: list[Move], is_filled: Callable[[str], bool]
) -> Iterator[Spent]:
    """Take things from the slots that they were added to, then from any other slot.

    Yields an error if some are missing.
    """
    thing = came[0].thing
    bag = bag_of(thing.content)
    if bag and is_filled(bag):
        raise BagNotEmpty(thing.item, bag)
    wanted = left = sum(move.quantity for move in came)
    for move in came:
        left -= _take(slots[move.container], move.slot, thing, min(left, move.quantity))
    for name in CONTAINERS:
        for slot in sorted(slots[name], key=_number):
            left -= _take(slots[name], slot, thing, left)
    if left:
        yield Spent(thing.item, wanted, wanted - left)


def _take(slots: Slots, slot: str, thing: Thing, wanted: int) -> int:
    if not wanted or not _holds(slots, slot, thing):
        return 0
    return take_from(slots, slot, wanted)


def _give_back(
    slots: dict[str, Slots],
    went: list[Move],
    limits_of: Callable[[str], Limits],
    has_bags: bool,
) -> Iterator[NoRoom]:
    """Put things back into their former slots, then into the first slots that fit.

    Yields an error for each thing that does not fit.
    """
    left = []
    for move in went:
        bag = bag_of(move.thing.content)
        if bag and not has_bags:
            raise BagIsElsewhere(bag)
        # A stack goes back into one slot, even if it exceeds the current stack limit.
        stack = max(limits_of(move.thing.item).stack, -move.quantity)
        may_grow = move.may_grow or is_plain(move.thing.content)
        added = put(slots[move.container], move.slot, move.thing, -move.quantity, stack, may_grow)
        left.append(-move.quantity - added)
    for move, quantity in zip(went, left, strict=True):
        if rest := _give_elsewhere(slots, move, quantity, limits_of(move.thing.item)):
            yield NoRoom(move.thing.item, -move.quantity, rest, bank=True)


def _give_elsewhere(slots: dict[str, Slots], move: Move, quantity: int, limits: Limits) -> int:
    """Fill plain stacks of the item first, then empty slots, like give; return the rest."""
    left = quantity
    sizes = {"Inventory": limits.inventory, "Bank": limits.bank}
    for may_grow in (True, False) if is_plain(move.thing.content) else (False,):
        for name in CONTAINERS:
            for slot in map(str, range(sizes[name])):
                if (slot in slots[name]) == may_grow:
                    left -= put(slots[name], slot, move.thing, left, limits.stack, may_grow)
    return left


def put(slots: Slots, slot: str, thing: Thing, wanted: int, stack: int, may_grow: bool) -> int:
    """Put a thing into an empty slot, or onto the same thing; return the quantity put."""
    if not wanted:
        return 0
    if slot not in slots:
        added = min(wanted, stack)
        slots[slot] = {**thing.content, "Quantity": added}
        return added
    if not may_grow or not _holds(slots, slot, thing):
        return 0
    held = quantity_of(slots[slot])
    added = max(0, min(wanted, stack - held))
    slots[slot] = {**slots[slot], "Quantity": held + added}
    return added


def _holds(slots: Slots, slot: str, thing: Thing) -> bool:
    held: Any = slots.get(slot)
    return is_readable(slot, held) and thing_of(held).mark == thing.mark


def _number(slot: str) -> int:
    return decimal(slot) or 0
