"""Counts and times the commands that pymongo sends, and logs when MongoDB does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pymongo.errors import ConnectionFailure, PyMongoError
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from app.core import metrics
from app.storage.errors import DUPLICATE_KEY, reason

log = logging.getLogger("quartermaster")

REPEAT_SECONDS = 60.0


class Outage(logging.Filter):
    """Logs once a minute that MongoDB does not answer, and once that it does again.

    Meanwhile every request and every thread of a worker logs its own failure, which this filter of
    the log leaves out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began: float | None = None
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        errors = [part for part in record.args or () if isinstance(part, PyMongoError)]
        faults = [one for one in errors if one.timeout or isinstance(one, ConnectionFailure)]
        now = time.monotonic()
        if faults and now >= self._next:
            self._next = now + REPEAT_SECONDS
            if self._began is None:
                self._began = now
            log.warning("MongoDB does not answer: %s.", reason(faults[0]))
        return not faults

    def end(self) -> None:
        """Note that MongoDB has answered."""
        began, self._began = self._began, None
        if began is not None:
            log.warning("MongoDB answers again, after %d s.", time.monotonic() - began)


class CommandMetrics(CommandListener):
    """Updates the metrics of MongoDB commands, by command name and collection."""

    def __init__(self, on_answer: Callable[[], None]) -> None:
        self._on_answer = on_answer
        # The collections of running commands, by request id.
        self._collections: dict[int, str] = {}

    def started(self, event: CommandStartedEvent) -> None:
        command = event.command
        named: object = command.get("collection") or command.get(event.command_name)
        name = named if isinstance(named, str) else event.database_name
        self._collections[event.request_id] = name

    def succeeded(self, event: CommandSucceededEvent) -> None:
        faults = [*event.reply.get("writeErrors", ())]
        if concern := event.reply.get("writeConcernError"):
            faults.append(concern)
        self._ended(event, any(fault.get("code") != DUPLICATE_KEY for fault in faults))

    def failed(self, event: CommandFailedEvent) -> None:
        self._ended(event, event.failure.get("code") != DUPLICATE_KEY)

    def _ended(self, event: CommandSucceededEvent | CommandFailedEvent, has_failed: bool) -> None:
        collection = self._collections.pop(event.request_id, "")
        metrics.operation_observer(event.command_name, collection)(event.duration_micros / 1e6)
        # A duplicate key is not a failure of the database.
        if has_failed:
            metrics.MONGODB_FAILURES.labels(event.command_name, collection).inc()
        else:
            self._on_answer()
