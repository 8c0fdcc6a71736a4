"""gunicorn, started by this program instead of its own command."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from prometheus_client.multiprocess import mark_process_dead

from app.server import resources
from app.storage.embedded import raise_open_files

# gunicorn's warning about an invalid request: the reason, followed by the invalid part.
_REFUSED = re.compile(r"(Invalid request from ip=\S*: [^:]*).*", re.DOTALL)


class GunicornServer(BaseApplication):
    """gunicorn, configured only by config/gunicorn.py."""

    def __init__(self, on_fork: Callable[[], object]) -> None:
        self._on_fork = on_fork
        super().__init__()

    def load_config(self) -> None:
        """Apply the settings; gunicorn calls this at the start and at every reload."""
        # Imported here, because it reads the environment when it is imported.
        from config import gunicorn

        for name, value in vars(gunicorn).items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)
        self.cfg.set("post_fork", lambda _, __: self._on_fork())

    def load(self) -> Any:
        # Imported only in a worker: pymongo's client does not survive a fork.
        from wsgi import app

        return app


def on_starting(server: Any) -> None:
    raise_open_files()
    server.metrics_folder = resources.make_metrics_folder()


def pre_fork(server: Any, worker: Any) -> None:
    # The garbage collector writes to each object that it visits, so copy-on-write would copy the
    # memory that workers share with the master.
    gc.freeze()


def post_worker_init(worker: Any) -> None:
    """End a worker at once on SIGINT and SIGQUIT, as Ctrl-C asks for.

    gunicorn's own handler shuts its thread pool down. It waits for ever if the signal interrupts
    the main thread while that hands a request to the pool, because it holds the pool's lock.
    """
    for quick_stop in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(quick_stop, lambda *_: os._exit(0))


def child_exit(server: Any, worker: Any) -> None:
    mark_process_dead(worker.pid, os.environ["QM_METRICS_DIR"])


def on_exit(server: Any) -> None:
    resources.remove_metrics_folder(server.metrics_folder)


class GunicornLogger(Logger):
    """gunicorn's logger without an access log: the application logs requests itself."""

    def access(self, *_: Any) -> None:
        """Log nothing."""

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log an invalid request without its content, which may be a password."""
        super().warning(_REFUSED.sub(r"\1", msg), *args, **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log a failed request by its path, without the query string."""
        super().exception(msg, *(str(arg).partition("?")[0] for arg in args), **kwargs)
