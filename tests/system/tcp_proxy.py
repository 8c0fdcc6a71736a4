"""A cable between a program and a server, which can be cut, and be slow to bring answers."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time


class Cable(socketserver.ThreadingTCPServer):
    """Passes bytes on between a port of its own and another, while it is whole."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.port = self.server_address[1]
        # For how many seconds answers wait; how many connections there are, and were at most.
        self.delay = 0.0
        self.open = self.most = 0
        self._to = port
        self._ends = []
        self._is_whole = True
        self._counting = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def verify_request(self, request, client_address):
        return self._is_whole

    def finish_request(self, request, client_address):
        with socket.create_connection(("127.0.0.1", self._to)) as other:
            self._ends += [request, other]
            self._count(1)
            back = threading.Thread(target=self._pass_on, args=(other, request, True), daemon=True)
            back.start()
            self._pass_on(request, other)
            # The program has hung up, whatever is still under way to it.
            self._count(-1)
            back.join()

    def _count(self, change):
        with self._counting:
            self.open += change
            self.most = max(self.most, self.open)

    def _pass_on(self, source, target, is_answer=False):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer:
                    self._linger()
                target.sendall(data)
        self._end(source, target)

    def _linger(self):
        deadline = time.monotonic() + self.delay
        while time.monotonic() < deadline and self.delay:
            time.sleep(0.05)

    def _end(self, *ends):
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def cut(self):
        """Be cut through until the block ends."""
        self._is_whole = False
        self._end(*self._ends)
        yield
        self._is_whole = True

    def close(self):
        self.shutdown()
        self.server_close()
        self._end(*self._ends)
