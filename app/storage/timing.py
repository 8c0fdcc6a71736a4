"""A database whose operations are timed, and run within the budget of their request.

pymongo's own command listeners would see every command, at more than twice the price: it makes two
events and an id for each. What is timed here is a whole operation as its caller waits for it,
including server selection, waiting for a connection, and retries.

Operations that requests need are timed. All others, also those that a later pymongo may add, are
refused within a request, so that none bypasses the bulkhead and the time budget.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

from pymongo.collection import Collection
from pymongo.cursor import Cursor
from pymongo.database import Database
from pymongo.errors import (
    AutoReconnect,
    DuplicateKeyError,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from app import metrics
from app.storage.bulkhead import arrival, run_within_budget
from app.types import Document

Sort = Sequence[tuple[str, int]]

TIMED = {
    "bulk_write",
    "count_documents",
    "delete_many",
    "delete_one",
    "distinct",
    "estimated_document_count",
    "find_one_and_delete",
    "find_one_and_replace",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "replace_one",
    "update_many",
    "update_one",
}


# Of the documents that an aggregation may answer.
LARGEST_BATCH = 10_000


class NotWithinRequest(RuntimeError):
    """An operation that neither waits for a slot of the bulkhead nor has a time budget."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} is not available within a request: app/storage/timing.py does not run "
            "it within the time budget."
        )


def _timed(
    operation: str, collection: Collection[Document], act: Callable[..., Any], *args: Any, **kw: Any
) -> Any:
    started = perf_counter()
    try:
        return run_within_budget(act, *args, **kw)
    except DuplicateKeyError:  # The database works; the caller asked for a name that is taken.
        raise
    except PyMongoError:
        metrics.MONGODB_FAILURES.labels(operation, collection.name).inc()
        raise
    finally:
        metrics.operation_ended(operation, collection.name, perf_counter() - started)


def _timed_method(plain: Callable[..., Any]) -> Any:
    name = plain.__name__

    @functools.wraps(plain)
    def method(self: Collection[Document], *args: Any, **kw: Any) -> Any:
        return _timed(name, self, plain, self, *args, **kw)

    return method


def _refused_method(plain: Callable[..., Any]) -> Any:
    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kw: Any) -> Any:
        if arrival() is not None:
            raise NotWithinRequest(plain.__qualname__)
        return plain(self, *args, **kw)

    return method


def _covers_every_operation(kind: type) -> type:
    """Time or refuse each public method of pymongo's class that the class does not define."""
    base = kind.__mro__[1]
    for name in dir(base):
        plain = getattr(base, name)
        if name.startswith("_") or not callable(plain) or name in vars(kind):
            continue
        is_timed = name in TIMED and base is Collection
        setattr(kind, name, _timed_method(plain) if is_timed else _refused_method(plain))
    return kind


class TimedCursor(Cursor[Document]):
    """Times every batch, whether its reader uses a loop, next() or to_list()."""

    def _refresh(self) -> int:
        # The only place where pymongo fetches a batch.
        if self._data or self._killed:
            return super()._refresh()
        size: int = _timed("find", self.collection, super()._refresh)
        return size

    def close(self) -> None:
        if self.cursor_id:  # It is open on the server, and pymongo sends killCursors.
            # Where that fails, or the budget is used up, the server closes it by itself later.
            with suppress(PyMongoError):
                run_within_budget(super().close)
        else:
            super().close()


@_covers_every_operation
class TimedCollection(Collection[Document]):
    """Times the operations on documents."""

    def find_one(
        self, filter: Any = None, projection: Any = None, *args: Any, sort: Any = (), **options: Any
    ) -> Document | None:
        if filter is not None and not isinstance(filter, (dict, Mapping)):
            filter = {"_id": filter}
        if args or options:
            by = list(sort) if sort else None
            return next(self.find(filter, projection, *args, sort=by, **options).limit(-1), None)
        found = self.find_all(filter or {}, projection or {}, sort, 0, 1)
        return found[0] if found else None

    def find_all(
        self, where: Document, fields: Any, sort: Sort, skip: int, limit: int, hint: Any = None
    ) -> list[Document]:
        """Read some documents by a bare command: a cursor for them would cost a third more."""
        named = dict.fromkeys(fields, 1) if isinstance(fields, list) else fields
        command: Document = {"find": self.name, "filter": where, "projection": named}
        command |= {"limit": limit, "batchSize": limit + 1}
        if sort:
            command["sort"] = dict(sort)
        if skip:
            command["skip"] = skip
        if hint:
            command["hint"] = hint
        if self.read_concern.level:
            command["readConcern"] = self.read_concern.document
        return _timed("find", self, self._run, command)

    def _run(self, command: Document) -> list[Document]:
        try:
            answer = Database.command(
                self.database,
                command,
                read_preference=self.read_preference,
                codec_options=self.codec_options,
            )
            cursor = answer["cursor"]
            if not cursor["id"]:
                return cursor["firstBatch"]
            # The documents are too large for one batch. If another secondary gets this command,
            # the cursor stays open until the server times it out.
            Database.command(
                self.database,
                "killCursors",
                self.name,
                read_preference=self.read_preference,
                cursors=[cursor["id"]],
            )
        except AutoReconnect as error:
            if error.timeout or isinstance(error, ServerSelectionTimeoutError):
                raise
        # A cursor reads the further batches, and retries once after a failover.
        plain = Cursor(
            self,
            command["filter"],
            command["projection"] or None,
            skip=command.get("skip", 0),
            limit=command["limit"],
            sort=list(command.get("sort", {}).items()) or None,
        )
        return list(plain.hint(command.get("hint")))

    def aggregate_all(self, stages: Sequence[Document], hint: str) -> list[Document]:
        """Aggregate to a few documents, which fit into one batch."""
        command: Document = {"aggregate": self.name, "pipeline": list(stages), "hint": hint}
        command["cursor"] = {"batchSize": LARGEST_BATCH}
        return _timed("aggregate", self, self._run_aggregation, command)

    def _run_aggregation(self, command: Document) -> list[Document]:
        answer = Database.command(
            self.database,
            command,
            read_preference=self.read_preference,
            codec_options=self.codec_options,
        )
        batch: list[Document] = answer["cursor"]["firstBatch"]
        return batch

    def find(self, *args: Any, **kw: Any) -> Cursor[Document]:
        return TimedCursor(self, *args, **kw)

    def with_options(self, *args: Any, **kw: Any) -> Any:
        return _timed_collection(super().with_options(*args, **kw), self.database)

    def __getitem__(self, name: str) -> Collection[Document]:
        return _timed_collection(super().__getitem__(name), self.database)


def _timed_collection(plain: Collection[Document], database: Database[Document]) -> TimedCollection:
    options = plain.codec_options, plain.read_preference, plain.write_concern, plain.read_concern
    return TimedCollection(database, plain.name, False, *options)


def aggregate(
    collection: Collection[Document], stages: Sequence[Document], hint: str
) -> list[Document]:
    """Aggregate a collection to a few documents; mongomock has no bare commands, and no hints."""
    if isinstance(collection, TimedCollection):
        return collection.aggregate_all(stages, hint)
    return list(collection.aggregate(list(stages)))


@_covers_every_operation
class TimedDatabase(Database[Document]):
    """Hands out timed collections."""

    @classmethod
    def of(cls, plain: Database[Document]) -> TimedDatabase:
        options = plain.codec_options, plain.read_preference
        return cls(plain.client, plain.name, *options, plain.write_concern, plain.read_concern)

    def __getitem__(self, name: str) -> Collection[Document]:
        return TimedCollection(self, name)

    def get_collection(self, *args: Any, **kw: Any) -> Collection[Document]:
        return _timed_collection(super().get_collection(*args, **kw), self)

    def with_options(self, *args: Any, **kw: Any) -> Any:
        return TimedDatabase.of(super().with_options(*args, **kw))

    def command(self, *args: Any, **kw: Any) -> Any:
        return run_within_budget(super().command, *args, **kw)
