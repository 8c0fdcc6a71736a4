"""Load by wrk: the requests and the results."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

SCRIPT = Path(__file__).with_name("wrk.lua")
CONNECTIONS = 16
# The script replaces this by the number of each request, starting at 100,000,000.
MARK = "#########"


class Request(NamedTuple):
    """A request that wrk and the checks send."""

    method: str
    path: str
    body: str = ""


class Load(NamedTuple):
    """The results of one run of wrk."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    refused: int
    broken: int

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def served(self) -> int:
        return self.requests - self.refused


def require_wrk() -> None:
    if not shutil.which("wrk"):
        raise click.ClickException("wrk is not installed; on Debian and Ubuntu: apt install wrk.")


def write_requests(path: Path, requests: Sequence[Request]) -> Path:
    lines = ("\t".join(request) + "\n" for request in requests)
    path.write_text("".join(lines))
    return path


def run(base: str, file: Path, token: str, seconds: float, connections: int = CONNECTIONS) -> Load:
    """Send the requests of a file for some seconds.

    One thread of wrk is faster than any of these servers, and sends the requests in order.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout=10s"]
    command += ["--latency", "-s", str(SCRIPT), base, "--", str(file), token]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    report = [line for line in result.stdout.splitlines() if line.startswith("WRK ")]
    if result.returncode or not report:
        raise click.ClickException(f"wrk failed: {result.stderr or result.stdout}")
    return Load(**json.loads(report[0].removeprefix("WRK ")))
