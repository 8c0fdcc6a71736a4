"""The database's clock: the same for all machines, and for a while without a question."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from pymongo.errors import AutoReconnect

from app.auth.guesses import is_failure
from app.core.errors import Forbidden, RateLimited
from app.storage.clock import READ_EVERY_SECONDS, DatabaseClock
from app.storage.limits import MINUTE, Limit, Limits


class Server:
    """Tells a time of its own, as a client would hear it."""

    def __init__(self):
        self.admin = self
        self.told, self.asked, self.is_away = 1000.0, 0, False

    def command(self, _):
        self.asked += 1
        if self.is_away:
            raise AutoReconnect("away")
        return {"localTime": datetime.fromtimestamp(self.told, timezone.utc)}


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def machine(server):
    """A clock on a machine whose own time is set by hand."""
    clock = DatabaseClock(server, lambda: clock.own)
    clock.own = 7.0
    return clock


def test_between_two_readings_time_goes_on(machine, server):
    assert machine.time() == 1000.0
    machine.own += READ_EVERY_SECONDS - 0.5
    assert (machine.time(), server.asked) == (1000.0 + READ_EVERY_SECONDS - 0.5, 1)
    machine.own += 1
    server.told = 2000.0
    assert (machine.time(), server.asked) == (2000.0, 2)


def test_a_primary_that_is_away_is_believed_on(machine, server):
    machine.time()
    server.is_away = True
    machine.own += 100
    assert machine.time() == 1100.0
    assert (machine.time(), server.asked) == (1100.0, 2)


def test_without_any_reading_there_is_no_time(machine, server):
    server.is_away = True
    with pytest.raises(AutoReconnect):
        machine.now()


def test_machines_count_guesses_together_whatever_their_clocks_say(real_storage, real_db):
    """Each machine's own time lies further from the others' than the window is long."""
    machines = [
        Limits(
            *(real_storage, {"account": Limit(3, 10 * MINUTE)}),
            DatabaseClock(real_storage.client, lambda ahead=ahead: time.monotonic() + ahead),
        )
        for ahead in (0, 3600, -3600)
    ]

    def guess(number):
        try:
            with machines[number % 3].use(is_failure, account="x"):
                raise Forbidden("wrong")
        except (Forbidden, RateLimited) as refusal:
            return type(refusal)

    assert [guess(number) for number in range(6)] == [Forbidden] * 3 + [RateLimited] * 3
