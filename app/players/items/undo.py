"""Undoes changes of items: takes back what was given, and gives back what was taken. Pure.

It works on the current slots. Later changes by others stay, and an undo that would need a guess is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document
from app.players.items.domain import (
    CONTAINERS,
    BagNotEmpty,
    Held,
    LimitsOf,
    bag_of,
    fill,
    holds,
    is_plain,
    mark_of,
    no_room,
    put,
    quantity_of,
    slots_of,
    take_from,
)


class Spent(Conflict):
    """The player has spent some of what was given, so it cannot be taken back as a whole."""

    code = "ITEMS_SPENT"
    sentence = "The player has {held} of the item {item} left, but {wanted} were given."


class BagIsElsewhere(Conflict):
    """A bag was taken, and only the game knows whether somebody else has it now."""

    sentence = "The bag {bag} may belong to somebody else by now and cannot be given back."


class Fault(NamedTuple):
    """Why a change cannot be undone as a whole, and what an undo in part leaves undone."""

    refusal: Conflict
    warning: str


class Move(NamedTuple):
    """What was added to a slot, or removed from it if the quantity is negative."""

    container: str
    slot: str
    # As the slot held it, with any quantity.
    held: Held
    quantity: int
    # Whether the slot held the same both before and after, so that this stack may grow again.
    may_grow: bool = False

    @property
    def item(self) -> str:
        return str(self.held["ItemId"])


def undo(
    player: Document,
    *,
    changes: list[Document],
    limits_of: LimitsOf,
    is_filled: Callable[[str], bool] = lambda _: False,
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
    faults: list[Fault] = []
    for mark in dict.fromkeys(mark_of(move.held) for move in came):
        of_mark = [move for move in came if mark_of(move.held) == mark]
        faults += _take_back(slots, of_mark, is_filled)
    faults += _give_back(slots, went, limits_of, has_bags)
    # To give back all that was removed, but take back only a part of what was added, makes items.
    may_be_partial = is_partial and not (came and went)
    if faults and not (may_be_partial and any(slots[name] != player[name] for name in CONTAINERS)):
        raise faults[0].refusal
    return Change(slots, None, warning=" ".join(fault.warning for fault in faults) or None)


def quantities(changes: list[Document]) -> dict[str, int]:
    """Return by item the quantity that the changes moved in either direction."""
    moved = Counter[str]()
    for move in moves_of(changes):
        moved[move.item] += abs(move.quantity)
    return moved


def moves_of(changes: list[Document]) -> list[Move]:
    moves: list[Move] = []
    for change in changes:
        container, _, slot = change["Path"].partition(".")
        before, after = change["Before"], change["After"]
        if before and after and mark_of(before) == mark_of(after):
            added = quantity_of(after) - quantity_of(before)
            moves.append(Move(container, slot, after, added, may_grow=True))
            continue
        if before:
            moves.append(Move(container, slot, before, -quantity_of(before)))
        if after:
            moves.append(Move(container, slot, after, quantity_of(after)))
    return moves


def _take_back(
    slots: dict[str, Document], came: list[Move], is_filled: Callable[[str], bool]
) -> Iterator[Fault]:
    """Take a thing from the slots that it was added to, then from any other slot.

    Yields a fault if some are missing.
    """
    held, item = came[0].held, came[0].item
    bag = bag_of(held)
    if bag and is_filled(bag):
        raise BagNotEmpty(bag, item)
    wanted = left = sum(move.quantity for move in came)
    added = [(move.container, move.slot, move.quantity) for move in came]
    others = [(name, slot, wanted) for name in CONTAINERS for slot in slots_of(slots[name], item)]
    for name, slot, most in (*added, *others):
        if left and holds(slots[name], slot, held):
            left -= take_from(slots[name], slot, min(left, most))
    if left:
        missing = f"{left} of {wanted} of the item {item} cannot be taken back"
        refusal = Spent(wanted - left, item, wanted)
        yield Fault(refusal, f"{missing}: the player no longer has them.")


def _give_back(
    slots: dict[str, Document], went: list[Move], limits_of: LimitsOf, has_bags: bool
) -> Iterator[Fault]:
    """Put things back into their former slots, then into the first slots that fit.

    Yields a fault for each thing that does not fit.
    """
    left = []
    for move in went:
        bag = bag_of(move.held)
        if bag and not has_bags:
            raise BagIsElsewhere(bag)
        rest, into = -move.quantity, slots[move.container]
        if move.slot not in into or move.may_grow or is_plain(move.held):
            # A stack goes back into one slot, even if it exceeds the current stack limit.
            stack = max(limits_of(move.item).stack, rest)
            rest -= put(into, move.slot, move.held, rest, stack)
        left.append((move, rest))
    for move, quantity in left:
        if rest := fill(slots, move.held, quantity, limits_of(move.item)):
            missing = f"{rest} of {-move.quantity} of the item {move.item} cannot be given back"
            refusal = no_room(move.item, -move.quantity, rest, bank=True)
            yield Fault(refusal, f"{missing}: there is no room.")
