"""What clients were promised, and whether the database holds exactly that.

Every client has an item of its own, so it knows at each moment how much of it a player must have.
Every write that is applied counts the player's Version up by one, whoever made it: fewer than were
acknowledged, and one was lost; more, and one was applied twice.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Ledger:
    """What one client was promised."""

    def __init__(self):
        self.held = Counter()
        self.writes = Counter()

    def promise(self, player, item, quantity):
        """Note an acknowledged write; what was taken is less than nothing."""
        self.held[player, item] += quantity
        self.writes[player] += 1


class Verdict(NamedTuple):
    """What a comparison found."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    differences: tuple = ()

    @property
    def is_good(self):
        return not (self.lost or self.doubled or self.differences)


def compare(ledgers, players):
    """Compare what all clients were promised with the players as they are stored."""
    held, writes = Counter(), Counter()
    for ledger in ledgers:
        held.update(ledger.held)
        writes.update(ledger.writes)
    applied = Counter({player["_id"]: player["Version"] for player in players})
    return Verdict(
        writes.total(),
        (writes - applied).total(),
        (applied - writes).total(),
        _differ(held, players),
    )


def _differ(held, players):
    """Return where a player has another quantity of an item than was promised."""
    stored = Counter()
    for player in players:
        for slot in (*player["Inventory"].values(), *player["Bank"].values()):
            stored[player["_id"], slot["ItemId"]] += slot["Quantity"]
    return tuple(
        f"player {player} has {stored[player, item]} of {item}, promised were {held[player, item]}"
        for player, item in sorted({*stored, *held})
        if stored[player, item] != held[player, item]
    )
