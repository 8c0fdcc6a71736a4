"""Items that move from one player to another: the rules for both, and the mark in between. Pure.

The sender keeps a mark (TRANSFER) with the items that have left its slots, until the receiver has
them. So at any time each item is in one place: with the sender, in the mark, or with the receiver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from app.changes import Change, Intent, Origin, Rule, field_changes
from app.errors import Conflict
from app.items.domain import Limits, NoRoom, is_plain, take
from app.items.undo import CONTAINERS, Move, moves_of, put, undo
from app.players.domain import SUBJECT, TRANSFER, require_no_transfer
from app.types import Document

LimitsOf = Callable[[str], Limits]
# Items that come back to a sender without room go to slots that the player cannot use yet, instead
# of being lost. These are the largest slot number and quantity that can be stored.
LAST_SLOT, LARGEST_STACK = 9999, 2**31 - 1


class Withdrawn(Conflict):
    """The sender no longer has the mark."""

    sentence = "The transfer was withdrawn, or the game has overwritten the sender: look at both."


class PairIncomplete(Conflict):
    code = "CANNOT_UNDO"
    sentence = "The transfer cannot be undone: the change of the other player is no longer kept."


class Side(NamedTuple):
    """One of the two players of a transfer: its id, its rule, and the intent of its entry."""

    id: str
    rule: Rule
    intent: Intent


def take_any(player: Document, *, itemid: str, quantity: int) -> Change:
    """Take items out of the inventory; a filled bag goes with what is in it."""
    return take(player, itemid=itemid, quantity=quantity, is_filled=lambda _: False)


def send(player: Document, *, rule: Rule, mark: Document) -> Change:
    """Move items from the slots into the mark. The entry follows when the receiver has them."""
    require_no_transfer(player)
    change = rule(player)
    kept = {**mark, "Changes": field_changes(SUBJECT, player, change.fields)}
    return Change({**change.fields, TRANSFER: kept}, kept, has_entry=False)


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


def settle(player: Document, *, mark_id: Any, answer: Document | None) -> Change:
    """Remove the mark, and record the change: the receiver has the items."""
    mark = _open_mark(player, mark_id)
    if mark is None:
        raise Withdrawn
    return Change({TRANSFER: None}, answer, recorded=mark["Changes"])


def withdraw(player: Document, *, mark_id: Any, limits_of: LimitsOf) -> Change:
    """Put the items of the mark back into their slots, and remove the mark."""
    mark = _open_mark(player, mark_id)
    if mark is None:
        return Change({}, None)
    try:
        change = take_back(player, changes=mark["Changes"], limits_of=limits_of)
    except NoRoom:
        change = take_back(player, changes=mark["Changes"], limits_of=_without_limits)
    return Change({**change.fields, TRANSFER: None}, None, has_entry=False)


def _open_mark(player: Document, mark_id: Any) -> Document | None:
    mark = player.get(TRANSFER)
    return mark if isinstance(mark, dict) and mark.get("Id") == mark_id else None


def _without_limits(_: str) -> Limits:
    return Limits(LAST_SLOT + 1, LAST_SLOT + 1, LARGEST_STACK)


def stored_intent(intent: Intent) -> Document:
    """Return an intent as a mark stores it, so that any worker can write its entry."""
    entry = intent.undoes
    undoes = entry and {name: entry[name] for name in ("_id", "Stamp", "Subject")}
    return {**intent._asdict(), "origin": intent.origin._asdict(), "undoes": undoes}


def loaded_intent(stored: Document) -> Intent:
    return Intent(**{**stored, "origin": Origin(**stored["origin"])})
