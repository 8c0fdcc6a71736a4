"""Very many writes, after which every worker is as it was, and every write is in history.

Half of the load is single writes by wrk, and half are batches. The players that they change are
those of nobody else, so that their Versions and their entries must be as many as writes were made.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import psutil
from pymongo import MongoClient

from app.storage.journal import HISTORY
from benchmarks import load
from benchmarks.load import Request
from tests.factories import guid, make_player
from tests.system.chaos.service import service
from tests.system.chaos.staff import BATCHES
from tests.system.chaos.stored import DATABASE
from tests.system.chaos.storm import Storm
from tests.system.chaos.world import GUARDED, join_in
from tests.system.programs import wait_until

WORKERS, CONNECTIONS = 2, 16
WARM_UP = 0.1
# Beside those who keep a ledger: they are few, since they are slow, and share the machine.
CLIENTS = 4
SINGLES, MANY = 400, 4000
# In turns: reads for some seconds, single writes for some more, and a batch of so many rows.
READ_SECONDS, WRITE_SECONDS, ROWS, CALLERS = 5, 20, 20_000, 2
# Of a short soak.
SHORT, SHORT_SECONDS, SHORT_ROWS = 10_000, 1, 200
BATCH_SECONDS = 120
# What memory may differ by without a leak: a tenth, and what threads take at their first work and
# a worker at its first large plan. A leak of 20 bytes for each write of make chaos is more.
GROWTH, GROWTH_MB = 1.1, 12.0
# Connections that a worker's threads may open late; a leak makes thousands of them.
SPARE_FILES = 8 + 2


class Size(NamedTuple):
    """What one worker holds: megabytes of its own, open files, and connections among them."""

    memory: float
    files: int
    connections: int


def soak(uri, folder, writes):
    """Make so many writes, and reads between them, and compare the workers before and after."""
    settings = {"MONGODB_URI": uri, "ACCESS_TOKEN_SECONDS": "86400"}
    with service(folder, workers=WORKERS, **settings) as served:
        token = served.sign_in()
        writers = Writers(served, token, uri, writes < SHORT)
        # Each worker has done everything once before it is measured.
        warm_up = _storm(served, uri, token, writers, writes * WARM_UP)
        before = _sizes(served)
        seen = _storm(served, uri, token, writers, writes * (1 - WARM_UP))
        _compare(seen, before, _sizes(served))
        seen.complaints += warm_up.broken_laws()
        writers.settle(seen)
    return seen


def _storm(served, uri, token, writers, writes):
    """Let writers write while clients keep their ledgers; return what these say."""
    storm = join_in(Storm("soak", [served], uri, CLIENTS, token), GUARDED)
    with storm.raging():
        writers.write(writes)
    return storm.outcome


class Writers:
    """wrk and batches, and how many of their writes were acknowledged."""

    def __init__(self, served, token, uri, is_short):
        self._served, self._token, self._uri = served, token, uri
        self._seconds = [SHORT_SECONDS] * 2 if is_short else [READ_SECONDS, WRITE_SECONDS]
        self._rows = SHORT_ROWS if is_short else ROWS
        self._singles, self._many = (_add_players(uri, count) for count in (SINGLES, MANY))
        self._item = guid()
        self._reads = self._single_writes = self._batched = self._batches = 0
        self._complaints = []

    @property
    def acknowledged(self):
        return self._single_writes + self._batched

    def write(self, writes):
        """Write until so many more writes were acknowledged."""
        enough = self.acknowledged + writes
        while self.acknowledged < enough:
            self._reads += self._send(_reads(self._singles), self._seconds[0])
            self._single_writes += self._send(_writes(self._singles), self._seconds[1])
            self._make_batch()
            Storm.say(f"          {self.acknowledged:,} writes of {enough:,.0f}")

    def _send(self, requests, seconds):
        """Let wrk send requests for some seconds; return how many were answered with 200."""
        base = f"http://127.0.0.1:{self._served.port}"
        file = load.write_requests(self._served.folder / "requests.txt", requests)
        seen = load.run(base, file, self._token, seconds, CONNECTIONS)
        if seen.refused or seen.broken:
            self._complaints.append(f"{seen.refused} refused, {seen.broken} broken")
        return seen.served

    def _make_batch(self):
        """Plan a batch for the next players in turn, and let several carry it out at once."""
        first = self._batches * self._rows
        chosen = [self._many[n % MANY]["_id"] for n in range(first, first + self._rows)]
        gift = {"Operation": "give", "ItemId": self._item, "Quantity": 1}
        batch = self._ask(BATCHES, {"Rows": [{"Player": player, **gift} for player in chosen]})[
            "Id"
        ]
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda _: self._carry_out(batch), range(CALLERS)))
        done = self._ask(f"{BATCHES}/{batch}/advance")["Done"]
        if done != len(chosen):
            self._complaints.append(f"of {len(chosen)} rows of a batch, {done} were carried out")
        self._batched += done
        self._batches += 1

    def _carry_out(self, batch):
        while self._ask(f"{BATCHES}/{batch}/advance")["State"] != "done":
            pass

    def _ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency_Key": guid()}
        status = 503
        while status == 503:
            status, _, answer = self._served.ask("POST", path, body, BATCH_SECONDS, **headers)
        assert status == 200, (path, status, answer)
        return json.loads(answer)

    def settle(self, outcome):
        """Add what was written to an outcome, by what players and history hold in the end."""
        # What was under way when wrk stopped may have been made, and was not acknowledged.
        doubts = CONNECTIONS * self._batches
        versions = _versions(self._uri, self._singles, self._complaints)
        if not 0 <= versions - self._single_writes <= doubts:
            self._complaints.append(f"{self._single_writes} single writes made {versions} versions")
        versions = _versions(self._uri, self._many, self._complaints)
        items = _items(self._uri, self._many, self._item)
        if not versions == items == self._batched:
            rows = f"{self._batched} rows of batches"
            self._complaints.append(f"{rows} made {versions} versions and {items} items")
        acknowledged = outcome.verdict.acknowledged + self.acknowledged
        outcome.verdict = outcome.verdict._replace(acknowledged=acknowledged)
        outcome.answers[200] += self._reads + self.acknowledged
        outcome.complaints += self._complaints
        outcome.notes.append(
            f"{self._single_writes:,} single writes by wrk and {self._batched:,} rows of "
            f"{self._batches:,} batches were acknowledged; between them, {self._reads:,} reads"
        )


def _versions(uri, players, complaints):
    """Sum the versions of players up; complain unless history has an entry for each of them."""
    ids = {"$in": [player["_id"] for player in players]}
    # The id of an entry ends with the Version that it made, so that two of one write are one.
    by_player = {"$group": {"_id": "$Subject.Id", "Entries": {"$sum": 1}}}
    with MongoClient(uri) as client:
        database = client.get_default_database(DATABASE)
        unmoved = {"_id": ids, "Journal.0": {"$exists": True}}
        wait_until(lambda: not database.players.count_documents(unmoved), seconds=120)
        # A million of entries need not be in memory.
        counted = database[HISTORY.name].aggregate([{"$match": {"Subject.Id": ids}}, by_player])
        entries = {found["_id"]: found["Entries"] for found in counted}
        found = list(database.players.find({"_id": ids}, ["Version"]))
    wrong = [one for one in found if one["Version"] != entries.get(one["_id"], 0)]
    if wrong:
        complaints.append(f"{len(wrong)} players have not as many entries as versions")
    return sum(player["Version"] for player in found)


def _items(uri, players, item):
    """Count how many of an item players hold."""
    with MongoClient(uri) as client:
        found = client.get_default_database(DATABASE).players.find(
            {"_id": {"$in": [player["_id"] for player in players]}}, ["Inventory"]
        )
        slots = [slot for player in found for slot in player["Inventory"].values()]
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == item)


def _add_players(uri, count):
    """Add players that nobody keeps a ledger of."""
    players = [make_player(Name=f"Soaked {count} {n:04}") for n in range(count)]
    with MongoClient(uri) as client:
        client.get_default_database(DATABASE).players.insert_many(players)
    return players


def _reads(players):
    """Return reads of all kinds."""
    reads = []
    for n, player in enumerate(players):
        path = f"/api/v1/players/{player['_id']}"
        reads += [path, f"{path}/items", f"{path}/history?pageSize=10"]
        reads += [f"/api/v1/players/Soaked%20{SINGLES}%20{n:04}/spells"]
        reads += [
            f"/api/v1/players?page={n % 40}&pageSize=10",
            f"/api/v1/players/rank?page={n % 40}",
        ]
        reads += ["/api/v1/players/online/count", "/healthz"]
    return [Request("GET", path) for path in reads]


def _writes(players):
    """Return writes, each of which changes something: wrk begins to count anew in each run."""
    variable = guid()
    body = json.dumps({"value": 0}).replace("0", load.MARK)
    return [
        Request("POST", f"/api/v1/players/{player['_id']}/variables/{variable}", body)
        for player in players
    ]


def _sizes(served):
    """Measure the workers when nobody is connected to them any more."""
    wait_until(lambda: not any(c.laddr.port == served.port for c in _connections(served)))
    return {worker.pid: _size(worker) for worker in served.workers()}


def _connections(served):
    return [connection for worker in served.workers() for connection in _established(worker)]


def _established(worker):
    return [c for c in worker.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]


def _size(worker):
    memory = worker.memory_full_info().uss / 2**20
    return Size(memory, worker.num_fds(), len(_established(worker)))


def _compare(outcome, before, after):
    if before.keys() != after.keys():
        outcome.complaints.append("a worker died")
    outcome.sizes = [(before[pid], after[pid]) for pid in sorted(before.keys() & after.keys())]
    for then, now in outcome.sizes:
        if now.memory > then.memory * GROWTH + GROWTH_MB:
            outcome.complaints.append(f"memory grew from {then.memory:.1f} to {now.memory:.1f} MB")
        if max(now.files - then.files, now.connections - then.connections) > SPARE_FILES:
            outcome.complaints.append(f"files or connections leak: {then}, then {now}")
