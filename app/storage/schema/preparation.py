"""Making the database ready, now or as soon as it can be reached."""

from __future__ import annotations

import logging
import mmap
import threading
import time

from pymongo.errors import OperationFailure, PyMongoError

from app import metrics
from app.errors import Unavailable
from app.storage.client import Storage
from app.storage.errors import explain
from app.storage.schema import migrations
from app.storage.schema.collections import Plans, init_database

log = logging.getLogger("quartermaster")

UNAUTHORIZED = 13
PAUSE_SECONDS = 1.0
NOT_PREPARED = "The database could not be prepared; the log says why."
LEFT_TO_ANOTHER = (
    "The database is older than this program, whose account may not change that: "
    "quartermaster db init by another must."
)
SERVES_ON = (
    "A newer program has raised the database to SchemaVersion %d, above the %d of this one, "
    "which serves on until it is replaced."
)

# One byte that all workers of a master share, not 0 since one of them was ready; None elsewhere.
_run_was_ready: mmap.mmap | None = None


def remember_for_successors() -> None:
    """Let the workers that this process will fork know whether the run was ready before them.

    While a release is replaced, the new one prepares the database and the old one serves on. So
    must a worker of the old one that takes the place of another at that time: it runs the same
    code as the others. A run that begins on a newer database has no such excuse.
    """
    global _run_was_ready
    _run_was_ready = mmap.mmap(-1, 1)


def note_ready() -> None:
    if _run_was_ready is not None:
        _run_was_ready[0] = 1


def is_forbidden(error: PyMongoError) -> bool:
    """Tell whether MongoDB refused because of the account, which may still read and write."""
    return isinstance(error, OperationFailure) and error.code == UNAUTHORIZED


class Preparation:
    """Whether a worker may serve: its database answers, and has its indexes and validators."""

    def __init__(self, storage: Storage, plans: Plans, pause: float = PAUSE_SECONDS) -> None:
        self._storage = storage
        self._plans = plans
        self._pause = pause
        self._fault: str | None = None

    def begin(self) -> None:
        """Prepare the database in the background; until then, the worker is not ready."""
        self._fault = "The database is not prepared yet."
        metrics.BUILD.labels["schema"] = str(migrations.CURRENT)
        threading.Thread(target=self._until_done, name="preparation", daemon=True).start()

    def check(self) -> None:
        """Raise Unavailable unless the worker is ready."""
        if self._fault:
            raise Unavailable(self._fault)
        self._storage.ping()

    def _until_done(self) -> None:
        while self._fault:
            before, self._fault = self._fault, self._tried()
            if self._fault:
                if self._fault != before:
                    log.error("This worker is not ready: %s", self._fault)
                time.sleep(self._pause)

    def _tried(self) -> str | None:
        """Prepare the database, or return why it cannot be served."""
        version = 0
        try:
            version = migrations.version_of(self._storage.db)
            init_database(self._storage.db, self._plans)
        except migrations.DatabaseTooNew as error:
            return self._outdated(error)
        except PyMongoError as error:
            return self._judged(error, version)
        except Exception as error:  # whatever it is, the next try may do better
            return self._puzzled(error)
        self._ready()
        return None

    def _ready(self) -> None:
        self._storage.refuse_requests(False)
        note_ready()

    def _unfit(self, reason: str) -> str:
        """Keep requests from a database that is not for this program, and return why."""
        self._storage.refuse_requests(True)
        return reason

    def _outdated(self, error: migrations.DatabaseTooNew) -> str | None:
        if _run_was_ready is None or not _run_was_ready[0]:
            return self._unfit(str(error))
        log.warning(SERVES_ON, error.version, migrations.CURRENT)
        return None

    def _judged(self, error: PyMongoError, version: int) -> str | None:
        if is_forbidden(error):
            if version < migrations.CURRENT:
                return self._unfit(LEFT_TO_ANOTHER)
            log.warning("This account may not prepare the database; db init by another must.")
            self._ready()
            return None
        return self._fault if explain(error) else self._puzzled(error)

    def _puzzled(self, error: Exception) -> str:
        """Say once what is wrong; the same is tried again every second."""
        if self._fault != NOT_PREPARED:
            log.error("The database could not be prepared: %r", error, exc_info=error)
        return NOT_PREPARED
