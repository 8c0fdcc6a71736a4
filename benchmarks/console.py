"""make bench-console: the cost of pages of the console, in CPU and in bytes."""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from typing import NamedTuple

import click

from app.console.session.sessions import COOKIE
from app.oauth.store import RefreshTokens
from benchmarks import worlds
from benchmarks.meters import Meter
from benchmarks.servers import QUARTERMASTER, Running, running
from benchmarks.worlds import World

REPEATS = 40
WARM_UP = 5
# The limits of a page.
MOST_MS, MOST_FIRST, MOST_AFTER = 6.0, 30_000, 10_000
FILE = re.compile(r'(?:href|src)="(/console/files/[^"]+)"')
MODULE = re.compile(r'from "\./([^"]+)"')


class Page(NamedTuple):
    """The cost of a page: CPU of the worker and of MongoDB, and bytes transferred."""

    path: str
    worker_ms: float
    mongod_ms: float
    size: int


@click.command()
@click.option("--players", default=200_000, type=click.IntRange(1000), show_default=True)
@click.option("--data", default=worlds.DATA, type=click.Path(path_type=Path), help="Kept data.")
def main(players: int, data: Path) -> None:
    """Measure the pages of the console on a large world."""
    data.mkdir(parents=True, exist_ok=True)
    with (
        worlds.opened(data, players) as (world,),
        running(QUARTERMASTER, world, world.token(), 1, data) as served,
    ):
        browser = Browser(served, session_of(world))
        files = browser.size_of_files()
        pages = [browser.measure(path) for path in paths(world)]
    show(pages, files)


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
        self._headers = {"Cookie": cookie, "Accept-Encoding": "gzip"}

    def measure(self, path: str) -> Page:
        connection = self._served.connect()
        for _ in range(WARM_UP):
            size = self._get(connection, path)
        worker, mongod = Meter(self._served.workers(1)), Meter([self._served.world.mongod])
        for _ in range(REPEATS):
            self._get(connection, path)
        costs = (1000 * meter.seconds() / REPEATS for meter in (worker, mongod))
        connection.close()
        return Page(path, *costs, size)

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
        return head + len(body)


def show(pages: list[Page], files: int) -> None:
    click.echo(f"{'page':<58} {'worker ms':>10} {'MongoDB ms':>11} {'bytes':>7}")
    for page in pages:
        late = " too slow" if page.worker_ms > MOST_MS else ""
        large = " too large" if page.size > MOST_AFTER else ""
        click.echo(
            f"{page.path:<58} {page.worker_ms:>10.1f} {page.mongod_ms:>11.1f} {page.size:>7,}"
            f"{late}{large}"
        )
    first = files + max(page.size for page in pages)
    click.echo(
        f"Files: {files:,} bytes, once. A first visit sends {first:,} of {MOST_FIRST:,} at most."
    )


if __name__ == "__main__":
    main()
