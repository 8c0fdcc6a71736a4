"""A client's connection with a non-blocking socket, its parser and its buffers."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
import struct
import time
from enum import Enum, auto
from typing import Any

from app.server.request_reader import PIECE_BYTES, BodyLimits, RequestReader

# The largest piece to receive or send by one system call.
MAX_PIECE_BYTES = 64 * 1024
# How much a client may still send while we wait for it to close.
MAX_CLOSING_BYTES = 1024 * 1024

# How far an answer that is made piece by piece may be ahead of its client.
MAX_AHEAD_BYTES = 1024 * 1024

# SO_LINGER with a timeout of zero: close() resets the connection.
_RESET = struct.pack("ii", 1, 0)
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Phase(Enum):
    """What a connection waits for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    SENDING = auto()
    CLOSING = auto()


class NonBlockingSocket:
    """The socket that gunicorn writes to; what cannot be sent at once is buffered."""

    def __init__(self, sock: socket.socket, send_seconds: float) -> None:
        sock.setblocking(False)
        self._send_seconds = send_seconds
        self._sock = sock
        # Kept, because the poller needs it after the socket was wrapped or closed.
        self.file_descriptor = sock.fileno()
        self.unsent = bytearray()

    def getpeername(self) -> Any:
        return self._sock.getpeername()

    def start_tls(self, context: ssl.SSLContext, suppress_ragged_eofs: bool) -> None:
        """Wrap the socket in TLS; the handshake happens in receive, without blocking."""
        self._sock = context.wrap_socket(
            self._sock,
            server_side=True,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=suppress_ragged_eofs,
        )

    def setblocking(self, flag: bool) -> None:
        """Do nothing: gunicorn would make the socket block."""

    def settimeout(self, seconds: float | None) -> None:
        """Do nothing: gunicorn would make the socket block."""

    def receive(self, size: int) -> bytes | None:
        """Return what has arrived; empty at the end, None if there is nothing yet."""
        try:
            return self._sock.recv(size)
        except _BLOCKED:
            return None
        except OSError:
            return b""

    def recv(self, size: int) -> bytes:
        """Return nothing, as at the end: gunicorn reads here only before it closes."""
        return b""

    def pending(self) -> int:
        """Return how many decrypted bytes are unread: the poller does not report them."""
        return self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0

    def sendall(self, data: bytes) -> None:
        sent = 0 if self.unsent else self._send(data)
        if sent < len(data):
            self.unsent += memoryview(data)[sent:]
            self.flush()

    def wait_for_client(self, waited: float) -> float:
        """Wait until a client has read most of what was sent, before more of it is made.

        Raise if it does not read: otherwise all of a long answer would be made for nobody, and
        kept. Waited are the seconds of the same answer so far; returned are those with these.
        """
        writable = select.poll()
        writable.register(self.file_descriptor, select.POLLOUT)
        while len(self.unsent) > MAX_AHEAD_BYTES:
            began, left = time.monotonic(), self._send_seconds - waited
            if left <= 0 or not writable.poll(left * 1000):
                raise BrokenPipeError(errno.EPIPE, "The client does not read its answer.")
            waited += time.monotonic() - began
            self.flush()
        return waited

    def flush(self) -> None:
        """Send as much of the buffer as the client takes."""
        while self.unsent and (sent := self._send(self.unsent)):
            del self.unsent[:sent]

    def _send(self, data: bytes | bytearray) -> int:
        try:
            if len(data) <= MAX_PIECE_BYTES:
                return self._sock.send(data)
            # After a partial write, TLS requires the same bytes again.
            with memoryview(data) as view, view[:MAX_PIECE_BYTES] as part:
                return self._sock.send(part)
        except _BLOCKED:
            return 0

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        if self.unsent:
            # Otherwise the kernel would keep the data for a client that does not read it.
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.unsent.clear()
        self._sock.close()


class Connection:
    """A connection as the loop and gunicorn's threads use it; one of them owns it at a time."""

    # Attributes that gunicorn reads: the connection is set up, and is not HTTP/2.
    initialized = data_ready = True
    is_http2 = False

    def __init__(self, cfg: Any, sock: Any, client: Any, server: Any, limits: BodyLimits) -> None:
        self.sock = NonBlockingSocket(sock, limits.send_seconds)
        self.client = client
        self.server = server
        self.parser = RequestReader(cfg, client, limits)
        self._limits = limits
        # The monotonic time at which the last request was complete.
        self.arrived_at = 0.0
        # What the loop waits for, and until when.
        self.phase: Phase | None = None
        self.deadline = 0.0
        # How many of its buffered bytes the worker's total includes.
        self.counted_bytes = 0
        self.is_keep_alive = True
        self.was_answered = False
        self._is_closing = False
        self._closing_bytes_left = MAX_CLOSING_BYTES

    def init(self) -> None:
        """Do nothing: gunicorn would set up the socket here."""

    @property
    def buffered_bytes(self) -> int:
        return len(self.parser.received) + len(self.sock.unsent)

    @property
    def has_ended(self) -> bool:
        """Whether the client will send nothing more."""
        return self.parser.received.has_ended

    def find_phase(self) -> Phase:
        if self.sock.unsent:
            return Phase.SENDING
        if self._is_closing:
            return Phase.CLOSING
        if self.parser.request is not None:
            return Phase.BODY
        return Phase.HEAD if self.parser.received else Phase.IDLE

    def receive(self) -> bool:
        """Receive what has arrived; return whether a thread can handle the request now."""
        is_body = self.parser.request is not None
        piece = self.sock.receive(MAX_PIECE_BYTES if is_body else PIECE_BYTES)
        while piece:
            self.parser.received.feed(piece)
            piece = self.sock.receive(MAX_PIECE_BYTES) if self.sock.pending() else None
        if piece is not None:
            self.parser.received.has_ended = True
        is_ready = self.parser.is_ready()
        if is_ready and not self.parser.is_streamed:
            return True
        if self.parser.expects_continue():
            # If the client has gone, the next read reports it.
            with contextlib.suppress(OSError):
                self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return is_ready

    def begin_stream(self) -> None:
        """Let the thread that answers a request read its body from the client, if it is large."""
        if self.parser.is_streamed:
            self._stream_until = time.monotonic() + self._limits.seconds
            self.parser.received.receive_more = self._receive_more

    def _receive_more(self) -> None:
        """Wait for more of a body; raise TimeoutError if the client is too slow."""
        piece = self.sock.receive(MAX_PIECE_BYTES)
        if piece is None:
            left = self._stream_until - time.monotonic()
            readable = select.poll()
            readable.register(self.sock.file_descriptor, select.POLLIN)
            if left <= 0 or not readable.poll(left * 1000):
                raise TimeoutError("The client sends the body too slowly.")
        elif piece:
            self.parser.received.feed(piece)
        else:
            self.parser.received.has_ended = True

    def begin_closing(self) -> None:
        """Send FIN, and wait for the client's: a close now may destroy unread answers."""
        self._is_closing = True
        self.sock.shutdown(socket.SHUT_WR)

    def discard_input(self) -> bool:
        """Discard what a client still sends; return whether the connection can be closed."""
        while piece := self.sock.receive(MAX_PIECE_BYTES):
            self._closing_bytes_left -= len(piece)
            if self._closing_bytes_left < 0:
                return True
        return piece is not None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()
