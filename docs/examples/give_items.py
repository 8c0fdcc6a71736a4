"""Give items to the players in a CSV file: each gift once, however often you run this.

    python give_items.py --url https://game.example.com list > players.csv
    python give_items.py --url https://game.example.com give easter-2026.csv

The key comes from the environment variable QUARTERMASTER_KEY, or is asked for. It needs the
permissions players.read and items.move.
"""

import argparse
import csv
import getpass
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

TIMEOUT = (5, 30)  # seconds to connect, and to wait for a response
# Retry if there is no response, and after a 429 or a 503, as Retry-After says; never otherwise.
RETRY = Retry(8, allowed_methods=None, status_forcelist=(429, 503), backoff_factor=0.2)
Gift = dict[str, str]


class Api:
    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.key = key.strip()
        self.http = requests.Session()
        self.http.mount(self.url, HTTPAdapter(max_retries=RETRY))
        self.http.auth = self.authorize  # ~/.netrc would override a plain header

    def authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.key}"
        return request

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        answer = self.http.request(method, self.url + path, timeout=TIMEOUT, **options)
        if answer.status_code == 401:  # every other request would fail too
            raise RuntimeError(f"{message(answer)} The key is unknown, expired or revoked.")
        return answer


def message(answer: requests.Response) -> str:
    try:
        return str(answer.json()["Message"])
    except (ValueError, KeyError, TypeError):  # the response of a proxy
        return f"{answer.status_code} {answer.reason}"


def checked(answer: requests.Response) -> Any:
    if not answer.ok:
        raise RuntimeError(message(answer))
    return answer.json()


def all_players(api: Api) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {"after": "", "pageSize": 100}
    while query["after"] is not None:
        envelope = checked(api.call("GET", "/api/v1/players", params=query))
        yield from envelope["Values"]
        query["after"] = envelope["Next"]


def read_gifts(path: Path) -> list[Gift]:
    """Read the whole file before giving anything, so that nothing is given if a row is invalid."""
    gifts = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in (rows := csv.DictReader(file)):
            gift = {name: (row.get(name) or "").strip() for name in ("player", "item", "quantity")}
            if not all(gift.values()) or not re.fullmatch("[0-9]{1,10}", gift["quantity"]):
                raise ValueError(f"Line {rows.line_num} needs player, item and a whole quantity.")
            gifts.append({**gift, "line": str(rows.line_num)})
    return gifts


def identified(api: Api, gifts: list[Gift], occasion: str) -> list[Gift]:
    """Add to each gift the id of its player, and a key that is the same in every run."""
    found: dict[str, Gift] = {}
    for player in {gift["player"] for gift in gifts}:
        answer = api.call("GET", f"/api/v1/players/{quote(player, safe='')}")
        missing = answer.status_code == 404
        found[player] = {"refusal": message(answer)} if missing else {"id": checked(answer)["Id"]}
    gifts = [{**gift, **found[gift["player"]]} for gift in gifts]
    equals = Counter[str]()
    for gift in gifts:
        whom = gift.get("id", "")
        meaning = "\n".join([occasion, whom, gift["item"], gift["quantity"]]).casefold()
        equals[meaning] += 1
        gift["key"] = hashlib.sha256(f"{meaning}\n{equals[meaning]}".encode()).hexdigest()
    return gifts


def with_progress(gifts: list[Gift]) -> Iterator[Gift]:
    for done, gift in enumerate(gifts, start=1):
        yield gift
        if sys.stderr.isatty():
            bar = f"\r[{'#' * (40 * done // len(gifts)):40}] {done} of {len(gifts)}"
            print(bar, end="\n" if done == len(gifts) else "", file=sys.stderr, flush=True)


def give(api: Api, gifts: list[Gift], reason: str) -> int:
    given, before, refused = 0, 0, []
    try:
        for gift in with_progress(gifts):
            if "refusal" in gift:
                refused.append(f"line {gift['line']}, {gift['player']}: {gift['refusal']}")
                continue
            path = f"/api/v1/players/{gift['id']}/items/give"
            body = {"itemid": gift["item"], "quantity": int(gift["quantity"])}
            headers = {"Idempotency-Key": gift["key"], "X-Reason": reason}
            answer = api.call("POST", path, json=body, headers=headers)
            if not answer.ok:
                refused.append(f"line {gift['line']}, {gift['player']}: {message(answer)}")
            elif "Idempotency-Replayed" in answer.headers:
                before += 1
            else:
                given += 1
    finally:
        print(*refused, f"{given} given, {before} given before, {len(refused)} refused.", sep="\n")
    return 1 if refused else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="write all players as CSV")
    commands.add_parser("give", help="give what a CSV file says").add_argument("file", type=Path)
    options = parser.parse_args()
    try:
        gifts = read_gifts(options.file) if options.command == "give" else []
        api = Api(options.url, os.environ.get("QUARTERMASTER_KEY") or getpass.getpass("Key: "))
        if options.command == "give":
            occasion = options.file.name
            return give(api, identified(api, gifts, occasion), reason=quote(occasion))
        rows = [[p["Id"], p["Name"], p["Level"]] for p in all_players(api)]
        csv.writer(sys.stdout).writerows([["player", "name", "level"], *rows])
    except (
        OSError,
        RuntimeError,
        ValueError,
        csv.Error,
    ) as error:  # exceptions of requests are OSErrors
        sys.exit(f"{error}\nRun it again when that is mended: nothing is given twice.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
