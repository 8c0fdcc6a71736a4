"""What was promised, and whether the database holds exactly that. Pure.

Every write that is applied counts the player's Version up by one, whoever made it: fewer than were
acknowledged, and one was lost; more, and one was applied twice. Every player must hold as much of
each item as it had at the beginning and was given and taken since, by whom ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """A change of so many items, or one that was refused, and when it was asked and answered."""

    player: str
    item: str
    quantity: int
    began: float
    ended: float


class Ledger:
    """What one client was told, or what a game has done itself."""

    def __init__(self):
        self.held = Counter()
        self.writes = Counter()
        self.changes = []
        self.refused = []

    def promise(self, player, item, quantity, began=0.0, ended=0.0):
        """Note an acknowledged write; what was taken is less than nothing."""
        self.writes[player] += 1
        self.note(player, item, quantity, began, ended)

    def note(self, player, item, quantity, began=0.0, ended=0.0):
        """Note a change that does not count the player's Version up."""
        self.held[player, item] += quantity
        self.changes.append(Entry(player, item, quantity, began, ended))

    def refuse(self, player, item, quantity, began, ended):
        """Note that there was not enough to take."""
        self.refused.append(Entry(player, item, quantity, began, ended))


class Verdict(NamedTuple):
    """What a comparison found."""

    acknowledged: int = 0
    # Writes, by the versions.
    lost: int = 0
    doubled: int = 0
    # Items, by what the players hold.
    missing: int = 0
    invented: int = 0
    # Players.
    wrong_versions: int = 0
    differences: tuple = ()

    @property
    def is_good(self):
        return not any(self[1:])


def compare(ledgers: list[Ledger], former: list[dict], players: list[dict]) -> Verdict:
    """Compare what players had and ledgers say with the players as they are stored."""
    promised, writes = Counter(), Counter()
    for ledger in ledgers:
        promised.update(ledger.held)
        writes.update(ledger.writes)
    before = Counter(_holdings(former))
    promised.update(before)
    applied = Counter({player["_id"]: player["Version"] for player in players})
    applied.subtract({player["_id"]: player["Version"] for player in former})
    stored = Counter(_holdings(players))
    return Verdict(
        writes.total(),
        (writes - applied).total(),
        (applied - writes).total(),
        int((promised - stored).total()),
        int((stored - promised).total()),
        len((writes - applied) + (applied - writes)),
        (*_differ(promised, stored), *_unjust(ledgers, before)),
    )


def _holdings(players: Iterable[dict]) -> Counter:
    """Count what players hold, be their maps missing or their slots incomplete."""
    stored = Counter()
    for player in players:
        for place in ("Inventory", "Bank"):
            for slot in (player.get(place) or {}).values():
                stored[player["_id"], slot.get("ItemId")] += slot.get("Quantity", 0)
    return stored


def _differ(promised, stored):
    """Return where a player has another quantity of an item than was promised."""
    return [
        f"player {player} has {stored[player, item]} of {item}, "
        f"promised were {promised[player, item]}"
        for player, item in sorted({*stored, *promised}, key=str)
        if stored[player, item] != promised[player, item]
    ]


def _unjust(ledgers, before):
    """Return the refusals that were true at no moment, in whatever order things happened.

    The least that there can have been: gifts count when they were acknowledged before it was asked,
    and whatever others took counts though it was taken by the time of the answer at the latest.
    """
    changes = {}
    for entry in (entry for ledger in ledgers for entry in ledger.changes):
        changes.setdefault((entry.player, entry.item), []).append(entry)
    for refusal in (entry for ledger in ledgers for entry in ledger.refused):
        key = refusal.player, refusal.item
        least = before[key]
        for change in changes.get(key, ()):
            if (
                change.ended < refusal.began
                if change.quantity > 0
                else change.began < refusal.ended
            ):
                least += change.quantity
        if least >= refusal.quantity:
            yield f"{refusal.quantity} of {key} were refused, though {least} were there at least"
