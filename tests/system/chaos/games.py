"""Games that write to the players themselves, beside the service.

The example world plays in all its forms: careful, as the documentation asks, and careless in each
way. The damaging game never counts Version up either, and leaves a map as null or not at all, or a
quantity as a double. Each of their writes is atomic, and so they know to the item what they did.
None leaves an entry in history, which tells of changes by the service alone.
"""

import random
import threading
import time
from collections import Counter

from pymongo import MongoClient

from tests.factories import guid, make_object
from tests.system.chaos.ledger import Ledger
from tests.system.chaos.service import service
from tests.system.chaos.stored import DATABASE
from tests.system.chaos.storm import SharedStorm
from tests.system.chaos.world import FORMS, ExampleWorld

CLIENTS, PACE_SECONDS, PLAYERS = 8, 0.01, 10
# Writes in a second.
WORLD_PACE = 50
# New stacks come into the first slots, moved ones into some more; so there is always a free one.
NEW_SLOTS, ALL_SLOTS = 15, 30
GAME_PACE_SECONDS = 0.002


class DamagingGame(threading.Thread):
    """Writes as if nobody else did, until it is stopped; validators do not hold it back."""

    plays = (
        *("put", "put", "put", "drop", "move", "move", "move", "move", "use", "use", "use"),
        *("retype", "retype", "clear", "clear"),
    )

    def __init__(self, uri, players):
        super().__init__(name="damaging game", daemon=True)
        self._client = MongoClient(uri)
        self._players = self._client.get_default_database(DATABASE).players
        self._ids = players
        self._rng = random.Random(self.name)
        self._ending = threading.Event()
        self.item, self.ledger, self.done = guid(), Ledger(), Counter()
        self.complaints, self.notes = [], []

    def stop(self):
        self._ending.set()

    @property
    def confirmed(self):
        return self.done.total()

    def settle(self, _players, _entries):
        """Tell what it did; its ledger knows that already."""
        self.notes.append(f"the {self.name} made {self.confirmed:,} writes")
        if not self.confirmed:
            self.complaints.append(f"the {self.name} did not play")

    def run(self):
        with self._client:
            while not self._ending.wait(GAME_PACE_SECONDS):
                play = self._rng.choice(self.plays)
                self.done[play] += bool(getattr(self, play)(self._rng.choice(self._ids)))

    def _slot(self, slots=ALL_SLOTS):
        return f"Inventory.{self._rng.randrange(slots)}"

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


def _at(player, slot):
    return player["Inventory"][slot.partition(".")[2]]


class GamesStorm(SharedStorm):
    """Clients and games share all players."""

    is_careless = True


def storm(uri, folder, rounds, seconds):
    """Let all games play for some seconds, each with some of the players, beside the clients."""
    with service(folder, MONGODB_URI=uri) as served:
        clients = [served] * CLIENTS
        storm = GamesStorm("games beside it", [served], uri, clients, PLAYERS, PACE_SECONDS)
        _add_to_catalogue(uri, storm.items)
        step = PLAYERS // (len(FORMS) + 1)
        shares = [storm.ids[start : start + step] for start in range(0, PLAYERS, step)]
        storm.beside += [
            ExampleWorld(uri, folder, share, form, WORLD_PACE)
            for form, share in zip(FORMS, shares, strict=False)
        ]
        storm.beside.append(DamagingGame(uri, shares[-1]))
        with storm.raging():
            for _ in range(rounds):
                time.sleep(seconds)
                storm.wait_for_progress()
                storm.outcome.faults["games played beside it"] += 1
            dead = [game.name for game in storm.beside if not game.is_alive()]
        storm.outcome.complaints += [f"the {name} died" for name in dead]
    return storm.outcome


def _add_to_catalogue(uri, items):
    """Make the clients' items known, so that the worlds loot, use and trade them."""
    with MongoClient(uri) as client:
        objects = client.get_default_database(DATABASE).objects
        objects.insert_many([make_object(Id=item, Name=item[:8]) for item in items])
