"""Making the database ready, now or as soon as it can be reached."""

from __future__ import annotations

import logging
import threading
import time

from pymongo.errors import OperationFailure, PyMongoError

from app.errors import Unavailable
from app.storage import migrations, schema
from app.storage.client import Storage
from app.storage.faults import explain

log = logging.getLogger("quartermaster")

UNAUTHORIZED = 13
PAUSE_SECONDS = 1.0
NOT_PREPARED = "The database could not be prepared; the log says why."
LEFT_TO_ANOTHER = (
    "The database is older than this program, whose account may not change that: "
    "quartermaster db init by another must."
)


class Preparation:
    """Whether a worker may serve: its database answers, and has its indexes and validators."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._fault: str | None = None

    def begin(self) -> None:
        """Prepare the database in the background; until then, the worker is not ready."""
        self._fault = "The database is not prepared yet."
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
                time.sleep(PAUSE_SECONDS)

    def _tried(self) -> str | None:
        """Prepare the database, or return why it cannot be served."""
        version = 0
        try:
            version = migrations.version_of(self._storage.db)
            schema.init(self._storage.db)
        except migrations.DatabaseTooNew as error:
            return str(error)
        except PyMongoError as error:
            return self._judged(error, version)
        except Exception as error:  # whatever it is, the next try may do better
            return self._puzzled(error)
        return None

    def _judged(self, error: PyMongoError, version: int) -> str | None:
        if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
            if version < migrations.CURRENT:
                return LEFT_TO_ANOTHER
            log.warning("This account may not prepare the database; db init by another must.")
            return None
        return self._fault if explain(error) else self._puzzled(error)

    def _puzzled(self, error: Exception) -> str:
        """Say once what is wrong; the same is tried again every second."""
        if self._fault != NOT_PREPARED:
            log.error("The database could not be prepared: %r", error, exc_info=error)
        return NOT_PREPARED
