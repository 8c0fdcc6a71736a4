"""Runs schemathesis against a served Quartermaster, and sums up what it did and what it found.

``python -m tests.system.fuzz 300`` serves a demo world of its own and tries it with up to 300
random requests for each operation, beside those that the document itself suggests.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.http.examples import BATCH, PLAYER
from app.http.openapi.guide import ROLES
from tests import mongod
from tests.factories import add_batch
from tests.game import playing
from tests.ports import free_port
from tests.system.programs import serving

PROGRAM = str(Path(sys.executable).with_name("schemathesis"))
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
# Nobody in the document's examples, so that no request ends the caller's own account.
CALLER = "keeper"
STATEFUL = "stateful"
# Made to guess, a fuzzer would soon be told to wait; and its passwords need not be safe.
SETTINGS = {
    "ACCOUNT_FAILURES": "1000000",
    "ADDRESS_FAILURES": "1000000",
    "ACCESS_TOKEN_SECONDS": "86400",
    "ARGON2_TIME_COST": "1",
    "ARGON2_MEMORY_KIB": "64",
}


class Summary(NamedTuple):
    """How many cases each operation saw, how often each check looked, and what came of it."""

    cases: Counter[str]
    checks: Counter[str]
    statuses: Counter[int]
    findings: list[str]
    # What schemathesis said, which tells how to repeat a finding.
    output: str

    def __str__(self) -> str:
        statuses = ", ".join(f"{count} x {status}" for status, count in self.statuses.most_common())
        lines = [f"{self.cases.total()} cases of {len(self.cases)} operations: {statuses}"]
        lines += [f"{count:>7}  {operation}" for operation, count in sorted(self.cases.items())]
        lines += [f"{self.checks.total()} checks of {len(self.checks)} kinds"]
        lines += [f"{count:>7}  {check}" for check, count in sorted(self.checks.items())]
        return "\n".join([*lines, f"{len(self.findings)} findings", *self.findings])


@contextmanager
def fuzzable(folder, uri, database="fuzz"):
    """Serve a demo world until the block ends, to a caller with all roles, whose token is given.

    A game does what it is asked.
    """
    settings = {**SETTINGS, "LOG_LEVEL": "WARNING"}
    settings |= {"MONGODB_URI": uri, "MONGODB_DATABASE": database}
    with serving(folder, "--demo", **settings) as server, playing(server.db):
        server.add_account(CALLER, *ROLES)
        add_batch(server.db, BATCH, server.db.players.find_one({"Name": PLAYER}))
        yield server


def fuzz(server, examples, folder, seed=None):
    """Try every operation, by chance or, without a seed, the same way every time."""
    chance = ["--generation-deterministic"]
    if seed is not None:
        chance = ["--seed", str(seed), "--generation-database", "none"]
    report = Path(folder) / "fuzz.ndjson"
    arguments = [
        *(PROGRAM, "--config-file", CONFIGURATION, "run", f"{server.base}/api/openapi.json"),
        *("--header", f"Authorization: Bearer {server.token}", "--max-examples", str(examples)),
        *("--report", "ndjson", "--report-ndjson-path", report, "--no-color", *chance),
    ]
    # In that folder, for it may leave notes for its next run.
    done = subprocess.run(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with report.open() as events:
        summary = summed_up(map(json.loads, events), done.stdout.decode())
    if done.returncode and not summary.findings:
        summary.findings.append(f"schemathesis ended with {done.returncode}")
    assert_still_let_in(server)
    return summary


def summed_up(events, output):
    summary = Summary(Counter(), Counter(), Counter(), [], output)
    for event in events:
        if scenario := event.get("ScenarioFinished"):
            add_scenario(summary, scenario["phase"], scenario["recorder"])
        elif fault := event.get("NonFatalError") or event.get("FatalError"):
            summary.findings.append(json.dumps(fault)[:500])
    return summary


def add_scenario(summary, phase, recorded):
    for case in recorded.get("cases", {}).values():
        about = f"{case['value']['method']} {case['value']['path']}"
        # A case of an operation may be one with another method; scenarios mix operations.
        summary.cases[about if phase == STATEFUL else recorded["label"]] += 1
    for made in recorded.get("interactions", {}).values():
        summary.statuses[made["response"]["status_code"] if made.get("response") else 0] += 1
    for check in (check for made in recorded.get("checks", {}).values() for check in made):
        summary.checks[check["name"]] += 1
        if check["status"] != "success":
            failure = check["failure_info"]["failure"]
            text = " ".join(failure["message"].split())
            summary.findings.append(f"{check['name']}: {failure['operation']}: {text}")


def assert_still_let_in(server):
    """Whoever is locked out finds no fault with anything but the lock."""
    assert server.status(f"/api/v1/users/{CALLER}") == 200


def main(examples=300, seed=0):
    """Fuzz a world of its own, print the summary, and return it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mongod.shared(free_port()) as uri,
        fuzzable(folder, uri) as server,
    ):
        summary = fuzz(server, examples, folder, seed)
    print(summary.output if summary.findings else "", summary, sep="\n")
    return summary


if __name__ == "__main__":
    sys.exit(len(main(*map(int, sys.argv[1:])).findings) > 0)
