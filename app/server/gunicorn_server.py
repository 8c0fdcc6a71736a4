"""gunicorn, started by this program instead of by its own command."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.util import import_app

import config
from app.server import metrics_folder, open_files


class GunicornServer(BaseApplication):
    """gunicorn, configured by config/gunicorn.py alone."""

    def __init__(self, on_fork: Callable[[], object]) -> None:
        self._on_fork = on_fork
        super().__init__()

    def load_config(self) -> None:
        """Apply the settings; gunicorn calls it at the start and at every reload."""
        # Imported here, because it reads the environment when it is imported.
        from config import gunicorn

        for name, value in vars(gunicorn).items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)
        self.cfg.set("post_fork", lambda _, __: self._on_fork())

    def load(self) -> Any:
        # Only here, in a worker: pymongo's client does not survive a fork.
        return import_app("wsgi:app")


def on_starting(server: Any) -> None:
    open_files.raise_limit()
    limit_connections(server)
    server.metrics_folder = metrics_folder.make()


def limit_connections(server: Any) -> None:
    """Let a worker accept no more connections than the limit of open files has room for."""
    wanted, pool_size = server.cfg.worker_connections, config.load().MONGODB_POOL_SIZE
    if shortage := open_files.shortage(wanted, pool_size):
        server.log.warning(shortage)
        server.cfg.set("worker_connections", open_files.connections(wanted, pool_size))


def pre_fork(server: Any, worker: Any) -> None:
    # The garbage collector writes to each object that it visits: copy-on-write would copy the
    # memory that workers share with the master.
    gc.freeze()


def on_exit(server: Any) -> None:
    metrics_folder.remove(server.metrics_folder)
