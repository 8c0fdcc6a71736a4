"""Turns: the threads of a worker change a document one after another.

Without turns, of several threads that read the same version only one could write, and the others
would read again. Other workers and games take no turns: the filter of the write detects those.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock


class _Line:
    """The threads that wait for one document, and the lock that one of them holds."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.length = 0


class Turns:
    """The queues of all documents that threads are about to change."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._lines)

    @contextmanager
    def take(self, document: Hashable, seconds: float) -> Iterator[None]:
        """Wait for a turn for up to some seconds, then continue without one."""
        with self._lock:
            line = self._lines.setdefault(document, _Line())
            line.length += 1
        has_turn = line.lock.acquire(timeout=max(0.0, seconds))
        try:
            yield
        finally:
            if has_turn:
                line.lock.release()
            with self._lock:
                line.length -= 1
                if not line.length:
                    del self._lines[document]
