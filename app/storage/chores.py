"""The thread of a worker that, every few seconds, finishes what workers that died left behind."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence

from pymongo.errors import PyMongoError

from app.core.errors import Unavailable
from app.storage.errors import explain

log = logging.getLogger("quartermaster")

PAUSE_SECONDS = 5.0


class Chores:
    """The chores of one worker, which run one after another."""

    def __init__(
        self,
        chores: Sequence[Callable[[], object]],
        is_ready: Callable[[], bool],
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._chores = chores
        self._is_ready = is_ready
        self._pause = pause
        self._ended = threading.Event()
        # A separate generator: using the shared one would disturb code that has seeded it.
        self._random = random.Random()  # nosec B311 # noqa: S311 (nothing secret about a pause)

    def begin(self) -> None:
        threading.Thread(target=self._run, name="chores", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        # Jitter, so that the workers do not look at the same time.
        while not self._ended.wait(self._pause * self._random.uniform(0.8, 1.2)):
            if self._is_ready():
                for chore in self._chores:
                    self._attempt(chore)

    @staticmethod
    def _attempt(chore: Callable[[], object]) -> None:
        try:
            chore()
        except (PyMongoError, Unavailable) as error:
            is_away = isinstance(error, Unavailable) or explain(error)
            level = logging.WARNING if is_away else logging.ERROR
            log.log(level, "Work in the background failed, will retry: %s", error)
        except Exception:  # the thread must survive: the next try may succeed
            log.exception("Work in the background failed, will retry.")
