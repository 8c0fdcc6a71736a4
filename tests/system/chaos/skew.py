"""Two stacks of the service whose clocks disagree by more than failures are counted for."""

import http.client
from collections import Counter
from contextlib import ExitStack, contextmanager

from config.base import Settings
from tests.factories import guid, sha256
from tests.system.chaos.clock import Clock
from tests.system.chaos.service import service
from tests.system.chaos.shared import SharedStorm
from tests.system.chaos.world import SLOTS, join_in

LIMIT = Settings.ACCOUNT_FAILURES
HOUR = 3600
# By how much the second clock is wrong; each is more than the window over which failures count.
SKEWS = (HOUR, -HOUR, 24 * HOUR)
CLIENTS, PACE_SECONDS = 8, 0.2


@contextmanager
def stacks(uri, folder):
    """Start two stacks, and yield them with the clock of the second."""
    with ExitStack() as ending:
        served = []
        for name in ("true", "wrong"):
            (folder / name).mkdir()
            clock = Clock(folder / name)
            settings = {"MONGODB_URI": uri, "preload": clock.environment}
            options = {"workers": 2, "account": not served, **settings}
            served.append(ending.enter_context(service(folder / name, **options)))
        yield served, clock


def guess(served, tries):
    """Guess the password of one name through all stacks in turn; count the answers."""
    name = f"victim{guid()[:8]}"
    body = {"grant_type": "password", "username": name, "password": sha256("wrong")}
    answers = Counter()
    while answers.total() - answers[503] < tries:
        status = served[answers.total() % len(served)].ask("POST", "/api/oauth/token", body)[0]
        answers[status] += 1
    return answers


def storm(uri, folder, rounds, skews=SKEWS, tries=4 * LIMIT):
    """Set one clock wrong, and guess and give through both stacks."""
    with stacks(uri, folder) as (served, clock):
        clients = [served[n % 2] for n in range(CLIENTS)]
        storm = SharedStorm("skewed clocks", served, uri, clients, players=4, pace=PACE_SECONDS)
        join_in(storm, SLOTS)
        examined = []
        with storm.raging():
            for _ in range(rounds):
                for skew in skews:
                    storm.inject("clocks apart", clock.set, skew)
                    examined.append(_examined(storm, guess(served, tries)))
        storm.outcome.notes.append(
            f"of {tries} wrong passwords through both stacks, at most {max(examined)} were examined"
        )
    return storm.outcome


def _examined(storm, answers):
    """Count the guesses that were looked at, which are answered with 400, and compare."""
    if answers[http.client.BAD_REQUEST] > LIMIT:
        storm.outcome.complaints.append(
            f"{answers[http.client.BAD_REQUEST]} guesses were examined, not {LIMIT}"
        )
    storm.outcome.answers.update(answers)
    return answers[http.client.BAD_REQUEST]
