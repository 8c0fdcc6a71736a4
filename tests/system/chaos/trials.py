"""One split, step by step: what an isolated primary did alone must count for nothing.

Each trial asks on the old primary's side while it does not know yet that it is none, heals the
network, and returns a sentence for each law that did not hold.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.factories import guid, make_player
from tests.system.chaos import stored
from tests.system.chaos.ledger import Ledger, compare
from tests.system.chaos.stored import DATABASE
from tests.system.programs import wait_until

BASE = 100
# Long enough that all is asked while the old primary does not know yet that it is none.
ELECTION_MS = 3000
PATIENCE_SECONDS = 60
# How many repeat the same request at once.
REPEATED = 3


class Answer(NamedTuple):
    """What a caller was told."""

    status: int
    body: Any
    is_replayed: bool


class Trial:
    """Somebody who asks the stacks of a world that splits, with one token."""

    def __init__(self, world, players):
        world.replicas.elect_after(ELECTION_MS)
        self._world, self._players = world, players
        self._token = world.patient.sign_in()
        self._client = MongoClient(world.replicas.uri, w="majority", readConcernLevel="majority")
        self._db = self._client[DATABASE]
        self._db.players.insert_many(players)

    def broken_laws(self):
        with self._client:
            return [sentence for holds, sentence in self._laws() if not holds]

    def _ask(self, stack, path, body=None, key=None, method="POST"):
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency_Key": key or guid()}
        path = f"/api/v1{path}"
        status, headers, answer = stack.ask(method, path, body, timeout=120, **headers)
        return Answer(status, json.loads(answer), "Idempotency-Replayed" in headers)

    def _until_known(self, stack, path, body, key=None):
        """Ask with one key again and again, until the answer says what was done."""
        key, deadline = key or guid(), time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._ask(stack, path, body, key)
            # A 503 that no game has looked is an answer.
            is_known = answer.status != 503 or "game" in answer.body["Message"]
            if is_known or time.monotonic() > deadline:
                return answer

    def _wait_for_the_isolated(self, former, holds):
        """Wait until a player at the isolated primary is as it should be, or will never be."""

        def has_it():
            with suppress(PyMongoError), former.client() as client:
                player = client[DATABASE].players.find_one({"_id": self._players[0]["_id"]})
                return player and holds(player)

        wait_until(lambda: has_it() or not former.is_primary())


class SingleTrial(Trial):
    """Three players with a stack of one item: some of it, some, and a single one."""

    def __init__(self, world):
        self._item = guid()
        slots = [{"0": {"ItemId": self._item, "Quantity": n}} for n in (BASE, BASE, 1)]
        super().__init__(world, [make_player(Inventory=slot) for slot in slots])
        # What was acknowledged, by key: a repetition is the same change.
        self._told = {}

    def _laws(self):
        world, key = self._world, guid()
        assert self._move(world.patient, 1, 1, key).status == 200
        with ThreadPoolExecutor(8) as pool:
            with world.split() as former:
                asked = ((0, 7), (1, 9), (2, -1))
                hasty = list(
                    pool.map(lambda one: self._ask(world.hasty, *self._request(*one)), asked)
                )
                waiting = [
                    pool.submit(self._move, world.patient, *one)
                    for one in ((0, 5), (1, 1, key), (2, -1))
                ]
                enough = BASE + 7 + 5
                self._wait_for_the_isolated(
                    former, lambda player: player["Inventory"]["0"]["Quantity"] >= enough
                )
                world.replicas.wait_for_another(former)
                far = self._move(world.far, 0, 3)
            gift, repeated, taken = (one.result() for one in waiting)
        world.replicas.wait()
        yield from ((answer.status == 503, f"a cut off {answer}") for answer in hasty)
        told = [answer.body.get("quantity", {}).get("total") for answer in (far, gift)]
        yield told == [BASE + 3, BASE + 3 + 5], f"the totals that were told are {told}"
        is_right = repeated.status == 200 and repeated.is_replayed
        yield is_right, f"a repetition was answered {repeated}"
        yield taken.status == 200, f"one that is there was refused: {taken}"
        yield from self._settled()

    def _request(self, player, quantity):
        operation = "give" if quantity > 0 else "take"
        path = f"/players/{self._players[player]['_id']}/items/{operation}"
        return path, {"itemid": self._item, "quantity": abs(quantity)}

    def _move(self, stack, player, quantity, key=None):
        """Give or take until it is known what was done."""
        key = key or guid()
        answer = self._until_known(stack, *self._request(player, quantity), key)
        if answer.status == 200:
            self._told[key] = player, quantity
        return answer

    def _settled(self):
        """Yield the laws of what a majority has in the end: all that was told, and nothing else."""
        ids, ledger = [player["_id"] for player in self._players], Ledger()
        for key, (player, quantity) in self._told.items():
            ledger.promise(ids[player], self._item, quantity, key=key)
        found = stored.read(self._world.replicas.uri, {"$in": ids})
        players = sorted(found.players, key=lambda player: ids.index(player["_id"]))
        seen = [(player["Version"], _held(player)) for player in players]
        # Of three gifts to the first, one was never acknowledged. Nobody took the single one.
        right = [(2, BASE + 3 + 5), (1, BASE + 1), (1, 0)]
        yield seen == right, f"versions and quantities are {seen}, not {right}"
        verdict = compare([ledger], self._players, players, found.entries)
        yield verdict.is_good, f"players and history are not as told: {verdict}"


def _held(player):
    return sum(slot["Quantity"] for slot in player["Inventory"].values())


class SpanningTrial(Trial):
    """What spans documents: a deleted player to bring back, one to kick, and a batch to cancel."""

    def __init__(self, world):
        super().__init__(world, [make_player(), make_player()])

    def _laws(self):
        world, (deleted, other) = self._world, self._players
        path = f"/players/{deleted['_id']}"
        assert self._ask(world.patient, path, method="DELETE").status == 200
        history = self._ask(world.patient, f"{path}/history", method="GET").body["Values"]
        row = {"Player": other["_id"], "Operation": "give", "ItemId": guid(), "Quantity": 1}
        batch = self._ask(world.patient, "/batches", {"Name": "trial", "Rows": [row]}).body["Id"]
        self._have_a_game()
        undo = f"/history/{history[0]['Id']}/undo", {}, guid()
        kick = f"/players/{other['_id']}/admin/kick", {}, guid()
        cancel, advance = (
            (f"/batches/{batch}/{verb}", {}, guid()) for verb in ("cancel", "advance")
        )
        with ThreadPoolExecutor(3 * REPEATED) as pool:
            with world.split() as former:
                cut_off = (undo, kick, cancel)
                alone = list(pool.map(lambda asked: self._ask(world.hasty, *asked), cut_off))
                self._wait_for_the_isolated(former, lambda _: True)
                waiting = [
                    [pool.submit(self._until_known, world.patient, *asked) for _ in range(REPEATED)]
                    for asked in (undo, kick, advance)
                ]
                world.replicas.wait_for_another(former)
            undone, kicked, advanced = ([one.result() for one in some] for some in waiting)
        world.replicas.wait()
        yield from ((answer.status == 503, f"a cut off {answer}") for answer in alone)
        # The cancellation was never acknowledged, and so it refuses nothing.
        yield from ((told.status == 200, f"was answered {told}") for told in (*undone, *advanced))
        yield from self._brought_back({"_id": deleted["_id"]})
        for told in kicked:
            yield self._is_there(told), f"an action that nobody took was answered {told}"

    def _have_a_game(self):
        """Let a game have looked for actions, of which it takes none."""
        soon = datetime.now(timezone.utc) + timedelta(seconds=9)
        self._db.games.replace_one({"_id": "trial"}, {"LookedAt": soon}, upsert=True)

    def _brought_back(self, where):
        """The player is back, and in one place, whoever was told of it."""
        wait_until(lambda: not self._db.players.find_one({**where, "RestoredFrom": {"$gt": None}}))
        there, kept = (self._db[name].find_one(where) for name in ("players", "deleted_players"))
        yield (
            there and not kept,
            f"who was brought back is {bool(there)} there, {bool(kept)} deleted",
        )

    def _is_there(self, told):
        """Tell whether the action that was told of is there."""
        is_taken = told.status == 202 and self._db.actions.find_one({"_id": told.body["ActionId"]})
        return is_taken or told.status == 503
