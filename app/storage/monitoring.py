"""Counts and times the commands that pymongo sends."""

from __future__ import annotations

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from app import metrics
from app.storage.errors import DUPLICATE_KEY


class CommandMetrics(CommandListener):
    """Updates the metrics of MongoDB commands, by command name and collection."""

    def __init__(self) -> None:
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
        metrics.record_operation(event.command_name, collection, event.duration_micros / 1e6)
        # A duplicate key is not a failure of the database.
        if has_failed:
            metrics.MONGODB_FAILURES.labels(event.command_name, collection).inc()
