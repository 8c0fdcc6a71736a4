"""The thread of a worker that moves entries from Journals to history.

After a short delay, it moves the entries of its own worker, many at once; if a document changes
often, at once. From time to time, it also moves those that others left behind: a killed worker, or
a command. Only the delay until an entry appears in history depends on it: if a Journal is full, the
next writer moves its entries. The thread also runs other chores that finish the work of killed
workers.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import pymongo
from pymongo.errors import PyMongoError

from app import metrics
from app.changes import SubjectKind
from app.storage.client import Storage
from app.storage.errors import explain

log = logging.getLogger("quartermaster")

PAUSE_SECONDS = 0.7
# How often a worker looks for entries that others left behind.
LOOK_SECONDS = 5.0
LEFT_BEHIND = timedelta(seconds=3)
# How long a worker that is stopping may take to move its last entries.
LAST_SECONDS = 1.0


class Mover:
    """Moves the entries of some kinds of documents."""

    def __init__(
        self,
        storage: Storage,
        kinds: Sequence[SubjectKind],
        is_ready: Callable[[], bool],
        chores: Sequence[Callable[[], None]] = (),
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._journals = storage.journals
        self._clock = storage.clock
        self._kinds = kinds
        self._is_ready = is_ready
        self._chores = chores
        self._pause = pause
        self._next_look = 0.0
        self._ended = threading.Event()
        # A separate generator: using the shared one would disturb code that has seeded it.
        self._random = random.Random()  # nosec B311 # noqa: S311 (nothing secret about a pause)

    def begin(self) -> None:
        """Move entries in the background of this process, and the rest when it ends."""
        threading.Thread(target=self._run, name="mover", daemon=True).start()
        atexit.register(self._finish)

    def end(self) -> None:
        """Stop moving in the background."""
        self._ended.set()
        self._journals.is_urgent.set()
        atexit.unregister(self._finish)

    def _finish(self) -> None:
        if self._is_ready():
            with pymongo.timeout(LAST_SECONDS):
                self._try_to_move()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._journals.is_urgent.wait(self._pause)
            self._journals.is_urgent.clear()
            if self._is_ready() and not self._ended.is_set():
                self._try_to_move()

    def _try_to_move(self) -> None:
        self._attempt(self._journals.move_noted)
        if time.monotonic() >= self._next_look:
            self._attempt(self.move_leftovers)
            for chore in self._chores:
                self._attempt(chore)

    @staticmethod
    def _attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except PyMongoError as error:
            # The list of changed documents is lost, but the index finds them later.
            level = logging.WARNING if explain(error) else logging.ERROR
            log.log(level, "Entries could not be moved to history, will retry: %s", error)
        except Exception:  # the thread must survive: the next try may succeed
            log.exception("Entries could not be moved to history, will retry.")

    def move_leftovers(self) -> None:
        """Move entries that are still in Journals, and measure their age."""
        # Jitter, so that the workers do not look at the same time.
        self._next_look = time.monotonic() + LOOK_SECONDS * self._random.uniform(0.8, 1.2)
        for kind in self._kinds:
            oldest = self._journals.oldest(kind)
            age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
            metrics.HISTORY_LAG.labels(kind.collection).set(max(0.0, age))
            if oldest:
                # The worker that wrote newer entries is about to move them.
                self._journals.move_all(kind, self._clock.now() - LEFT_BEHIND)
