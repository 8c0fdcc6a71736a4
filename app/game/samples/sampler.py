"""Takes samples for the plots of the console, as a chore of each worker."""

from __future__ import annotations

import time
from datetime import timedelta

from app.core.metrics import request_totals
from app.game.samples.domain import INTERVAL, Traffic, interval_of
from app.game.samples.store import Samples
from app.history.store import History
from app.players.store import Players

EVERY_SECONDS = 60.0
# By then, the transactions of an interval have ended.
ENDED = timedelta(seconds=20)


class Sampler:
    """Counts the answers of its worker, and the players online, once a minute.

    Counts since the last sample are lost when the worker ends; the metrics keep them.
    """

    def __init__(self, samples: Samples, players: Players, history: History) -> None:
        self._samples, self._players, self._history = samples, players, history
        # A worker inherits the counters of the worker that it replaces.
        self._before = Traffic(*request_totals())
        self._due = 0.0

    def take_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.take()
            self._due = time.monotonic() + EVERY_SECONDS

    def take(self) -> None:
        """Add the counts since the last sample to the current interval."""
        now, traffic = self._samples.now(), Traffic(*request_totals())
        interval = interval_of(now)
        self._samples.add(interval, self._players.count_online(), traffic.since(self._before))
        self._before = traffic
        self._samples.complete(interval, "Levels", self._players.count_by_level)
        if (following := interval + INTERVAL).minute == 0:
            self._samples.note_active(following, self._players.count_active)
        end = interval_of(now - ENDED)
        begin = end - INTERVAL
        self._samples.complete(begin, "Changes", lambda: self._history.count_changes(begin, end))
