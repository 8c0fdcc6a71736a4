"""A TCP proxy in front of a server, which lets go wrong what goes wrong on a network.

It can delay answers, cut all connections, and, for HTTP, follow a script of one fault per request:
a status is answered in the server's place, DROP closes the connection before the request is passed
on, and LOSE after the server has answered it.
"""

import contextlib
import itertools
import socket
import socketserver
import threading
import time
from http.client import HTTPResponse

DROP, LOSE = "drop", "lose"
REFUSAL = b'{"Message": "Not now."}'


class TcpProxy(socketserver.ThreadingTCPServer):
    """Passes bytes on between a port of its own and a server's, until it is closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, server_port, delay=0.0, faults=None):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.port = self.server_address[1]
        self.base = f"http://127.0.0.1:{self.port}"
        # For how many seconds answers wait; a test may change it at any time.
        self.delay = delay
        # The path, body and fault of each HTTP request, where there is a script.
        self.seen = []
        self._faults = None if faults is None else itertools.chain(faults, itertools.repeat(None))
        self._server_port = server_port
        self._sockets = []
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def verify_request(self, request, client_address):
        return not self._is_cut

    def finish_request(self, client, client_address):
        with socket.create_connection(("127.0.0.1", self._server_port)) as server:
            self._sockets += [client, server]
            answers = threading.Thread(target=self._copy_answers, args=(server, client))
            if self._faults is None:
                answers.start()
                self._copy(client, server)
            else:
                self._follow_script(client, server)
            if answers.ident:
                answers.join()

    def _copy(self, source, target, before_each=lambda: None):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                before_each()
                target.sendall(data)
        shut_down(source, target)

    def _copy_answers(self, server, client):
        self._copy(server, client, self._wait)

    def _wait(self):
        deadline = time.monotonic() + self.delay
        while self.delay and time.monotonic() < deadline:
            time.sleep(min(self.delay, 0.05))

    def _follow_script(self, client, server):
        with contextlib.suppress(OSError), client.makefile("rb") as requests:
            while request := read_request(requests):
                path, head, body = request
                with self._lock:
                    fault = next(self._faults)
                    self.seen.append((path, body, fault))
                self._wait()
                if isinstance(fault, int):
                    client.sendall(refusal(fault))
                    continue
                if fault != DROP:
                    server.sendall(head + body)
                    answer = read_answer(server)
                if fault:
                    break
                client.sendall(answer)
        shut_down(client, server)

    @contextlib.contextmanager
    def cut(self):
        """Break all connections, and take no new ones until the block ends."""
        self._is_cut = True
        shut_down(*self._sockets)
        yield
        self._is_cut = False

    def close(self):
        self.shutdown()
        self.server_close()
        shut_down(*self._sockets)


def shut_down(*sockets):
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def read_request(stream):
    """Return the path, the head and the body of the next HTTP request, or None at the end."""
    lines = []
    while (line := stream.readline()) != b"\r\n":
        if not line:  # the client has closed the connection
            return None
        lines.append(line)
    length = next((int(v) for n, _, v in fields(lines) if n.lower() == b"content-length"), 0)
    return lines[0].split()[1].decode(), b"".join(lines) + b"\r\n", stream.read(length)


def fields(lines):
    return (line.partition(b":") for line in lines[1:])


def read_answer(server):
    """Return an answer of the server as it would be sent in one piece."""
    response = HTTPResponse(server)
    response.begin()
    content = response.read()
    head = [f"HTTP/1.1 {response.status} {response.reason}"]
    head += [f"{name}: {value}" for name, value in kept_headers(response)]
    head += [f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(head).encode("latin1") + content


def kept_headers(response):
    framing = ("content-length", "transfer-encoding")
    return [pair for pair in response.getheaders() if pair[0].lower() not in framing]


def refusal(status):
    head = [f"HTTP/1.1 {status} Refused", "Content-Type: application/json", "Retry-After: 0"]
    head += [f"Content-Length: {len(REFUSAL)}", "", ""]
    return "\r\n".join(head).encode() + REFUSAL
