"""The worker thread that takes samples for the plots of the console."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from app.core.metrics import request_totals
from app.game.samples.domain import INTERVAL, Traffic, interval_of
from app.game.samples.store import Samples
from app.history.store import History
from app.players.store import Players
from app.storage.errors import DatabaseError

log = logging.getLogger("quartermaster")

# How often a worker checks whether the database is ready for the first sample.
READY_SECONDS = 1.0
# By then, entries have moved to the collection history, unless the database was unavailable.
MOVED = timedelta(seconds=20)


class Sampler:
    """Counts the answers of its worker, and the players online, once per interval.

    Counts since the last sample are lost when the worker ends; the metrics keep them.
    """

    def __init__(
        self,
        samples: Samples,
        players: Players,
        history: History,
        is_ready: Callable[[], bool],
    ) -> None:
        self._samples = samples
        self._players = players
        self._history = history
        self._is_ready = is_ready
        self._before = Traffic()
        self._ended = threading.Event()

    def begin(self) -> None:
        # A worker inherits the counters of the worker that it replaces.
        self._before = Traffic(*request_totals())
        threading.Thread(target=self._run, name="sampler", daemon=True).start()
        atexit.register(self.end)

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        # Take the first sample as soon as the database is ready, so that plots soon have a point.
        pause = READY_SECONDS
        while not self._ended.wait(pause):
            if not self._is_ready():
                continue
            pause = INTERVAL.total_seconds()
            try:
                self.take()
                pause = self._seconds_left()
            except DatabaseError as error:
                log.warning("No sample was taken: %s", error)
            except Exception:  # the thread must survive: the next try may succeed
                log.exception("No sample was taken.")

    def take(self) -> None:
        """Add the counts since the last sample to the current interval."""
        now, traffic = self._samples.now(), Traffic(*request_totals())
        interval = interval_of(now)
        self._samples.add(interval, self._players.count_online(), traffic.since(self._before))
        self._before = traffic
        self._samples.complete(interval, "Levels", self._players.count_by_level)
        if (following := interval + INTERVAL).minute == 0:
            self._samples.note_active(following, self._players.count_active)
        end = interval_of(now - MOVED)
        begin = end - INTERVAL
        self._samples.complete(begin, "Changes", lambda: self._history.count_changes(begin, end))

    def _seconds_left(self) -> float:
        """Return the seconds until the current interval ends, minus one."""
        now = self._samples.now()
        left = (interval_of(now) + INTERVAL - now).total_seconds()
        # A sample shortly before the end belongs to this interval; later counts go into the next.
        return left - 1 if left > 2 else left + INTERVAL.total_seconds() - 1
