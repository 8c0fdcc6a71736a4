"""A cable between a program and a server, which can be cut."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading


class Cable(socketserver.ThreadingTCPServer):
    """Passes bytes on between a port of its own and another, while it is whole."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.port = self.server_address[1]
        self._to = port
        self._ends = []
        self._is_whole = True
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def verify_request(self, request, client_address):
        return self._is_whole

    def finish_request(self, request, client_address):
        with socket.create_connection(("127.0.0.1", self._to)) as other:
            self._ends += [request, other]
            back = threading.Thread(target=self._pass_on, args=(other, request), daemon=True)
            back.start()
            self._pass_on(request, other)
            back.join()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self._end(source, target)

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
