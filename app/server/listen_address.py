"""Checks the address to listen on early: gunicorn would log and retry for seconds, then exit."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

from app.errors import QuartermasterError
from config.base import Settings

RETRY_SECONDS = 0.1


def wait_until_free(settings: Settings, timeout_seconds: float) -> None:
    """Raise a QuartermasterError if the address is still in use when the timeout is over."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()):
        return  # socket activation: systemd listens already, and gunicorn inherits the socket
    deadline = time.monotonic() + timeout_seconds
    while fault := _fault(settings):
        if time.monotonic() > deadline:
            raise QuartermasterError(fault)
        time.sleep(RETRY_SECONDS)


def _fault(settings: Settings) -> str | None:
    if settings.SOCKET:
        return _unix_socket_fault(settings.SOCKET)
    error = _bind_error(settings.HOST, settings.PORT)
    if error is None:
        return None
    hint = f" Choose another port with --port (make run PORT={settings.PORT + 1})."
    return (
        f"Cannot listen on {settings.HOST}:{settings.PORT}: {error.strerror}."
        f"{hint if error.errno == errno.EADDRINUSE else ''}"
    )


def _bind_error(host: str, port: int) -> OSError | None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As gunicorn does: connections in TIME_WAIT do not make an address busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _unix_socket_fault(path: str) -> str | None:
    """Return why gunicorn cannot bind to a path; it replaces a socket that nobody listens on."""
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
