"""A database whose operations are timed.

pymongo's own listeners would see every command, at more than twice the price: it makes two events
and an id for each. What is timed here is a whole operation as its caller waits for it: choosing a
server, waiting for a connection and trying again belong to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
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
from app.storage.bulkhead import run_within_budget
from app.types import Document

Sort = Sequence[tuple[str, int]]


def _timed(
    operation: str, collection: Collection[Document], act: Callable[..., Any], *args: Any, **kw: Any
) -> Any:
    started = perf_counter()
    try:
        return run_within_budget(act, *args, **kw)
    except DuplicateKeyError:  # an answer like any other: this name is taken
        raise
    except PyMongoError:
        metrics.MONGODB_FAILURES.labels(operation, collection.name).inc()
        raise
    finally:
        metrics.operation_ended(operation, collection.name, perf_counter() - started)


def _timed_method(name: str) -> Any:
    plain = getattr(Collection, name)

    @functools.wraps(plain)
    def method(self: Collection[Document], *args: Any, **kw: Any) -> Any:
        return _timed(name, self, plain, self, *args, **kw)

    return method


class TimedCursor(Cursor[Document]):
    """Times every batch, however its reader asks for it: by a loop, next() or to_list()."""

    def _refresh(self) -> int:
        # The one place where pymongo fetches a batch; where there is none to fetch, none is timed.
        if self._data or self._killed:
            return super()._refresh()
        size: int = _timed("find", self.collection, super()._refresh)
        return size


class TimedCollection(Collection[Document]):
    """Times whatever this program does to documents."""

    def find_one(
        self, filter: Any = None, projection: Any = None, sort: Sort = ()
    ) -> Document | None:
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
        return _timed("find", self, self._run, command)

    def _run(self, command: Document) -> list[Document]:
        try:
            cursor = self.database.command(command, codec_options=self.codec_options)["cursor"]
            if not cursor["id"]:
                return cursor["firstBatch"]
            # They are too large for one answer.
            self.database.command("killCursors", self.name, cursors=[cursor["id"]])
        except AutoReconnect as error:
            if error.timeout or isinstance(error, ServerSelectionTimeoutError):
                raise
        # The long way reads on, or chooses the server anew and tries once more.
        plain = Cursor(
            self,
            command["filter"],
            command["projection"] or None,
            skip=command.get("skip", 0),
            limit=command["limit"],
            sort=list(command.get("sort", {}).items()) or None,
        )
        return list(plain.hint(command.get("hint")))

    def find(self, *args: Any, **kw: Any) -> Cursor[Document]:
        return TimedCursor(self, *args, **kw)

    def with_options(self, *args: Any, **kw: Any) -> Any:
        plain = super().with_options(*args, **kw)
        options = plain.codec_options, plain.read_preference, plain.write_concern
        return TimedCollection(self.database, self.name, False, *options, plain.read_concern)

    count_documents = _timed_method("count_documents")
    estimated_document_count = _timed_method("estimated_document_count")
    insert_one = _timed_method("insert_one")
    insert_many = _timed_method("insert_many")
    update_one = _timed_method("update_one")
    replace_one = _timed_method("replace_one")
    find_one_and_update = _timed_method("find_one_and_update")
    delete_many = _timed_method("delete_many")
    bulk_write = _timed_method("bulk_write")


class TimedDatabase(Database[Document]):
    """Gives out timed collections."""

    def __getitem__(self, name: str) -> Collection[Document]:
        return TimedCollection(self, name)
