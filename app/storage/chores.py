"""The threads of a worker that, every few seconds, do or finish what requests have left to do."""

from __future__ import annotations

import atexit
import logging
import random
import threading
from collections.abc import Callable, Sequence

from pymongo.errors import PyMongoError

from app.core.errors import Unavailable
from app.storage.errors import explain

log = logging.getLogger("quartermaster")

PAUSE_SECONDS = 5.0
# How long a worker that shuts down waits for what it is doing.
LAST_SECONDS = 2.0


class Chores:
    """The chores of one worker, which run one after another.

    A chore that returns True has more to do, and runs again without a pause.
    """

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
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        # A separate generator: using the shared one would disturb code that has seeded it.
        self._random = random.Random()  # nosec B311 # noqa: S311 (nothing secret about a pause)

    def begin(self) -> None:
        self._thread.start()
        atexit.register(self.end)

    def end(self) -> None:
        self._ended.set()
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        has_more = False
        # Jitter, so that the workers do not look at the same time.
        while not self._ended.wait(0 if has_more else self._pause * self._random.uniform(0.8, 1.2)):
            has_more = False
            for chore in self._chores if self._is_ready() else ():
                has_more |= self._attempt(chore) is True

    @staticmethod
    def _attempt(chore: Callable[[], object]) -> object:
        try:
            return chore()
        except (PyMongoError, Unavailable) as error:
            is_away = isinstance(error, Unavailable) or explain(error)
            level = logging.WARNING if is_away else logging.ERROR
            log.log(level, "Work in the background failed, will retry: %s", error)
        except Exception:  # the thread must survive: the next try may succeed
            log.exception("Work in the background failed, will retry.")
        return None
