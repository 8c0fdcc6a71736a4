"""gunicorn, started by this program instead of by its own command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gunicorn.app.base import Application
from gunicorn.util import import_app


class Server(Application):
    """gunicorn, configured by config/gunicorn.py alone."""

    def __init__(self, on_fork: Callable[[], object]) -> None:
        self._on_fork = on_fork
        super().__init__()

    def init(self, parser: Any, opts: Any, args: Any) -> None:
        """Read no command line: the serve command has read it."""

    def load_config(self) -> None:
        """Load the settings; gunicorn calls it at the start and at every reload."""
        self.load_config_from_file("python:config.gunicorn")
        self.cfg.set("post_fork", lambda _, __: self._on_fork())

    def load(self) -> Any:
        return import_app("wsgi:app")
