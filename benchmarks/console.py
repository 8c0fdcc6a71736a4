"""The cell for pages of the console: their cost in CPU and in bytes."""

from __future__ import annotations

import gzip
import http.client
import re
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

from app.console.session.sessions import COOKIE
from app.users.oauth.store import RefreshTokens
from benchmarks import worlds
from benchmarks.cells import Cell, lookup, lookups
from benchmarks.meters import Meter, memory_of
from benchmarks.samples import Run, Sample
from benchmarks.servers import Running
from benchmarks.worlds import World

REPEATS = 40
WARM_UP = 5
WORKERS = 2
FILE = re.compile(r'(?:href|src)="(/console/files/[^"]+)"')
MODULE = re.compile(r'from "\./([^"]+)"')


class Page(NamedTuple):
    """The cost of a page: CPU of the worker and of MongoDB, and bytes transferred."""

    path: str
    worker_ms: float
    mongod_ms: float
    median_ms: float
    longest_ms: float
    size: int


def measure_pages(_: Run, round_: int, cell: Cell, served: Running, __: Path) -> Sample:
    """Measure all pages, one request after another; the sample is of the most expensive one."""
    browser = Browser(served, session_of(served.world))
    files = browser.size_of_files()
    pages = [browser.measure(path) for path in paths(served.world)]
    show(pages)
    most = max(pages, key=lambda page: page.worker_ms)
    memory = memory_of(served.workers(WORKERS))
    return Sample(
        *(served.server.name, cell.key, round_, 1000 / most.median_ms, most.median_ms),
        *(most.longest_ms, most.worker_ms, most.mongod_ms, memory.resident, memory.own),
        first_visit=files + max(page.size for page in pages),
    )


def session_of(world: World) -> str:
    """Return the cookie of a session, for an account with all roles."""
    user = world.db["users"].find_one({"Name": worlds.CALLER}) or {}
    tokens = RefreshTokens(world.storage, 3600, 2000)
    issued = tokens.begin_session(user["_id"], user["PasswordVersion"], 24 * 3600, "bench")
    return f"{COOKIE}={issued.token}"


def paths(world: World) -> list[str]:
    player, user = world.read_names[5], world.user_names[5]
    fullest = world.db["players"].find_one({"Bank.90": {"$exists": True}}, ["_id"]) or {}
    return [
        "/console",
        "/console/search?q=ren",
        "/console/suggest?q=ren",
        "/console/suggest/item?q=potion",
        "/console/players",
        "/console/players?sort=level",
        "/console/players?search=ren",
        f"/console/players/{player}",
        f"/console/players/{fullest['_id']}",
        f"/console/players/{player}/history",
        f"/console/players/{player}/notes",
        "/console/users",
        f"/console/users/{user}",
        "/console/game",
        "/console/chat",
        "/console/history",
        f"/console/history?by={worlds.CALLER}",
        "/console/catalogue",
        "/console/health",
    ]


class Browser:
    """Requests pages like a signed-in browser."""

    def __init__(self, served: Running, cookie: str) -> None:
        self._served = served
        self._headers = {"Cookie": cookie}

    def measure(self, path: str) -> Page:
        connection = self._served.connect()
        for _ in range(WARM_UP):
            size = self._get(connection, path)
        workers, mongod = Meter(self._served.workers(WORKERS)), Meter([self._served.world.mongod])
        times = [time.perf_counter()]
        for _ in range(REPEATS):
            self._get(connection, path)
            times.append(time.perf_counter())
        costs = (1000 * meter.seconds() / REPEATS for meter in (workers, mongod))
        connection.close()
        took = [1000 * (end - begun) for begun, end in pairwise(times)]
        return Page(path, *costs, median(took), max(took), size)

    def size_of_files(self) -> int:
        """Return the bytes of the stylesheet, the icon and all modules."""
        connection = self._served.connect()
        connection.request("GET", "/console/sign-in")
        wanted = set(FILE.findall(connection.getresponse().read().decode()))
        size = 0
        seen: set[str] = set()
        while wanted - seen:
            path = (wanted - seen).pop()
            seen.add(path)
            connection.request("GET", path)
            text = connection.getresponse().read().decode()
            if path.endswith(".js"):
                folder = path.rpartition("/")[0]
                wanted |= {f"{folder}/{name}" for name in MODULE.findall(text)}
            size += self._get(connection, path)
        connection.close()
        return size

    def _get(self, connection: http.client.HTTPConnection, path: str) -> int:
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise click.ClickException(f"{path} is answered with {answer.status}.")
        head = sum(len(name) + len(value) + 4 for name, value in answer.getheaders())
        # The proxy compresses it, at the level of config/nginx.conf.
        return head + len(gzip.compress(body, 4))


def show(pages: list[Page]) -> None:
    for page in pages:
        cost = f"{page.worker_ms:>8.1f} ms CPU {page.mongod_ms:>6.1f} of MongoDB"
        click.echo(f"\n  {page.path:<58}{cost} {page.size:>7,} bytes", nl=False, err=True)
    click.echo(err=True)


PAGES = Cell("n", "console, the most expensive page", lookups, lookup, measure=measure_pages)
