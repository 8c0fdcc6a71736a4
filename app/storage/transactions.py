"""Runs a function as one transaction of MongoDB, as often as MongoDB asks for.

Inside, every command of the thread belongs to the transaction, because the collections of the
service add its session (app/storage/commands.py): stores are called as usual, and a function that
is run inside another one joins its transaction. The function reads and decides before its first
write. It may run several times, so whatever is not in the database waits until ``after_commit``.

A refusal commits, too: only then a majority holds what the refusal is based on. A primary that is
cut off by a network split can commit nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import Context, ContextVar
from itertools import islice
from threading import Lock, RLock
from typing import Any, TypeVar

import pymongo
from pymongo import CursorType
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from app.core import metrics
from app.core.errors import Busy, OutcomeUnknown, QuartermasterError, Unavailable
from app.core.limits import wait_deadline
from app.core.types import Document
from app.storage.errors import lacks_sessions

SNAPSHOT, MAJORITY = ReadConcern("snapshot"), WriteConcern("majority")
# Less than the database timeout of a request, so that the last try is not cut short.
PATIENCE_SECONDS = 4.0
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
# Commit and abort are sent even if the time of the request is over: until one of them arrives, the
# documents stay locked.
LAST_SECONDS = 0.5
# A separate generator: using the shared one would disturb code that has seeded it.
_jitter = random.Random()  # nosec B311 # noqa: S311 (nothing secret about a pause)
DUPLICATE_KEY, WRITE_CONFLICT = 11000, 112
# Documents of one turn share a lock, and sometimes others with them.
TURNS = 256
# Only from the second batch on does the server send more of an exhaust cursor unasked.
EXHAUST_BATCHES = 3

Result = TypeVar("Result")


class RunAgain(Exception):
    """Raised by the function of a transaction that has to run once more, without a pause."""


class Transaction:
    """What is known about the transaction of this thread."""

    def __init__(self, session: ClientSession | None = None) -> None:
        self.session = session
        self.has_written = False
        self.after_commit: list[Callable[[], object]] = []


_current: ContextVar[Transaction | None] = ContextVar("transaction", default=None)
current_transaction = _current.get


def after_commit(step: Callable[[], object]) -> None:
    """Take a step when the transaction of this thread has committed; at once if there is none."""
    if transaction := _current.get():
        transaction.after_commit.append(step)
    else:
        step()


class Transactions:
    """The transactions of one database."""

    def __init__(self, db: Database[Document], is_mock: bool) -> None:
        self._db = db
        self._run = self._run_alone if is_mock else self._run_until_deadline
        self._mock_lock = RLock()
        self._turns = [Lock() for _ in range(TURNS)]

    def run(
        self,
        function: Callable[[], Result],
        what: str = "document",
        has_key: bool = False,
        turn: Hashable = None,
    ) -> Result:
        """Return the result of a function that reads and writes at one moment, or not at all.

        ``what`` is changed, for the error when too many change it at once. With an
        Idempotency-Key, a caller can repeat a change whose outcome is unknown. Transactions of this
        process with the same turn run one after another, instead of in conflict.
        """
        if _current.get() is not None:
            return function()
        if turn is None:
            return self._run(function, what, has_key)
        # Without turns, of several threads that read a document only one could write it. Who waits
        # too long goes on without, as other workers and games do.
        lock, deadline = self._turns[hash(turn) % TURNS], wait_deadline(PATIENCE_SECONDS)
        has_turn = lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        try:
            return self._run(function, what, has_key)
        finally:
            if has_turn:
                lock.release()

    def find(self, read: Callable[[], Result | None]) -> Result | None:
        """Return what a plain read finds; only a majority can tell that there is nothing."""
        return read() or self.run(read)

    def holds(self, collection: Collection[Document], where: Document) -> bool:
        """Return whether a majority holds a document that matches."""
        return self.run(lambda: collection.find_one(where, ["_id"]) is not None)

    def _run_until_deadline(
        self, function: Callable[[], Result], what: str, has_key: bool
    ) -> Result:
        deadline, pause = wait_deadline(PATIENCE_SECONDS), FIRST_PAUSE
        while True:
            try:
                return self._try(function, deadline, has_key)
            except RunAgain:
                continue
            except PyMongoError as error:
                # Of a duplicate, somebody has just stored the key or name; the next run finds it.
                is_transient = error.has_error_label("TransientTransactionError")
                if lacks_sessions(error):
                    self._drop_connection()
                elif not (is_transient or is_duplicate(error)):
                    raise
                if time.monotonic() >= deadline or error.timeout:
                    if isinstance(error, OperationFailure) and error.code == WRITE_CONFLICT:
                        raise Busy(what) from error
                    raise
            metrics.TRANSACTION_RETRIES.labels(what).inc()
            time.sleep(_jitter.uniform(0, pause))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _try(self, function: Callable[[], Result], deadline: float, has_key: bool) -> Result:
        with self._db.client.start_session(causal_consistency=False) as session:
            transaction = Transaction(session)
            session.start_transaction(SNAPSHOT, MAJORITY)
            token = _current.set(transaction)
            refusal: QuartermasterError | None = None
            try:
                try:
                    result = function()
                except Unavailable:
                    raise
                except QuartermasterError as error:
                    if transaction.has_written:
                        raise
                    refusal = error
                _commit(session, transaction, deadline, has_key)
            except BaseException:
                _abort(session)
                raise
            finally:
                _current.reset(token)
        if refusal:
            raise refusal
        for step in transaction.after_commit:
            step()
        return result

    def _drop_connection(self) -> None:
        """Close a connection that was opened while its server was neither primary nor secondary.

        The driver believes for ever that it has no sessions, and hands it out again and again. It
        closes the connection of an exhaust cursor that is not read to its end.
        """
        options: Document = {"cursor_type": CursorType.EXHAUST, "batch_size": 1}
        with suppress(PyMongoError), self._db["history"].find(**options) as found:
            list(islice(found, EXHAUST_BATCHES))

    def _run_alone(self, function: Callable[[], Result], *_: Any) -> Result:
        """Run a function on mongomock, which has no transactions, and undo its writes if it fails.

        That proves rules and views, and nothing about what happens at the same time.
        """
        with self._mock_lock:
            names = self._db.list_collection_names()
            before = {name: list(self._db[name].find()) for name in names}
            transaction = Transaction()
            token = _current.set(transaction)
            try:
                result = function()
            except BaseException:
                for name in self._db.list_collection_names():
                    documents = {one["_id"]: one for one in before.get(name, ())}
                    self._db[name].delete_many({"_id": {"$nin": [*documents]}})
                    for id_, document in documents.items():
                        self._db[name].replace_one({"_id": id_}, document, upsert=True)
                raise
            finally:
                _current.reset(token)
        for step in transaction.after_commit:
            step()
        return result


def _commit(
    session: ClientSession, transaction: Transaction, deadline: float, has_key: bool
) -> None:
    while True:
        left = max(LAST_SECONDS, deadline - time.monotonic())
        try:
            return Context().run(_within, left, session.commit_transaction)
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult"):
                raise
            if time.monotonic() >= deadline:
                if transaction.has_written and not has_key:
                    raise OutcomeUnknown from error
                raise
            time.sleep(LONGEST_PAUSE)


def _abort(session: ClientSession) -> None:
    # Inside an expired time limit, it would not be sent. MongoDB has already aborted after most
    # errors, and ends what it hears nothing of.
    if session.in_transaction:
        with suppress(PyMongoError):
            Context().run(_within, LAST_SECONDS, session.abort_transaction)


def _within(seconds: float, step: Callable[[], None]) -> None:
    with pymongo.timeout(seconds):
        step()


def is_duplicate(error: PyMongoError) -> bool:
    """Return whether a unique index has refused a write."""
    if isinstance(error, BulkWriteError):
        return any(fault["code"] == DUPLICATE_KEY for fault in error.details["writeErrors"])
    return isinstance(error, DuplicateKeyError)
