"""Items that move from one player to another: the rules for both. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document
from app.players.items.domain import Limits, NoRoom, is_plain, take
from app.players.items.undo import CONTAINERS, Move, moves_of, put, undo

LimitsOf = Callable[[str], Limits]


class PairIncomplete(Conflict):
    code = "CANNOT_UNDO"
    sentence = "The transfer cannot be undone: the change of the other player is no longer kept."


def take_any(
    player: Document, *, itemid: str, quantity: int, answer: Document | None = None
) -> Change:
    """Take items out of the inventory; a filled bag goes with what is in it."""
    change = take(player, itemid=itemid, quantity=quantity, is_filled=lambda _: False)
    return change._replace(answer=answer)


def receive(
    player: Document, *, changes: list[Document], bankoverflow: bool, limits_of: LimitsOf
) -> Change:
    """Put things into the inventory as giving does, but with their properties. All or nothing."""
    slots = {name: dict(player[name]) for name in CONTAINERS}
    for move in moves_of(changes):
        left = wanted = -move.quantity
        for name in CONTAINERS if bankoverflow else CONTAINERS[:1]:
            left -= _fill(slots[name], name, move, left, limits_of(move.thing.item))
        if left:
            raise NoRoom(move.thing.item, wanted, left, bankoverflow)
    return Change(slots, None)


def _fill(slots: dict[str, Any], name: str, move: Move, wanted: int, limits: Limits) -> int:
    """Fill plain stacks, then empty slots; return the quantity that had room."""
    size = limits.inventory if name == "Inventory" else limits.bank
    left = wanted
    for may_grow in (True, False) if is_plain(move.thing.content) else (False,):
        for slot in map(str, range(size)):
            if (slot in slots) == may_grow:
                left -= put(slots, slot, move.thing, left, limits.stack, may_grow)
    return wanted - left


def take_back(player: Document, *, changes: list[Document], limits_of: LimitsOf) -> Change:
    """Take what a transfer has brought, or put back what it has taken, bags included."""
    return undo(
        player, changes=changes, limits_of=limits_of, is_filled=lambda _: False, has_bags=True
    )
