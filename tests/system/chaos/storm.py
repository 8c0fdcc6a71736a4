"""Clients at work while things break, and the account of it afterwards."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from pymongo import MongoClient

from tests.factories import guid, make_player
from tests.system.chaos import stored
from tests.system.chaos.clients import Client, Follower, KeylessClient
from tests.system.chaos.ledger import Verdict, compare
from tests.system.chaos.staff import Batcher, BatchHelper, Clerk
from tests.system.chaos.stored import DATABASE
from tests.system.programs import wait_until

PLAYERS = 24
PLAYERS_OF_A_CLIENT = 8
# Every so many clients, one gives without Idempotency-Keys.
ONE_KEYLESS_OF = 4
# Of clients that share stacks. There is more of the one than all together take: refusing any is a
# lie. The other runs out. Players are few, so that many a change is made to one while a client
# waits to repeat another.
PLENTY, FEW = 100_000, 20
SHARING_PLAYERS, SHARING_PACE_SECONDS = 3, 0.5


@dataclass
class Outcome:
    """What is known when a storm is over."""

    name: str
    faults: Counter = field(default_factory=Counter)
    answers: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    outage: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    complaints: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    # Of the workers, before and after.
    sizes: list = field(default_factory=list)

    @property
    def requests(self):
        return self.answers.total()

    def broken_laws(self):
        """Return a sentence for each law that did not hold."""
        laws = [*self.complaints, *self.verdict.differences]
        if self.answers[500]:
            laws.append(f"{self.answers[500]} answers were 500")
        return laws

    def check(self):
        """Fail where a law did not hold."""
        laws = self.broken_laws()
        assert not laws, f"{self.name}: {len(laws)} broken laws, such as {laws[:5]}"
        return self


class Storm:
    """Some clients that share some players."""

    # Tells whoever watches what has happened.
    say = staticmethod(lambda text: None)
    # Seconds between two requests of a client, and between two writes of a world. Faults last as
    # long as elections and timeouts do, and all the while everybody goes on: in less time, they
    # would do more of the same. make chaos is in more of a hurry.
    pace = 0.2
    # How many clients there are. A fault is over when everybody has been served twice, which on two
    # cores takes the longer the more there are. make chaos has a larger crowd.
    crowd = 4
    # Whether careless games play with the players of the clients: they use up what was given, and
    # where they set a Version back, another change has the id of an entry that they have wiped.
    is_careless = False

    def __init__(self, name, services, uri, clients=None, token=None):
        self.outcome = Outcome(name)
        self._services, self.uri = services, uri
        self.folder = services[0].folder
        # What others do beside the clients, with ledgers of their own.
        self.beside = [Follower(services[0], token)]
        # Whoever is there already has a history that is no matter of this storm.
        self._others = stored.subjects(uri)
        self.players = self._make_players()
        self._insert(self.players)
        self.ids = [player["_id"] for player in self.players]
        self.clients = self._make_clients(clients or self.crowd, token)
        self.clients += self._make_staff(self.ids, token)

    def _make_staff(self, players, token=None):
        """Return one who makes batches, one who helps to carry them out, one at the console."""
        batcher = Batcher(1, self._service_of(0), players, self.pace, token)
        return [
            batcher,
            BatchHelper(batcher, self._service_of(1), self.pace, token),
            Clerk(1, self._service_of(0), _some(players, 0), self.pace, self.is_careless),
        ]

    def _insert(self, players):
        with MongoClient(self.uri, w="majority") as client:
            client.get_default_database(DATABASE).players.insert_many(players)

    def add_players(self, count):
        """Add players that no client has; return their ids."""
        added = [make_player() for _ in range(count)]
        self._insert(added)
        self.players = [*self.players, *added]
        return [player["_id"] for player in added]

    def _make_players(self):
        return [make_player() for _ in range(PLAYERS)]

    def _make_clients(self, clients, token):
        step = PLAYERS // clients or 1
        return [
            _kind(n)(n, self._service_of(n), _some(self.ids, n * step), self.pace, token)
            for n in range(clients)
        ]

    def _service_of(self, number):
        return self._services[number % len(self._services)]

    def inject(self, name, fault, *arguments):
        """Let something break under load, and wait until every client is served again."""
        began = time.monotonic()
        fault(*arguments)
        self.wait_for_progress()
        self.outcome.faults[name] += 1
        waited = time.monotonic() - began
        self.say(f"          {name}; all were served again {waited:.1f} s after it began")

    def count(self, status):
        """Return how many answers of a status there were so far."""
        return sum(client.answers[status] for client in self.clients)

    def wait_for_progress(self):
        """Wait until each has had something confirmed that it has yet to ask for."""
        everybody = [*self.clients, *self.beside]
        enough = [one.confirmed + 2 for one in everybody]
        wait_until(
            lambda: all(
                one.confirmed >= least or not one.is_alive()
                for one, least in zip(everybody, enough, strict=True)
            ),
            seconds=120,
        )

    @contextmanager
    def raging(self):
        everybody = [*self.clients, *self.beside]
        for one in everybody:
            one.start()
        try:
            self.wait_for_progress()
            yield self
        finally:
            for one in everybody:
                one.stop()
            for one in everybody:
                one.join()
            self._settle()

    def _settle(self):
        """Sum up what the clients saw, and compare what they were promised with what is stored."""
        self._sum_up()
        self._compare(self.players, {"$nin": self._others})

    def _sum_up(self):
        outcome = self.outcome
        for client in self.clients:
            outcome.answers.update(client.answers)
            outcome.complaints += client.complaints
            outcome.slowest = max(outcome.slowest, client.slowest)
            outcome.outage = max(outcome.outage, client.outage)
        if any(service.tracebacks() for service in self._services):
            outcome.complaints.append("the service has logged a bug of its own")

    def _compare(self, players, ids):
        """Compare ledgers with what is stored of players; ids is the condition on their ids."""
        found = stored.read(self.uri, ids)
        for one in self.beside:
            one.settle(*found)
            self.outcome.complaints += one.complaints
            self.outcome.notes += one.notes
        ledgers = [one.ledger for one in (*self.clients, *self.beside)]
        self.outcome.verdict = compare(ledgers, players, *found)


def _kind(number):
    return KeylessClient if number % ONE_KEYLESS_OF == ONE_KEYLESS_OF - 1 else Client


def _some(players, start):
    """Return the players of one client; its neighbours have some of them as well."""
    return [players[(start + n) % len(players)] for n in range(PLAYERS_OF_A_CLIENT)]


class SharingClient(Client):
    """Gives and takes what others give and take as well.

    What one of them was not told about may be mistaken for what another one was, so all that counts
    is the sum. Each tells for sure in the end what was done, as it repeats what it does not know.
    """

    # A stack that waits longer for the database than others do is waited for longer.
    latest_seconds = 15.0

    def __init__(self, number, service, players, items, pace, token):
        super().__init__(number, service, players, pace, token)
        self._items = items

    def _act(self, player):
        operation = self._rng.choice(("give", "take"))
        self._write(player, self._rng.choice(self._items), operation, self._rng.randint(1, 9))

    def _refused(self, request, status, body, began):
        path, body_sent = request[1], request[2]
        if status != 409 or not path.endswith("/take"):
            super()._refused(request, status, body, began)
            return
        asked, player = json.loads(body_sent), path.split("/")[4]
        self.ledger.refuse(player, asked["itemid"], asked["quantity"], began, time.monotonic())
        self.confirmed += 1


class SharedStorm(Storm):
    """Some clients at each stack of the service, all with the same players and items.

    At each stack there is one more, without keys. What became of its gifts may never be told, so it
    has an item of its own.
    """

    def __init__(
        self, name, services, uri, clients, players=SHARING_PLAYERS, pace=SHARING_PACE_SECONDS
    ):
        self._count, self._pace = players, pace
        self.items = guid(), guid()
        super().__init__(name, services, uri, clients, services[0].sign_in())

    def _make_players(self):
        slots = {
            str(n): {"ItemId": item, "Quantity": quantity}
            for n, (item, quantity) in enumerate(zip(self.items, (PLENTY, FEW), strict=True))
        }
        return [make_player(Inventory=slots) for _ in range(self._count)]

    def _make_clients(self, clients, token):
        sharing = [
            SharingClient(n, service, self.ids, self.items, self._pace, token)
            for n, service in enumerate(clients)
        ]
        keyless = [
            KeylessClient(len(clients) + n, service, self.ids, self._pace, token)
            for n, service in enumerate(self._services)
        ]
        return [*sharing, *keyless]
