"""The threads of a worker that do something again and again, beside its requests."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pymongo.errors import PyMongoError

from app.core.errors import Unavailable
from app.storage.errors import explain

log = logging.getLogger("quartermaster")

# How long a worker that shuts down waits for what it is doing.
LAST_SECONDS = 2.0


class Background:
    """A thread that takes a step again and again, whenever the database is ready."""

    # What the log says of a failed step, and the seconds between two steps.
    failure = "Work in the background failed"
    pause = 1.0

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.is_ready = is_ready
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def begin(self) -> None:
        self.thread.start()
        atexit.register(self.end)

    def end(self) -> None:
        """Stop before the next step."""
        self.ended.set()
        self.thread.join(LAST_SECONDS)
        atexit.unregister(self.end)

    def step(self) -> float | None:
        """Take a step; return the seconds until the next one, None if they are as usual."""
        raise NotImplementedError

    def _run(self) -> None:
        pause: float | None = None
        while not self.ended.wait(self.pause if pause is None else pause):
            pause = self.attempt(self.step) if self.is_ready() else None

    def attempt(self, step: Callable[[], Any]) -> Any:
        """Take a step, and log its errors: the next try may succeed."""
        try:
            return step()
        except (PyMongoError, Unavailable) as error:
            is_away = isinstance(error, Unavailable) or explain(error)
            level = logging.WARNING if is_away else logging.ERROR
            log.log(level, "%s, will retry: %s", self.failure, error)
        except Exception:
            log.exception("%s, will retry.", self.failure)
        return None


class Chores(Background):
    """Finishes every few seconds, one chore after another, what workers that died left behind."""

    pause = 5.0

    def __init__(
        self, chores: Sequence[Callable[[], object]], is_ready: Callable[[], bool]
    ) -> None:
        super().__init__(is_ready)
        self._chores = chores

    def step(self) -> None:
        for chore in self._chores:
            self.attempt(chore)
