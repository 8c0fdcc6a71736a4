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
from tests.system.chaos.batches import BATCHES
from tests.system.chaos.service import service
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


def soak(uri, folder, writes, progress=lambda done: None):
    """Make so many writes, and reads between them, and compare the workers before and after."""
    settings = {"MONGODB_URI": uri, "ACCESS_TOKEN_SECONDS": "86400"}
    with service(folder, workers=WORKERS, **settings) as served:
        token = served.sign_in()
        writers = Writers(served, token, uri, writes < SHORT, progress)
        # Each worker has done everything once before it is measured.
        warm_up = _storm(served, uri, token, writers, writes * WARM_UP)
        before = _sizes(served)
        seen = _storm(served, uri, token, writers, writes * (1 - WARM_UP))
        after = _sizes(served)
        _compare(seen, before, after)
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

    def __init__(self, served, token, uri, is_short, progress):
        self._served, self._token, self._uri, self._progress = served, token, uri, progress
        self._seconds = [SHORT_SECONDS] * 2 if is_short else [READ_SECONDS, WRITE_SECONDS]
        self._rows = SHORT_ROWS if is_short else ROWS
        self._singles, self._many = (_add_players(uri, count) for count in (SINGLES, MANY))
        self._item = guid()
        self._reads = self._single_writes = self._batched = self._batches = 0
        # What was under way when wrk stopped may have been made, and was not acknowledged.
        self._unanswered = 0
        self._complaints = []

    @property
    def acknowledged(self):
        return self._single_writes + self._batched

    def write(self, writes):
        """Write until so many more writes were acknowledged."""
        enough = self.acknowledged + writes
        while self.acknowledged < enough:
            former = self.acknowledged
            self._reads += self._send(_reads(self._singles), self._seconds[0])
            self._single_writes += self._send(_writes(self._singles), self._seconds[1])
            self._unanswered += CONNECTIONS
            self._make_batch()
            self._progress(self.acknowledged - former)

    def _send(self, requests, seconds):
        """Let wrk send requests for some seconds; return how many were answered with 200."""
        base = f"http://127.0.0.1:{self._served.port}"
        file = load.write_requests(self._served.folder / "requests.txt", requests)
        seen = load.run(base, file, self._token, seconds, CONNECTIONS)
        if seen.refused or seen.broken:
            self._complaints.append(f"{seen.refused} refused, {seen.broken} broken")
        return seen.served

    def _make_batch(self):
        """Plan a batch and let several carry it out at once."""
        rows = [
            {"Player": player["_id"], "Operation": "give", "ItemId": self._item, "Quantity": 1}
            for player in self._chosen()
        ]
        batch = self._ask(BATCHES, {"Rows": rows})["Id"]
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda _: self._carry_out(batch), range(CALLERS)))
        done = self._ask(f"{BATCHES}/{batch}/advance")["Done"]
        if done != len(rows):
            self._complaints.append(f"of {len(rows)} rows of a batch, {done} were carried out")
        self._batched += done
        self._batches += 1

    def _chosen(self):
        """Return whom the next batch gives to: all in turn."""
        first = self._batches * self._rows
        return [self._many[number % MANY] for number in range(first, first + self._rows)]

    def _carry_out(self, batch):
        while self._ask(f"{BATCHES}/{batch}/advance")["State"] != "done":
            pass

    def _ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency_Key": guid()}
        status, answered, answer = self._served.ask("POST", path, body, BATCH_SECONDS, **headers)
        while status == 503 and "Retry-After" in answered:
            status, answered, answer = self._served.ask(
                "POST", path, body, BATCH_SECONDS, **headers
            )
        assert status == 200, (path, status, answer)
        return json.loads(answer)

    def settle(self, outcome):
        """Add what was written to an outcome, by what players and history hold in the end."""
        singles, many = (_written(self._uri, some) for some in (self._singles, self._many))
        verdict = outcome.verdict
        lost = max(0, self._single_writes - singles.versions)
        lost += max(0, self._batched - many.versions)
        doubled = max(0, singles.versions - self._single_writes - self._unanswered)
        doubled += max(0, many.versions - self._batched)
        items = many.items(self._item)
        outcome.verdict = verdict._replace(
            acknowledged=verdict.acknowledged + self.acknowledged,
            lost=verdict.lost + lost,
            doubled=verdict.doubled + doubled,
            missing=verdict.missing + max(0, self._batched - items),
            invented=verdict.invented + max(0, items - self._batched),
            wrong_versions=verdict.wrong_versions + bool(lost) + bool(doubled),
            unrecorded=verdict.unrecorded + singles.unrecorded + many.unrecorded,
            unexplained=verdict.unexplained + singles.unexplained + many.unexplained,
        )
        if items != self._batched:
            self._complaints.append(f"{self._batched} rows have made {items} items")
        outcome.answers[200] += self._reads + self.acknowledged
        outcome.complaints += self._complaints
        outcome.notes.append(
            f"{self._single_writes:,} single writes by wrk and {self._batched:,} rows of "
            f"{self._batches:,} batches were acknowledged; between them, {self._reads:,} reads"
        )


class Written(NamedTuple):
    """Players as they are in the end, with the numbers of their entries in history."""

    players: list[dict]
    entries: dict[str, int]

    @property
    def versions(self):
        return sum(player["Version"] for player in self.players)

    @property
    def unrecorded(self):
        return sum(max(0, self._surplus(player)) for player in self.players)

    @property
    def unexplained(self):
        return sum(max(0, -self._surplus(player)) for player in self.players)

    def _surplus(self, player):
        """Return how many more writes than entries there are."""
        return player["Version"] - self.entries.get(player["_id"], 0)

    def items(self, item):
        slots = (slot for player in self.players for slot in player["Inventory"].values())
        return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == item)


def _written(uri, players):
    """Count entries once all have moved: a million of them need not be in memory."""
    ids = {"$in": [player["_id"] for player in players]}
    # The id of an entry ends with the Version that it made, so that two of one write are one.
    by_player = {"$group": {"_id": "$Subject.Id", "Entries": {"$sum": 1}}}
    with MongoClient(uri) as client:
        database = client.get_default_database(DATABASE)
        unmoved = {"_id": ids, "Journal.0": {"$exists": True}}
        wait_until(lambda: not database.players.count_documents(unmoved), seconds=120)
        counted = database[HISTORY.name].aggregate([{"$match": {"Subject.Id": ids}}, by_player])
        entries = {found["_id"]: found["Entries"] for found in counted}
        return Written(list(database.players.find({"_id": ids})), entries)


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
        reads += [Request("GET", path), Request("GET", f"{path}/items")]
        reads += [Request("GET", f"/api/v1/players/Soaked%20{SINGLES}%20{n:04}/spells")]
        reads += [Request("GET", f"/api/v1/players?page={n % 40}&pageSize=10")]
        reads += [Request("GET", f"/api/v1/players/rank?page={n % 40}")]
        reads += [Request("GET", f"{path}/history?pageSize=10")]
        reads += [Request("GET", "/api/v1/players/online/count"), Request("GET", "/healthz")]
    return reads


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
    wait_until(lambda: not _clients_of(served))
    return {worker.pid: _size(worker) for worker in served.workers()}


def _clients_of(served):
    return [
        connection
        for worker in served.workers()
        for connection in worker.net_connections("tcp")
        if connection.laddr.port == served.port and connection.status == psutil.CONN_ESTABLISHED
    ]


def _size(worker):
    connections = [c for c in worker.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]
    return Size(worker.memory_full_info().uss / 2**20, worker.num_fds(), len(connections))


def _compare(outcome, before, after):
    if before.keys() != after.keys():
        outcome.complaints.append("a worker died")
    for pid in before.keys() & after.keys():
        then, now = before[pid], after[pid]
        if now.memory > then.memory * GROWTH + GROWTH_MB:
            outcome.complaints.append(f"memory grew from {then.memory:.1f} to {now.memory:.1f} MB")
        if max(now.files - then.files, now.connections - then.connections) > SPARE_FILES:
            outcome.complaints.append(f"files or connections leak: {then}, then {now}")
    outcome.sizes = [(before[pid], after[pid]) for pid in sorted(before.keys() & after.keys())]
