"""The lock of the one program that serves a data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from app.storage.embedded.lease import EmbeddedError, try_lock


class ServeLock:
    """A lock of the one program that serves a data folder; its death releases it."""

    def __init__(self, data_dir: str) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "serve.lock").open("a+")
        self._file.seek(0)
        owner = self._file.read().strip()
        if not try_lock(self._file, fcntl.LOCK_EX):
            raise EmbeddedError(
                f"Another quartermaster (process {owner}) already serves {folder}; "
                "stop it, or choose another folder with QM_DATA_DIR."
            )
        # A program that ends normally removes its process id.
        self.owner_was_killed = bool(owner)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        # Forked workers, which may outlive this program briefly, must not hold the lock.
        os.register_at_fork(after_in_child=self._file.close)

    def close(self) -> None:
        self._file.truncate(0)
        self._file.close()
