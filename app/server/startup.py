"""What happens once before a server starts.

Check the address to listen on: gunicorn would log and retry for seconds, then exit. Prepare the
database, and compose the banner.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from contextlib import suppress
from functools import partial

from app.core.errors import QuartermasterError
from app.database import COLLECTIONS
from app.maintenance.demo.world import World, prepare_demo
from app.storage.client import Storage
from app.storage.schema.preparation import NOT_YET, Preparation
from app.storage.schema.upgrade import UnfitDatabase
from app.users.passwords import Passwords
from app.users.staff.store import missing_power_role
from config import SettingsError
from config.base import Settings

log = logging.getLogger("quartermaster")

RETRY_SECONDS = 0.1
# How long the workers of a killed program may keep the address before they notice and exit.
ORPHANED_WORKERS_SECONDS = 5


def wait_for_address(settings: Settings) -> None:
    """Raise a QuartermasterError if the address is still in use after some seconds."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()):
        return  # socket activation: systemd already listens, and gunicorn inherits the socket
    deadline = time.monotonic() + ORPHANED_WORKERS_SECONDS
    while fault := _listen_fault(settings):
        if time.monotonic() > deadline:
            raise QuartermasterError(fault)
        time.sleep(RETRY_SECONDS)


def _listen_fault(settings: Settings) -> str | None:
    if path := settings.SOCKET:
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(path)
            # gunicorn would take the path from it.
            choice = "Choose another path with QM_SOCKET."
            return f"Cannot listen on {path}: another program uses it. {choice}"
        return None
    host, port = settings.HOST, settings.PORT
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As gunicorn does: connections in TIME_WAIT do not block an address.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = f" Choose another port with --port (make run PORT={port + 1})."
            return (
                f"Cannot listen on {host}:{port}: {error.strerror}."
                f"{hint if error.errno == errno.EADDRINUSE else ''}"
            )
    return None


def prepare_database(storage: Storage, settings: Settings, demo: bool) -> None:
    """Prepare the database, or leave that to the workers, which respond with 503 until it is ready.

    Exiting instead would cause a restart loop: systemd would start the program again each time.
    """
    find_fault = partial(missing_power_role, storage.db, settings.POWER_ROLE)
    try:
        fault = Preparation(storage, COLLECTIONS, find_fault=find_fault).prepare()
    except UnfitDatabase as error:
        log.error("The workers answer 503 until this is fixed: %s", error)
        return
    if fault == NOT_YET:
        return
    if fault:
        raise SettingsError(fault)
    if demo:
        passwords = Passwords(
            settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
        )
        prepare_demo(storage, passwords)


def banner(settings: Settings, demo: bool) -> str:
    """Return the banner for the terminal: where the API will be in a moment, and how to try it."""
    if settings.SOCKET:
        return f"Quartermaster serves the Unix socket {settings.SOCKET}\nCtrl-C stops it."
    host = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
    base = f"http://{host}:{settings.PORT}"
    lines = [f"Quartermaster serves {base}"]
    if settings.CONSOLE:
        lines.append(f"The console is at {base}/console")
    lines.append(f"The API documentation is at {base}/api/docs")
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
