"""Stands between the service and MongoDB, and lets its answers come late."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class SlowRoad:
    """Passes bytes on in both directions; what MongoDB says waits for so many seconds."""

    def __init__(self, uri):
        self.delay = 0.0
        self.open = self.most = 0
        host, port = urlsplit(uri).netloc.split(":")
        self._target, self._lock = (host, int(port)), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        own = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.uri = urlsplit(uri)._replace(netloc=own).geturl()

    def serve(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=[near], daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, near):
        with near, socket.create_connection(self._target) as far:
            self._count(1)
            answers = threading.Thread(target=self._carry, args=(far, near, True), daemon=True)
            answers.start()
            self._carry(near, far)
            # The service has hung up, whatever is still under way to it.
            self._count(-1)
            answers.join()

    def _count(self, change):
        with self._lock:
            self.open += change
            self.most = max(self.most, self.open)

    def _carry(self, source, sink, is_answer=False):
        with suppress(OSError):
            while data := source.recv(65536):
                if is_answer:
                    self._linger()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _linger(self):
        deadline = time.monotonic() + self.delay
        while time.monotonic() < deadline and self.delay:
            time.sleep(0.05)


@contextmanager
def slow_road(uri):
    """Lead to a server by a road that can be made slow."""
    road = SlowRoad(uri)
    thread = threading.Thread(target=road.serve, daemon=True)
    thread.start()
    try:
        yield road
    finally:
        road.close()
        thread.join()
