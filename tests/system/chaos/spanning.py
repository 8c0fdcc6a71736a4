"""One split, step by step, for what spans documents: an undo of a deletion, an action, a batch.

Each is asked for at the old primary, which alone has it, and is asked for again with its key. What
is answered in the end must be so when the network is healed.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.factories import guid, make_player
from tests.system.chaos.stored import DATABASE
from tests.system.chaos.trial import ELECTION_MS
from tests.system.programs import wait_until

REPEATED = 3
JSON_BODY: dict = {}


class Asked(NamedTuple):
    """A request that is sent again with its key until it is answered."""

    path: str
    key: str


class SpanningTrial:
    """A deleted player to bring back, a player to kick, and a batch to cancel and run."""

    def __init__(self, world):
        self._world = world
        self._token = world.patient.sign_in()
        self._client = MongoClient(world.replicas.uri, w="majority", readConcernLevel="majority")
        self._db = self._client[DATABASE]
        self._deleted, self._other = make_player(), make_player()
        self._db.players.insert_many([self._deleted, self._other])

    def broken_laws(self):
        """Split the network, ask on the old side, heal it, and return a sentence for each law."""
        with self._client:
            return list(self._broken_laws())

    def _broken_laws(self):
        world = self._world
        world.replicas.elect_after(ELECTION_MS)
        player = f"/api/v1/players/{self._deleted['_id']}"
        assert self._ask(world.patient, player, method="DELETE")[0] == 200
        history = self._ask(world.patient, f"{player}/history", method="GET")[1]["Values"]
        batch = self._ask(world.patient, "/api/v1/batches", self._rows())[1]["Id"]
        self._have_a_game()
        undo = Asked(f"/api/v1/history/{history[0]['Id']}/undo", guid())
        kick = Asked(f"/api/v1/players/{self._other['_id']}/admin/kick", guid())
        cancel = Asked(f"/api/v1/batches/{batch}/cancel", guid())
        advance = Asked(f"/api/v1/batches/{batch}/advance", guid())
        with ThreadPoolExecutor(3 * REPEATED) as pool:
            with world.split() as former:
                alone = list(pool.map(self._ask_once, (undo, kick, cancel)))
                self._wait_for(former)
                waiting = [
                    pool.submit(self._until_known, asked)
                    for asked in (undo, kick, advance)
                    for _ in range(REPEATED)
                ]
                world.replicas.wait_for_another(former)
            answers = [one.result() for one in waiting]
        world.replicas.wait()
        for status in alone:
            if status != 503:
                yield f"a primary that was cut off answered {status}"
        yield from self._undone(answers[:REPEATED])
        yield from self._kicked(answers[REPEATED : 2 * REPEATED])
        yield from self._advanced(answers[2 * REPEATED :])

    def _rows(self):
        row = {"Player": self._other["_id"], "Operation": "give", "ItemId": guid(), "Quantity": 1}
        return {"Name": "trial", "Rows": [row]}

    def _have_a_game(self):
        """Let a game have looked for actions, of which it takes none."""
        soon = datetime.now(timezone.utc) + timedelta(seconds=9)
        self._db.games.replace_one({"_id": "trial"}, {"LookedAt": soon}, upsert=True)

    def _wait_for(self, former):
        """Wait until the isolated primary has the player alone, or will never have it."""

        def has_it():
            with suppress(PyMongoError), former.client() as client:
                return client[DATABASE].players.find_one({"_id": self._deleted["_id"]})

        wait_until(lambda: has_it() or not former.is_primary())

    def _undone(self, answers):
        """The player is back, and in one place, whoever was told of it."""
        where = {"_id": self._deleted["_id"]}
        wait_until(lambda: not self._db.players.find_one({**where, "RestoredFrom": {"$gt": None}}))
        there, kept = self._db.players.find_one(where), self._db.deleted_players.find_one(where)
        yield from (f"an undo was answered {told}" for told in answers if told[0] != 200)
        if (there is None) == (kept is None):
            yield f"a player that was brought back is in {bool(there) + bool(kept)} places"
        elif there is None:
            yield "a player that was brought back is deleted"

    def _kicked(self, answers):
        """Whatever action was told of is there."""
        for status, body in answers:
            if status == 202 and not self._db.actions.find_one({"_id": body["ActionId"]}):
                yield f"the action {body['ActionId']} of a 202 is not there"
            elif status not in (202, 503):
                yield f"an action that nobody took was answered {status}: {body}"

    def _advanced(self, answers):
        """The cancellation was never acknowledged, and so it refuses nothing."""
        yield from (f"a batch was answered {told}" for told in answers if told[0] != 200)

    def _ask_once(self, asked):
        return self._ask(self._world.hasty, asked.path, JSON_BODY, asked.key)[0]

    def _until_known(self, asked):
        """Ask again and again until the answer says what was done."""
        deadline = time.monotonic() + 60
        while True:
            status, body = self._ask(self._world.patient, asked.path, JSON_BODY, asked.key)
            # A 503 that no game has looked is an answer.
            if status != 503 or "game" in body["Message"] or time.monotonic() > deadline:
                return status, body

    def _ask(self, stack, path, body=None, key=None, method="POST"):
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency_Key": key or guid()}
        status, _, answer = stack.ask(method, path, body, timeout=120, **headers)
        return status, json.loads(answer)
