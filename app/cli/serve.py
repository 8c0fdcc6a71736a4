"""quartermaster serve."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click

import config
from app.auth.tokens import signing_keys
from app.core.errors import Conflict
from app.http import logs
from app.server import granian_server, startup
from app.server.gunicorn_server import GunicornServer
from app.storage.client import Storage
from app.storage.embedded.lease import EmbeddedError
from app.storage.embedded.supervisor import try_lock
from app.storage.schema import preparation
from config.base import Settings

# How long the workers of a killed program may keep the address before they notice and exit.
ORPHANED_WORKERS_SECONDS = 10


@click.command()
@click.option("--host", help="The address to listen on (QM_HOST, 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="The port (QM_PORT, 8000).")
@click.option("--workers", type=click.IntRange(1), help="Worker processes (QM_WORKERS, 2).")
@click.option("--server", type=click.Choice(["gunicorn", "granian"]), default="gunicorn")
@click.option("--demo", is_flag=True, help="Fill an empty database with a demo world.")
def serve(host: str | None, port: int | None, workers: int | None, server: str, demo: bool) -> None:
    """Serve the API with gunicorn, or with Granian if it is installed.

    Without QM_MONGODB_URI, development starts an embedded MongoDB with its data in QM_DATA_DIR.
    """
    settings = _settings(HOST=host, PORT=port, WORKERS=workers, demo=demo)
    logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT)
    with ExitStack() as stack:
        timeout = 0
        if settings.MONGODB_URI is None:
            lock = stack.enter_context(closing(ServeLock(settings.DATA_DIR)))
            timeout = ORPHANED_WORKERS_SECONDS if lock.owner_was_killed else 0
        startup.wait_for_address(settings, timeout)
        storage = stack.enter_context(closing(Storage(settings)))
        preparation.share_readiness(startup.announcer(settings, demo))
        startup.prepare_database(storage, settings, demo)
        # Fails once, with a readable message, instead of in every worker.
        signing_keys(settings)
        # pymongo's client is not fork-safe: each worker makes its own.
        storage.client.close()
        os.environ["QM_MONGODB_URI"] = storage.uri
        if server == "granian":
            granian_server.run(settings)
        else:
            # A worker inherits the stack, and must not release the master's resources.
            GunicornServer(on_fork=stack.pop_all).run()


def _settings(demo: bool, **options: Any) -> Settings:
    """Load the settings, with the options put into the environment that the workers inherit."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    os.environ.update({f"QM_{name}": value for name, value in given.items()})
    if demo:
        # No game server updates LastSeen in the demo world: a TTL would show everybody as offline.
        os.environ.setdefault("QM_ONLINE_TTL_SECONDS", "0")
    settings = config.load()
    if demo and settings.ENV == "production":
        raise Conflict("--demo is not for production: its account and password are public.")
    return settings


class ServeLock:
    """A lock of the one program that serves a data folder; its death releases it."""

    def __init__(self, data_dir: str) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "serve.lock").open("a+")
        self._file.seek(0)
        owner = self._file.read().strip()
        if not try_lock(self._file):
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
