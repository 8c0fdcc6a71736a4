"""One split, step by step: what an isolated primary did must count for nothing."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.factories import guid, make_player
from tests.system.chaos import stored
from tests.system.chaos.ledger import Ledger, Verdict, compare
from tests.system.chaos.stored import DATABASE
from tests.system.programs import wait_until

BASE = 100
# Long enough that all is asked while the old primary does not know yet that it is none.
ELECTION_MS = 3000


class Answer(NamedTuple):
    """What a caller was told."""

    status: int
    body: Any
    replayed: bool


class Seen(NamedTuple):
    """All answers, and the players and their history as a majority has them in the end."""

    # By the old side and in haste: 7 more for the first player, 9 for the second, the third's one.
    hasty: list[Answer]
    # By the old side, with patience: 5 more for the first, a repetition, and the third's one.
    gift: Answer
    repeated: Answer
    taken: Answer
    # By the new side: 3 more for the first.
    far: Answer
    players: list[dict]
    verdict: Verdict

    def broken_laws(self):
        """Return a sentence for each law that did not hold."""
        return [
            sentence
            for holds, sentence in (
                *((answer.status == 503, f"a cut off {answer}") for answer in self.hasty),
                *self._gifts(),
                *self._repetition(),
                *self._taking(),
                (self.verdict.is_good, f"players and history are not as told: {self.verdict}"),
            )
            if not holds
        ]

    def _gifts(self):
        """Of three gifts, one was never acknowledged, and counts for nothing."""
        told = [answer.body.get("quantity", answer.body) for answer in (self.far, self.gift)]
        totals = [quantity.get("total") for quantity in told]
        yield totals == [BASE + 3, BASE + 3 + 5], f"the totals that were told are {told}"
        held = self._held(0)
        yield held == BASE + 3 + 5, f"{BASE} + 3 + 5 are {held}"
        yield self._version(0) == 2, f"2 writes made Version {self._version(0)}"

    def _repetition(self):
        """A repetition changes nothing, nor does it bring along what is undone."""
        is_replayed = self.repeated.status == 200 and self.repeated.replayed
        yield is_replayed, f"a repetition was answered {self.repeated}"
        yield self._held(1) == BASE + 1, f"{BASE} + 1 are {self._held(1)}"
        yield self._version(1) == 1, f"1 write and its repetition made Version {self._version(1)}"

    def _taking(self):
        """Nobody took the single one, so whoever asks for it gets it."""
        yield self.taken.status == 200, f"one that is there was refused: {self.taken}"
        yield self._held(2) == 0, f"1 - 1 are {self._held(2)}"

    def _held(self, player):
        return sum(slot["Quantity"] for slot in self.players[player]["Inventory"].values())

    def _version(self, player):
        return self.players[player]["Version"]


class Trial:
    """Three players with a stack of one item: some of it, some, and a single one."""

    def __init__(self, world):
        self._world, self._item, self._key = world, guid(), guid()
        slots = [{"0": {"ItemId": self._item, "Quantity": n}} for n in (BASE, BASE, 1)]
        self._players = [make_player(Inventory=slot) for slot in slots]
        # What was acknowledged, by key: a repetition is the same change.
        self._told = {}
        self._token = world.patient.sign_in()
        with MongoClient(world.replicas.uri, w="majority") as client:
            client[DATABASE].players.insert_many(self._players)

    def run(self):
        """Split the network, ask on both sides, heal it, and return what came of it."""
        world = self._world
        world.replicas.elect_after(ELECTION_MS)
        assert self._until_known(world.patient, 1, "give", 1, self._key).status == 200
        with ThreadPoolExecutor(8) as pool:
            with world.split() as former:
                asked = ((0, "give", 7), (1, "give", 9), (2, "take", 1))
                hasty = list(pool.map(lambda one: self._ask(world.hasty, *one), asked))
                waiting = [
                    pool.submit(self._until_known, world.patient, 0, "give", 5),
                    pool.submit(self._until_known, world.patient, 1, "give", 1, self._key),
                    pool.submit(self._until_known, world.patient, 2, "take", 1),
                ]
                self._wait_for_the_gift(former)
                world.replicas.wait_for_another(former)
                far = self._until_known(world.far, 0, "give", 3)
            answers = [one.result() for one in waiting]
        world.replicas.wait()
        return Seen(hasty, *answers, far, *self._settled())

    def _wait_for_the_gift(self, former):
        """Wait until the isolated primary has the gift, or will never have it."""

        def is_over():
            try:
                with former.client() as client:
                    found = client[DATABASE].players.find_one({"_id": self._players[0]["_id"]})
                return found["Inventory"]["0"]["Quantity"] >= BASE + 7 + 5
            except PyMongoError:
                return not former.is_primary()

        wait_until(lambda: is_over() or not former.is_primary())

    def _ask(self, stack, player, operation, quantity, key=None):
        path = f"/api/v1/players/{self._players[player]['_id']}/items/{operation}"
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency_Key": key or guid()}
        body = {"itemid": self._item, "quantity": quantity}
        status, headers, answer = stack.ask("POST", path, body, timeout=120, **headers)
        return Answer(status, json.loads(answer), "Idempotency-Replayed" in headers)

    def _until_known(self, stack, player, operation, quantity, key=None):
        """Ask with one key again and again, until the answer says what was done."""
        key, deadline = key or guid(), time.monotonic() + 60
        answer = self._ask(stack, player, operation, quantity, key)
        while answer.status == 503 and time.monotonic() < deadline:
            answer = self._ask(stack, player, operation, quantity, key)
        if answer.status == 200:
            self._told[key] = player, quantity if operation == "give" else -quantity
        return answer

    def _settled(self):
        """Return the players in order, and whether all that was told is in them and in history."""
        ids, ledger = [player["_id"] for player in self._players], Ledger()
        for key, (player, quantity) in self._told.items():
            ledger.promise(ids[player], self._item, quantity, key=key)
        found = stored.read(self._world.replicas.uri, {"$in": ids})
        players = sorted(found.players, key=lambda player: ids.index(player["_id"]))
        return players, compare([ledger], self._players, players, found.entries)
