"""Very many requests, after which every worker is to be as it was."""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

import psutil
from pymongo import MongoClient

from benchmarks import load
from benchmarks.load import Request
from tests.factories import guid, make_player
from tests.system.chaos import stored
from tests.system.chaos.service import service
from tests.system.chaos.stored import DATABASE
from tests.system.chaos.storm import Storm
from tests.system.chaos.world import GUARDED, join_in
from tests.system.programs import wait_until

WORKERS, CONNECTIONS, SLICE_SECONDS = 2, 16, 10
WARM_UP = 0.1
# Beside those who keep a ledger: they are few, since they are slow, and share the machine.
CLIENTS = 4
# What memory may differ by without a leak: a tenth, and what threads take at their first work.
GROWTH, GROWTH_MB = 1.1, 4.0
# Connections that a worker's threads may open late; a leak makes thousands of them.
SPARE_FILES = 8 + 2


class Size(NamedTuple):
    """What one worker holds: megabytes of its own, open files, and connections among them."""

    memory: float
    files: int
    connections: int


def soak(uri, folder, requests, progress=lambda done: None):
    """Make so many requests of all kinds, and compare the workers before and after."""
    settings = {"MONGODB_URI": uri, "ACCESS_TOKEN_SECONDS": "86400"}
    with service(folder, workers=WORKERS, **settings) as served:
        # Checking a password takes 19 MB, of which a thread keeps some; once is enough.
        token = served.sign_in()
        soaked = _soaked(uri)
        storm = join_in(Storm("soak", [served], uri, CLIENTS, token), GUARDED)
        file = load.write_requests(folder / "requests.txt", _mixed(soaked))
        warm = _send(storm, served, file, token, requests * WARM_UP, progress)
        before = _sizes(served)
        with storm.raging():
            sent = _send(storm, served, file, token, requests - warm, progress)
        after = _sizes(served)
        storm.outcome.answers[200] += warm + sent
        _compare(storm.outcome, before, after)
        _compare_history(storm.outcome, uri, soaked)
    return storm.outcome


def _send(storm, served, file, token, requests, progress):
    """Let wrk send requests until there were so many; return how many there were."""
    sent = 0
    seconds = 2 if requests < 10_000 else SLICE_SECONDS
    while sent < requests:
        seen = load.run(f"http://127.0.0.1:{served.port}", file, token, seconds, CONNECTIONS)
        if seen.refused or seen.broken:
            storm.outcome.complaints.append(f"{seen.refused} refused, {seen.broken} broken")
        sent += seen.requests
        progress(seen.requests)
    return sent


def _soaked(uri):
    """Add players that nobody keeps a ledger of."""
    players = [make_player(Name=f"Soaked {n:04}") for n in range(400)]
    with MongoClient(uri) as client:
        client.get_default_database(DATABASE).players.insert_many(players)
    return players


def _mixed(players):
    """Return reads and writes of all kinds."""
    variable, mixed = guid(), []
    for n, player in enumerate(players):
        path = f"/api/v1/players/{player['_id']}"
        mixed += [Request("GET", path), Request("GET", f"{path}/items")]
        mixed += [Request("GET", f"/api/v1/players/Soaked%20{n:04}/spells")]
        mixed += [Request("GET", f"/api/v1/players?page={n % 40}&pageSize=10")]
        mixed += [Request("GET", f"/api/v1/players/rank?page={n % 40}")]
        mixed += [Request("GET", "/api/v1/players/online/count"), Request("GET", "/healthz")]
        body = json.dumps({"value": n}).replace(str(n), load.MARK)
        mixed += [Request("POST", f"{path}/variables/{variable}", body)]
    return mixed


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


def _compare_history(outcome, uri, soaked):
    """See that each write of a player made one entry; nobody but the service has written here."""
    found = stored.read(uri, {"$in": [player["_id"] for player in soaked]})
    made = Counter((entry["Subject"]["Id"], entry["Version"]) for entry in found.entries)
    counted = Counter(
        (player["_id"], version)
        for player in found.players
        for version in range(1, player["Version"] + 1)
    )
    if made == counted:
        outcome.notes.append(f"{made.total():,} writes by wrk, each with its entry in history")
    else:
        outcome.complaints.append(
            f"{(counted - made).total()} writes by wrk have no entry in history, "
            f"{(made - counted).total()} entries are of no write"
        )
