"""Making the database ready, now or as soon as it can be reached."""

from __future__ import annotations

import logging
import threading
import time

from pymongo.errors import OperationFailure, PyMongoError

from app.errors import Unavailable
from app.storage import schema
from app.storage.client import Storage
from app.storage.faults import explain

log = logging.getLogger("quartermaster")

UNAUTHORIZED = 13
PAUSE_SECONDS = 1.0


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
            try:
                schema.init(self._storage.db)
                self._fault = None
            except PyMongoError as error:
                self._judge(error)
                time.sleep(PAUSE_SECONDS)

    def _judge(self, error: PyMongoError) -> None:
        if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
            log.warning("This account may not prepare the database; db init by another must.")
            self._fault = None
        elif explain(error) is None:
            self._fault = "The database could not be prepared; the log says why."
            log.error("The database could not be prepared: %s", error)
