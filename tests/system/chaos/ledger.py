"""What was promised, and whether the database holds exactly that. Pure.

Every write that is applied counts the player's Version up by one, whoever made it: fewer than were
acknowledged, and one was lost; more, and one was applied twice. Every player must hold as much of
each item as it had at the beginning and was given and taken since, by whom ever. History must hold
one entry for each write that the service acknowledged, and none for anything else. Where a client
was never told whether a write was made, history decides, and all the rest must agree with it. A
game that saves whole documents sets versions back and wipes entries that have not moved; its ledger
says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Line(NamedTuple):
    """A change of so many items, or one that was refused, and when it was asked and answered."""

    player: str
    item: str
    quantity: int
    began: float
    ended: float


class Mark(NamedTuple):
    """How the entry of a change is recognised; without a key, equal changes have equal marks."""

    player: str
    item: str
    quantity: int
    operation: str
    key: str | None = None


class Ledger:
    """What one client was told, or what a game has done itself."""

    def __init__(self):
        self.held = Counter()
        self.writes = Counter()
        self.changes = []
        self.refused = []
        # By how much games have counted the Version of players up, or set it back.
        self.versions = Counter()
        # Entries that a game has wiped from a Journal, some of them after they had moved.
        self.forgotten = []
        # Of the changes that have an entry, and of those that may have one.
        self.marks = Counter()
        self.doubts = Counter()

    def promise(self, player, item, quantity, began=0.0, ended=0.0, key=None, operation=None):
        """Note a write that the service acknowledged; what was taken is less than nothing."""
        self.marks[_mark(player, item, quantity, key, operation)] += 1
        self.writes[player] += 1
        self.note(player, item, quantity, began, ended)

    def doubt(self, player, item, quantity, key=None):
        """Note a write of which nobody ever told whether it was made."""
        self.doubts[_mark(player, item, quantity, key)] += 1

    def play(self, player, items, version, began=0.0, ended=0.0):
        """Note a write of a game, by what it did to items and to the player's Version."""
        self.versions[player] += version
        for item, quantity in items.items():
            self.note(player, item, quantity, began, ended)

    def note(self, player, item, quantity, began=0.0, ended=0.0):
        """Note a change of what a player has."""
        self.held[player, item] += quantity
        self.changes.append(Line(player, item, quantity, began, ended))

    def refuse(self, player, item, quantity, began, ended):
        """Note that there was not enough to take."""
        self.refused.append(Line(player, item, quantity, began, ended))


class Verdict(NamedTuple):
    """What a comparison found: numbers of writes, and a sentence for each difference."""

    acknowledged: int = 0
    # By the versions of players.
    lost: int = 0
    doubled: int = 0
    # Writes without an entry in history, and entries of no write.
    unrecorded: int = 0
    unexplained: int = 0
    differences: tuple = ()

    @property
    def is_good(self):
        return not any(self[1:])


def compare(
    ledgers: list[Ledger], former: list[dict], players: list[dict], entries: list[dict]
) -> Verdict:
    """Compare what players had and ledgers say with players and entries as they are stored."""
    overwritten = list(wiped(ledgers, entries))
    entries = [*entries, *overwritten]
    marks, recorded = _sum(ledger.marks for ledger in ledgers), Counter(map(_mark_of, entries))
    surplus, unrecorded = recorded - marks, marks - recorded
    done = surplus & _sum([*(ledger.doubts for ledger in ledgers), _made_again(overwritten)])
    unexplained = surplus - done
    promised, writes = _sum(_books(ledgers, done)), _sum(ledger.writes for ledger in ledgers)
    acknowledged = writes.total()
    writes.update(mark.player for mark in done.elements())
    writes.update(_sum(ledger.versions for ledger in ledgers))
    before, stored = _holdings(former), _holdings(players)
    promised.update(before)
    applied = Counter({player["_id"]: player["Version"] for player in players})
    applied.subtract({player["_id"]: player["Version"] for player in former})
    lost, doubled = (writes - applied).total(), (applied - writes).total()
    missing, strange = unrecorded.total(), unexplained.total()
    differences = (
        *([f"{lost} writes were lost, {doubled} doubled"] if lost or doubled else []),
        *(
            [f"{missing} writes have no entry, {strange} entries no write"]
            if missing or strange
            else []
        ),
        *_differ(promised, stored),
        *_unjust(ledgers, before),
        *(f"there is no entry of {mark}" for mark in unrecorded),
        *(f"an entry tells of {mark}, which nobody was promised" for mark in unexplained),
    )
    return Verdict(acknowledged, lost, doubled, missing, strange, differences)


def _made_again(overwritten: list[dict]) -> Counter:
    """Return the rows of batches that games have wiped, and that were carried out a second time.

    Where others write to its players at the same moment, whoever carries out rows looks for what it
    has written. What a game has wiped by then, it takes for not written yet.
    """
    marks = map(_mark_of, overwritten)
    return Counter(mark for mark in marks if str(mark.key).startswith("batch "))


def wiped(ledgers: list[Ledger], entries: list[dict]) -> Iterator[dict]:
    """Yield the entries that games have wiped before they moved, each once."""
    found = {entry.get("Stamp") for entry in entries}
    for entry in (entry for ledger in ledgers for entry in ledger.forgotten):
        if entry["Stamp"] not in found:
            found.add(entry["Stamp"])
            yield entry


def _sum(counters: Iterable[Counter]) -> Counter:
    """Add counters up, and keep what is less than nothing."""
    total = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _books(ledgers, done):
    """Yield what was given and taken, by ledger, and by those who were never told."""
    yield from (ledger.held for ledger in ledgers)
    for mark, times in done.items():
        yield Counter({(mark.player, mark.item): mark.quantity * times})


def _mark(player, item, quantity, key, operation=None):
    return Mark(player, item, quantity, operation or ("give" if quantity > 0 else "take"), key)


def _mark_of(entry: dict) -> Mark:
    """Return the mark of an entry of history, by what it says was asked, and what came of it."""
    # An undo was asked for by the id of an entry.
    item = entry["Arguments"].get("ItemId") or _item_in(entry["Changes"])
    quantity = sum(
        _quantity(change["After"], item) - _quantity(change["Before"], item)
        for change in entry["Changes"]
    )
    key = entry.get("IdempotencyKey")
    return Mark(entry["Subject"]["Id"], item, quantity, entry["Operation"], key)


def _item_in(changes):
    """Return the item of the first slot that changed, if any is a slot."""
    slots = (change[side] for change in changes for side in ("Before", "After"))
    return next(
        (slot["ItemId"] for slot in slots if isinstance(slot, dict) and "ItemId" in slot), None
    )


def _quantity(value, item):
    """Return how much of an item a slot holds; a change may also be of a whole map of slots."""
    if not isinstance(value, dict):
        return 0
    slots = [value] if "ItemId" in value else value.values()
    return sum(slot.get("Quantity", 0) for slot in slots if slot.get("ItemId") == item)


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
    for line in (line for ledger in ledgers for line in ledger.changes):
        changes.setdefault((line.player, line.item), []).append(line)
    for refusal in (line for ledger in ledgers for line in ledger.refused):
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
