"""Prepares the database in the background of a worker, and decides if the worker is ready."""

from __future__ import annotations

import logging
import mmap
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pymongo.errors import (
    ConnectionFailure,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
)

from app.core import metrics
from app.core.errors import Unavailable
from app.storage.client import Storage
from app.storage.errors import explain, is_forbidden
from app.storage.schema import migrations
from app.storage.schema.collections import Plans, init_database
from app.storage.schema.upgrade import UnfitDatabase

log = logging.getLogger("quartermaster")

# How often a worker tries to prepare its database, and then looks whether a restore has begun.
PAUSE_SECONDS = 1.0
# Many times longer than detecting that a database is already prepared.
FIRST_TRY_SECONDS = 2.0
NOT_YET = "The database is not prepared yet."
NOT_PREPARED = "The database could not be prepared; the log says why."
NEEDS_DB_INIT = (
    "The database is older than this program, whose account may not migrate it: run quartermaster "
    "db init with another account."
)

# A byte of shared memory, set once any worker of this master was ready; None in other programs.
_was_ready: mmap.mmap | None = None


def share_readiness() -> None:
    """Share with the workers that this process forks whether one of them was ever ready.

    During a rolling upgrade, the new release migrates the database while the old one keeps serving.
    A worker that the old master forks meanwhile must serve, too: it runs the same code as its other
    workers. But a master that starts on a newer database must not serve.
    """
    global _was_ready
    _was_ready = mmap.mmap(-1, 1)


def note_ready() -> None:
    if _was_ready is not None:
        _was_ready[0] = 1


class Preparation:
    """The readiness of a worker: its database responds, and has its indexes and validators."""

    def __init__(
        self,
        storage: Storage,
        plans: Plans,
        pause: float = PAUSE_SECONDS,
        find_fault: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._plans = plans
        # Finds what else would keep a prepared database from being served.
        self._find_fault = find_fault
        self._pause = pause
        self._fault: str | None = None
        self._was_tried = threading.Event()

    def begin(self) -> None:
        """Prepare the database in the background; the worker is not ready until that is done.

        Wait briefly for the first try: a worker accepts requests when this returns, and should be
        ready by then. Do not wait longer if the database is unavailable or has to be migrated.
        """
        self._fault = NOT_YET
        metrics.BUILD.info({**metrics.RUNNING, "schema": str(migrations.CURRENT)})
        threading.Thread(target=self._run, name="preparation", daemon=True).start()
        self._was_tried.wait(FIRST_TRY_SECONDS)

    def is_ready(self) -> bool:
        return self._fault is None

    def check(self) -> None:
        """Raise Unavailable unless the worker is ready."""
        if self._fault:
            raise Unavailable(self._fault)
        self._storage.ping()

    def _run(self) -> None:
        """Prepare the database; then look whether a restore begins, and prepare it again after."""
        while True:
            before = self._fault
            try:
                if before:
                    self._fault = self.prepare()
                else:
                    with suppress(ConnectionFailure, OperationFailure):  # requests notice
                        migrations.refuse_unfinished_restore(self._storage.db)
            except InvalidOperation:  # the client is closed
                return
            except UnfitDatabase as error:
                self._storage.places.is_closed = True
                self._fault = str(error)
            except Exception as error:  # the thread must survive: the next try may succeed
                self._fault = NOT_PREPARED
                if before != NOT_PREPARED:
                    log.error("The database could not be prepared: %r", error, exc_info=error)
            self._was_tried.set()
            if self._fault and self._fault != before:
                log.error("This worker is not ready: %s", self._fault)
            time.sleep(self._pause)

    def prepare(self) -> str | None:
        """Prepare the database; return why it cannot be served, or None."""
        version = 0
        try:
            version = migrations.version_of(self._storage.db)
            init_database(self._storage.db, self._plans)
            if fault := self._find_fault():
                return fault
        except migrations.DatabaseTooNew as error:
            if _was_ready is None or not _was_ready[0]:
                raise
            log.warning("%s It serves on until it is replaced.", error)
            return None
        except PyMongoError as error:
            if not is_forbidden(error):
                if not explain(error):
                    raise
                if isinstance(error, ConnectionFailure):
                    log.warning("The database cannot be prepared yet: %s", error)
                return NOT_YET
            if version < migrations.CURRENT:
                raise UnfitDatabase(NEEDS_DB_INIT) from error
            log.warning(
                "This account may not prepare the database; run db init with another account."
            )
        self._storage.places.is_closed = False
        note_ready()
        return None
