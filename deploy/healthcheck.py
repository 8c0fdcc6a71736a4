"""Exits with 0 if the process in this container answers; for Docker's HEALTHCHECK."""

from __future__ import annotations

import os
import socket
import sys

TIMEOUT_SECONDS = 4


def is_healthy(path: str) -> bool:
    """Request /healthz over the Unix socket, independently of nginx."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(path)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False


if __name__ == "__main__":
    sys.exit(not is_healthy(os.environ["QM_SOCKET"]))
