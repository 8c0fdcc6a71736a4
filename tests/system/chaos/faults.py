"""The storms: what breaks while clients are at work.

Each takes how often everything is to break, and returns what was seen.
"""

import json
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack, closing
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from app.storage.embedded.supervisor import read_state
from config.base import Settings
from tests.factories import guid, sha256
from tests.system.chaos.machine import Clock, small_disk
from tests.system.chaos.service import service
from tests.system.chaos.storm import SharedStorm, Storm
from tests.system.chaos.world import DOCUMENTS, GUARDED, SLOTS, join_in
from tests.system.programs import wait_until
from tests.system.tcp_proxy import TcpProxy

EMBEDDED = {"ENV": "development", "EMBEDDED_CACHE_GB": "0.25"}
HOUR, DAY = 3600, 24 * 3600
JUMPS = (DAY, -DAY, 30 * DAY, 0)
# By how much one of two clocks is wrong; each is more than the window over which failures count.
SKEWS = (HOUR, -HOUR, DAY)
GUESSES = Settings.ACCOUNT_FAILURES
# MongoDB makes its journal in files of 100 MB, of which it keeps three in stock.
DISK = "800m"
HANG_SECONDS = 30.0
# What a probe may wait on a busy machine, while the database hangs for far longer.
PROBE_SECONDS = 10.0
# The most that work at the database at a time: requests with a place there, runs of batches, which
# have given their places back, and the mover, the sampler and the batches in the background.
BUSY_AT_DATABASE = Settings.THREADS + Settings.THREADS // 4 + 3
# By two more, the driver watches the server. It keeps open what was in use once, so a busy machine,
# where all of them meet, ends with more connections than a quiet one.
CONNECTIONS_OF_A_WORKER = BUSY_AT_DATABASE + 2
# After a timeout the driver replaces connections; the new ones may be there first.
REPLACED_CONNECTIONS = BUSY_AT_DATABASE


def database_away_at_start(served, come):
    """Start the service before its database, and see that it says so, and serves when it comes."""
    served.start()
    for path in ("/readyz", "/api/v1/players/online/count"):
        token = {"Authorization": "Bearer none"}
        status, headers, body = served.ask("GET", path, **token)
        assert status in (401, 503), (path, status, body)
    status, headers, body = served.ask("GET", "/readyz")
    assert (status, headers["Retry-After"].isdigit()) == (503, True)
    assert json.loads(body)["Message"].endswith(".")
    come()
    served.wait_until_ready()


def primary(replicas, served, rounds):
    """The primary is killed, paused and made to step down; then there is none at all."""
    storm = join_in(Storm("primary", [served], replicas.uri), GUARDED)
    with storm.raging():
        for _ in range(rounds):
            storm.inject("primary killed", replicas.kill_primary)
            replicas.wait()
            storm.inject("primary paused", replicas.pause_primary)
            replicas.wait()
            storm.inject("primary stepped down", replicas.step_down)
            replicas.wait()
            storm.inject("no primary", _without_majority, storm, replicas)
            replicas.wait()
    return storm.outcome


def _without_majority(storm, replicas):
    """Pause two of three servers until every client has been refused."""
    followers = replicas.others(replicas.primary())
    refused = {client: client.answers[503] for client in storm.clients}
    for follower in followers:
        follower.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: all(one.answers[503] > before for one, before in refused.items()))
    finally:
        for follower in followers:
            follower.signal(signal.SIGCONT)


def workers(replicas, served, rounds):
    """Workers are killed amid requests, all are replaced, and the whole service is restarted."""
    storm = join_in(Storm("service", [served], replicas.uri), SLOTS)
    with storm.raging():
        for _ in range(rounds):
            storm.inject("worker killed", served.kill_worker)
            storm.inject("reload", served.reload)
            storm.inject("restart", served.restart)
            storm.inject("service killed", served.die_and_start)
    return storm.outcome


def clock(replicas, folder, rounds):
    """The clock of the service jumps, and nothing is to happen: all times are the database's."""
    jumping = Clock(folder)
    settings = {"MONGODB_URI": replicas.uri, "preload": jumping.environment}
    with service(folder, account=False, **settings) as served:
        storm = join_in(Storm("clock", [served], replicas.uri), DOCUMENTS)
        with storm.raging():
            for _ in range(rounds):
                for jump in JUMPS:
                    storm.inject("clock jumped", jumping.set, jump)
                    _see_the_jump(storm, served, jump)
        # Each begins without a token, and asks once more where it got none.
        allowed = sum(1 + client.failed_sign_ins for client in storm.clients)
        if storm.outcome.answers[401] > allowed:
            storm.outcome.complaints.append("a token ran out by the clock of the service")
    return storm.outcome


def _see_the_jump(storm, served, jump):
    _, headers, _ = served.ask("GET", "/healthz")
    shown = parsedate_to_datetime(headers["Date"]).timestamp()
    if abs(shown - time.time() - jump) > DAY / 2:
        storm.outcome.complaints.append(f"the clock of the service did not jump by {jump} seconds")


def skewed_clocks(uri, folder, rounds, skews=SKEWS):
    """One of two stacks has a wrong clock, and the same name is guessed at through both."""
    clock, served = Clock(folder), []
    with ExitStack() as ending:
        for name, preload in (("true", {}), ("wrong", clock.environment)):
            (folder / name).mkdir()
            options = {"account": not served, "preload": preload, "MONGODB_URI": uri}
            served.append(ending.enter_context(service(folder / name, **options)))
        clients = served * (Storm.crowd // 2)
        storm = SharedStorm("skewed clocks", served, uri, clients, players=4, pace=0.2)
        join_in(storm, SLOTS)
        with storm.raging():
            for skew in skews * rounds:
                storm.inject("clocks apart", clock.set, skew)
                _guess(storm, served)
    return storm.outcome


def _guess(storm, served):
    """Guess through all stacks in turn: 400 is a guess that was examined, which few are."""
    name, answers = f"victim{guid()[:8]}", Counter()
    body = {"grant_type": "password", "username": name, "password": sha256("wrong")}
    while answers.total() - answers[503] < 4 * GUESSES:
        status = served[answers.total() % len(served)].ask("POST", "/api/oauth/token", body)[0]
        answers[status] += 1
    if answers[400] > GUESSES:
        storm.outcome.complaints.append(f"{answers[400]} guesses were examined, not {GUESSES}")
    storm.outcome.answers.update(answers)


def embedded(folder, rounds):
    """The embedded server is killed, and so is everything with it."""
    with service(folder, **EMBEDDED) as served:
        storm = join_in(Storm("embedded server", [served], _state(folder)["uri"]), DOCUMENTS)
        with storm.raging():
            for _ in range(rounds):
                storm.inject("embedded server killed", _kill_embedded, folder)
            storm.inject("service killed", served.die_and_start)
    return storm.outcome


def _kill_embedded(folder):
    killed = _state(folder)["pid"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: (_state(folder) or {}).get("pid", killed) != killed)


def _state(folder):
    return read_state(Path(folder) / "mongodb")


def full_disk(folder, rounds):
    """The disk of the embedded server runs full; with room on it, all goes on, restarted or not."""
    with (
        small_disk(folder / "disk", DISK) as disk,
        service(disk.folder, **EMBEDDED) as served,
    ):
        # The ledgers of the worlds are on another disk.
        storm = join_in(Storm("full disk", [served], _state(disk.folder)["uri"]), SLOTS, folder)
        with storm.raging():
            for _ in range(rounds):
                storm.inject("disk full", _fill_and_free, storm, disk)
            storm.inject("restart", served.restart)
        served.stop()
    return storm.outcome


def _fill_and_free(storm, disk):
    """Fill the disk until MongoDB has given up."""
    refused = storm.count(503)
    disk.fill()
    wait_until(lambda: storm.count(503) > refused and not _state(disk.folder))
    disk.free()


def slow_database(uri, folder, rounds, clients=32):
    """MongoDB's answers come too late: requests end in time, and others do not wait for them."""
    with (
        closing(TcpProxy(urlsplit(uri).port)) as proxy,
        service(folder, MONGODB_URI=reached_through(proxy, uri)) as served,
    ):
        storm = join_in(Storm("slow database", [served], uri, clients), GUARDED)
        with storm.raging():
            for _ in range(rounds):
                storm.inject("database hung", _hang, storm, proxy, served)
        most = (CONNECTIONS_OF_A_WORKER + REPLACED_CONNECTIONS) * 2
        if proxy.most > most:
            storm.outcome.complaints.append(f"{proxy.most} connections, more than {most}")
        wait_until(lambda: proxy.open <= CONNECTIONS_OF_A_WORKER * 2)
        storm.outcome.notes.append(f"at most {proxy.most} connections to MongoDB")
    return storm.outcome


def reached_through(proxy, uri):
    """Return the URI of a server behind a proxy."""
    return urlsplit(uri)._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()


def _hang(storm, proxy, served):
    """Let the database hang until every client has been refused, and ask for other things."""
    refused = storm.count(503)
    proxy.delay = HANG_SECONDS
    try:
        while storm.count(503) < refused + len(storm.clients):
            for path in ("/healthz", "/api/docs"):
                began = time.monotonic()
                status = served.status(path)
                waited = time.monotonic() - began
                if status != 200 or waited > PROBE_SECONDS:
                    storm.outcome.complaints.append(f"{path}: {status} after {waited:.1f} seconds")
            time.sleep(0.1)
    finally:
        proxy.delay = 0.0
