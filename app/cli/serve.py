"""quartermaster serve."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click

import config
from app.auth.secret import signing_keys
from app.database import COLLECTIONS
from app.demo.seed import make_demo
from app.demo.world import World
from app.errors import Conflict, QuartermasterError
from app.http import logs
from app.server.program import Server
from app.storage.client import Storage
from app.storage.embedded.lease import ServeLock
from app.storage.errors import DatabaseError, explain
from app.storage.schema import migrations, preparation
from app.storage.schema.collections import init_database
from app.users.passwords import Passwords
from config.base import Settings

log = logging.getLogger("quartermaster")

LAST_WORKERS_SECONDS = 10


@click.command()
@click.option("--host", help="The address to listen on (QM_HOST, 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="The port (QM_PORT, 8000).")
@click.option("--workers", type=click.IntRange(1), help="Worker processes (QM_WORKERS, 2).")
@click.option("--demo", is_flag=True, help="Fill an empty database with a world to try things on.")
def serve(host: str | None, port: int | None, workers: int | None, demo: bool) -> None:
    """Serve the API with gunicorn.

    Without QM_MONGODB_URI, development runs a MongoDB of its own, with its data in QM_DATA_DIR.
    """
    settings = _settings(HOST=host, PORT=port, WORKERS=workers, demo=demo)
    logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT)
    with ExitStack() as stack:
        patience = 0
        if settings.MONGODB_URI is None:
            lock = stack.enter_context(closing(ServeLock(settings.DATA_DIR)))
            patience = LAST_WORKERS_SECONDS if lock.owner_was_killed else 0
        _refuse_busy_address(settings, patience)
        storage = stack.enter_context(closing(Storage(settings)))
        preparation.share_readiness()
        _prepare(storage, settings, demo)
        # A key that no worker could read is told of here, once and in a sentence.
        signing_keys(settings.SECRET_KEY, [], settings.DATA_DIR)
        # Connections do not survive the fork into workers; each makes its own.
        storage.client.close()
        os.environ["QM_MONGODB_URI"] = storage.uri
        banner = None if settings.ENV == "production" else _banner(settings, demo)
        # Workers leave through here as well; what is open is not theirs to close.
        Server(banner, on_fork=stack.pop_all).run()


def _settings(demo: bool, **options: Any) -> Settings:
    """Return the settings, and pass the options on to the workers the way they read them."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    os.environ.update({f"QM_{name}": value for name, value in given.items()})
    if demo:
        # Nobody plays in the demo world, so nobody would stay online for long.
        os.environ.setdefault("QM_ONLINE_TTL_SECONDS", "0")
    settings = config.load()
    if demo and settings.ENV == "production":
        raise Conflict("--demo is not for production: its account and password are public.")
    return settings


def _refuse_busy_address(settings: Settings, patience: float) -> None:
    """Say so if somebody else has the address; workers of a killed program soon let it go."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()):
        return  # systemd has opened the socket, and hands it to gunicorn
    deadline = time.monotonic() + patience
    while fault := _fault_of(settings):
        if time.monotonic() > deadline:
            raise QuartermasterError(fault)
        time.sleep(0.1)


def _fault_of(settings: Settings) -> str | None:
    if settings.SOCKET:
        return _socket_fault(settings.SOCKET)
    fault = _port_fault(settings.HOST, settings.PORT)
    if fault is None:
        return None
    other = f" Choose another port with --port (make run PORT={settings.PORT + 1})."
    return (
        f"Cannot listen on {settings.HOST}:{settings.PORT}: {fault.strerror}."
        f"{other if fault.errno == errno.EADDRINUSE else ''}"
    )


def _port_fault(host: str, port: int) -> OSError | None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _socket_fault(path: str) -> str | None:
    """Return why no socket can be made at a path; one that nobody listens on is no fault."""
    folder, cannot = Path(path).parent, f"Cannot listen on {path}: "
    if not folder.is_dir():
        return f"{cannot}there is no folder {folder}."
    if Path(path).exists() and not Path(path).is_socket():
        return f"{cannot}a file that is no socket has this name."
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            return f"{cannot}{error.strerror or error}."
    return f"{cannot}another program does. Choose another path with QM_SOCKET."


def _prepare(storage: Storage, settings: Settings, demo: bool) -> None:
    """Prepare the database, or leave it to the workers where they know what to say of it.

    To end instead would be to end again and again: systemd starts the program anew each time.
    """
    try:
        init_database(storage.db, COLLECTIONS)
    except migrations.DatabaseTooNew as error:
        log.error("The workers answer 503 until this is mended: %s", error)
        return
    except DatabaseError as error:
        if preparation.is_forbidden(error):
            log.warning("The workers see whether they can serve it as it is: %s", error)
        elif explain(error):
            log.warning("The database is away; the workers prepare it when it comes: %s", error)
        else:
            raise
        return
    preparation.note_ready()
    if demo:
        passwords = Passwords(
            settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
        )
        make_demo(storage, passwords)


def _banner(settings: Settings, demo: bool) -> str:
    if settings.SOCKET:
        return f"Quartermaster serves the Unix socket {settings.SOCKET}\nCtrl-C stops it."
    host = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
    base = f"http://{host}:{settings.PORT}"
    lines = [f"Quartermaster serves {base}", f"The API is explained at {base}/api/docs"]
    if demo:
        lines += [
            "Sign in as demo with the password demo, or paste this:",
            "",
            f"  TOKEN=$(curl -s {base}/api/oauth/token -d grant_type=password -d username=demo \\",
            f"    -d password={World.PASSWORD} \\",
            """    | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')""",
            f'  curl -s -H "Authorization: Bearer $TOKEN" "{base}/api/v1/players?pageSize=1"',
            "",
        ]
    return "\n".join([*lines, "Ctrl-C stops it."])
