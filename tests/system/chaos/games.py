"""Games that write to the players themselves, beside the service.

The careless one never counts Version up, and leaves a map as null or not at all, or a quantity as a
double. Each of its writes is atomic, and so it knows to the item what it did. The careful one does
as the documentation asks: it filters on Version, and counts it up. Neither leaves an entry in
history, which tells of changes by the service alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from pymongo import MongoClient

from tests.factories import guid
from tests.system.chaos.ledger import Ledger
from tests.system.chaos.service import service
from tests.system.chaos.shared import SharedStorm
from tests.system.chaos.stored import DATABASE

CLIENTS, PACE_SECONDS, PLAYERS = 8, 0.01, 8
# New stacks come into the first slots, moved ones into some more; so there is always a free one.
NEW_SLOTS, ALL_SLOTS = 15, 30
GAME_PACE_SECONDS = 0.002


class Game(threading.Thread):
    """Plays with some players until it is stopped."""

    def __init__(self, uri, players):
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self._client = MongoClient(uri)
        self._players = self._client.get_default_database(DATABASE).players
        self._ids = players
        self._rng = random.Random(self.name)
        self._ending = threading.Event()
        self.item, self.ledger, self.done = guid(), Ledger(), Counter()

    def stop(self):
        self._ending.set()

    def run(self):
        with self._client:
            while not self._ending.wait(GAME_PACE_SECONDS):
                play = self._rng.choice(self.plays)
                self.done[play] += bool(getattr(self, play)(self._rng.choice(self._ids)))

    def _slot(self, slots=ALL_SLOTS):
        return f"Inventory.{self._rng.randrange(slots)}"


class Careless(Game):
    """Writes as if nobody else did; validators do not hold it back."""

    plays = (
        *("put", "put", "put", "drop", "move", "move", "move", "move", "use", "use", "use"),
        *("retype", "retype", "clear", "clear"),
    )

    def put(self, player):
        """Put a new stack into an empty slot, or a new map where there is none."""
        slot, stack = self._slot(NEW_SLOTS), {"ItemId": self.item, "Quantity": 5}
        number = slot.partition(".")[2]
        is_free = {"Inventory": {"$type": "object"}, slot: None}
        if self._write(player, is_free, {"$set": {slot: stack}}):
            return self._note(player, self.item, 5)
        if self._write(player, {"Inventory": None}, {"$set": {"Inventory": {number: stack}}}):
            return self._note(player, self.item, 5)
        return False

    def drop(self, player):
        """Unset a slot, whoever filled it."""
        slot = self._slot()
        before = self._write(player, {slot: {"$type": "object"}}, {"$unset": {slot: ""}})
        return before and self._forget(player, [_at(before, slot)])

    def move(self, player):
        """Move a stack into an empty slot."""
        old, new = self._slot(), self._slot()
        is_free = {old: {"$type": "object"}, new: None}
        return old != new and self._write(player, is_free, {"$rename": {old: new}})

    def use(self, player):
        """Use up one of a stack."""
        slot = self._slot()
        before = self._write(
            player, {f"{slot}.Quantity": {"$gt": 1}}, {"$inc": {f"{slot}.Quantity": -1}}
        )
        return before and self._note(player, _at(before, slot).get("ItemId"), -1)

    def retype(self, player):
        """Store a quantity as a double, which is the same number."""
        slot = f"{self._slot()}.Quantity"
        return self._write(player, {slot: {"$type": "int"}}, {"$mul": {slot: 1.0}})

    def clear(self, player):
        """Replace the whole inventory or bank by null, or drop it."""
        place = self._rng.choice(("Inventory", "Bank"))
        update = self._rng.choice(({"$set": {place: None}}, {"$unset": {place: ""}}))
        before = self._write(player, {place: {"$type": "object"}}, update)
        return before and self._forget(player, before[place].values())

    def _write(self, player, where, update):
        """Return the player as it was, where it was as it is to be."""
        self._began = time.monotonic()
        return self._players.find_one_and_update(
            {"_id": player, **where}, update, ["Inventory", "Bank"], bypassDocumentValidation=True
        )

    def _forget(self, player, stacks):
        for stack in stacks:
            self._note(player, stack.get("ItemId"), -stack.get("Quantity", 0))
        return True

    def _note(self, player, item, quantity):
        self.ledger.note(player, item, quantity, self._began, time.monotonic())
        return True


class Careful(Game):
    """Adds to a stack of its own, takes from it, and moves those of others."""

    plays = ("give", "give", "take", "move")

    def give(self, player):
        return self._add(player, self._rng.randint(1, 9))

    def take(self, player):
        return self._add(player, -1)

    def _add(self, player, quantity):
        slots, version = self._read(player)
        mine = (n for n, slot in slots.items() if slot["ItemId"] == self.item)
        number = next(mine, None) or _free(slots)
        after = slots.get(number, {}).get("Quantity", 0) + quantity
        if after < 1:
            return False
        stack = {"ItemId": self.item, "Quantity": after}
        return self._write(player, version, {f"Inventory.{number}": stack}, {}, quantity)

    def move(self, player):
        slots, version = self._read(player)
        old, new = self._rng.choice(list(slots)), _free(slots)
        filled, emptied = {f"Inventory.{new}": slots[old]}, {f"Inventory.{old}": ""}
        return self._write(player, version, filled, emptied, 0)

    def _read(self, player):
        found = self._players.find_one({"_id": player}, ["Inventory", "Version"])
        return found["Inventory"], found["Version"]

    def _write(self, player, version, filled, emptied, quantity):
        """Change slots unless the player was changed meanwhile, and count the change."""
        began = time.monotonic()
        update = {
            "$set": filled,
            "$inc": {"Version": 1},
            **({"$unset": emptied} if emptied else {}),
        }
        unchanged = {"_id": player, "Version": version}
        if not self._players.update_one(unchanged, update).matched_count:
            return False
        self.ledger.count(player, self.item, quantity, began, time.monotonic())
        return True


def _at(player, slot):
    return player["Inventory"][slot.partition(".")[2]]


def _free(slots):
    return next(str(n) for n in range(ALL_SLOTS) if str(n) not in slots)


def storm(uri, folder, rounds, seconds):
    """Let both games play for some seconds, each with half of the players, beside the clients."""
    with service(folder, workers=2, MONGODB_URI=uri) as served:
        clients = [served] * CLIENTS
        storm = SharedStorm("games beside it", [served], uri, clients, PLAYERS, PACE_SECONDS)
        half = PLAYERS // 2
        storm.beside = [Careless(uri, storm.ids[:half]), Careful(uri, storm.ids[half:])]
        with storm.raging():
            for _ in range(rounds):
                time.sleep(seconds)
                storm.wait_for_progress()
                storm.outcome.faults["games played beside it"] += 1
            dead = [game.name for game in storm.beside if not game.is_alive()]
        storm.outcome.complaints += [f"the {name} game died" for name in dead]
        for game in storm.beside:
            storm.outcome.notes.append(f"the {game.name} game made {game.done.total():,} writes")
            if not game.done:
                storm.outcome.complaints.append(f"the {game.name} game did not play")
    return storm.outcome
