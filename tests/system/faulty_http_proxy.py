"""Stands between a client and a server, and lets go wrong what a network lets go wrong."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Relay(BaseHTTPRequestHandler):
    """Passes requests on, or does what its server's script says instead.

    A status is answered in the server's place, "drop" breaks off before the request is passed on,
    and "lose" after it.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = next(self.server.script)
        self.server.seen.append((self.path, body, fault))
        time.sleep(self.server.delay)
        if isinstance(fault, int):
            return self.answer(fault, {"Retry-After": "0"}, b'{"Message": "Not now."}')
        if fault != "drop":
            status, headers, content = self.passed_on(body)
        if fault:
            self.close_connection = True
            return None
        return self.answer(status, headers, content)

    def passed_on(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=20)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, response.headers, content

    def answer(self, status, headers, content):
        self.send_response(status)
        for name in ("Content-Type", "Retry-After", "Idempotency-Replayed"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def relaying(server, script=(), delay=0.0):
    """Stand between the tool and the server; after its script a relay only passes on."""
    relay = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    relay.script, relay.seen = itertools.chain(script, itertools.repeat(None)), []
    relay.target, relay.delay = server.port, delay
    relay.base = f"http://127.0.0.1:{relay.server_port}"
    thread = threading.Thread(target=relay.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield relay
    finally:
        relay.shutdown()
        thread.join()
        relay.server_close()
