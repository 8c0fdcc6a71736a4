"""Change many players by a CSV file: plan, review what is refused, run, and undo.

    export QUARTERMASTER_KEY=qm_...
    python run_batch.py --url http://127.0.0.1:8000 plan easter-2026.csv
    python run_batch.py --url http://127.0.0.1:8000 run BATCH
    python run_batch.py --url http://127.0.0.1:8000 undo BATCH

docs/tooling.rst explains it. Copy it and change it; it needs Python 3.10 or newer and requests.
"""

from __future__ import annotations

import argparse
import getpass
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

# A plan of 100,000 rows takes up to a minute.
TIMEOUT = (10, 300)
# Retry if there is no response, and after a 429 or a 503, as Retry-After says; never otherwise.
RETRY = Retry(8, allowed_methods=None, status_forcelist=(429, 503), backoff_factor=0.2)
BATCHES = "/api/v1/batches"
LOOK_SECONDS = 1.0


class Api:
    """A client of the service, authenticated by a key."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.http = requests.Session()
        self.http.headers["Authorization"] = f"Bearer {key}"
        for scheme in ("http://", "https://"):
            self.http.mount(scheme, HTTPAdapter(max_retries=RETRY))

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self.http.request(method, self.url + path, timeout=TIMEOUT, **options)
        if not answer.ok:
            raise RuntimeError(answer.json()["Message"])
        return answer.json()


def plan(api: Api, file: Path) -> str:
    """Plan the rows of a file. For the same file, the service returns the same batch again."""
    rows = file.read_bytes()
    headers = {
        "Content-Type": "text/csv",
        "X-Reason": quote(file.name),
        "Idempotency-Key": hashlib.sha256(rows + file.name.encode()).hexdigest(),
    }
    batch = api.call("POST", BATCHES, params={"name": file.name}, data=rows, headers=headers)
    return str(batch["Id"])


def rows_of(api: Api, batch: str, verdict: str) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {"verdict": verdict, "pageSize": 100}
    while query.get("after", "") is not None:
        page = api.call("GET", f"{BATCHES}/{batch}/rows", params=query)
        yield from page["Values"]
        query["after"] = page["Next"]


def show(api: Api, batch: str) -> int:
    """Print the refused rows and the progress of a batch. Return 1 if a row is refused."""
    for row in rows_of(api, batch, "refused"):
        print(f"row {row['Row']}, {row['Player']}: {row['Why']}")
    now = api.call("GET", f"{BATCHES}/{batch}")
    print(f"{batch} is {now['State']}: {now['Ready']} ready, {now['Done']} done,", end=" ")
    print(f"{now['Refused']} refused.")
    if now["PausedWhy"]:
        print(now["PausedWhy"])
    return 1 if now["Refused"] else 0


def run(api: Api, batch: str) -> bool:
    """Let the service run a batch, and wait until it ends or somebody presses Ctrl-C.

    Return whether it was left to run to its end.
    """
    try:
        state = api.call("POST", f"{BATCHES}/{batch}/run")["State"]
        while state == "running":
            time.sleep(LOOK_SECONDS)
            state = api.call("GET", f"{BATCHES}/{batch}")["State"]
    except KeyboardInterrupt:
        # If the tool is closed in another way, the service continues the batch.
        api.call("POST", f"{BATCHES}/{batch}/pause")
        print("Paused. Run it again to go on: no row is done twice.", file=sys.stderr)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan").add_argument("file", type=Path)
    for name in ("show", "run", "pause", "cancel", "undo"):
        commands.add_parser(name).add_argument("batch")
    args = parser.parse_args()
    key = os.environ.get("QUARTERMASTER_KEY") or getpass.getpass("Key: ")
    api = Api(args.url, key)
    try:
        if args.command == "plan":
            return show(api, plan(api, args.file))
        if args.command == "run" and not run(api, args.batch):
            show(api, args.batch)
            return 130  # the usual exit status after Ctrl-C
        if args.command in ("pause", "cancel"):
            api.call("POST", f"{BATCHES}/{args.batch}/{args.command}")
        elif args.command == "undo":
            args.batch = api.call("POST", f"{BATCHES}/{args.batch}/undo")["Id"]
        return show(api, args.batch)
    except (OSError, RuntimeError) as error:  # exceptions of requests are OSErrors
        sys.exit(f"{error}\nRun it again when that is mended: no row is done twice.")


if __name__ == "__main__":
    sys.exit(main())
