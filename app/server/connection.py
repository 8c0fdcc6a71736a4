"""A client's connection, on which nobody waits: what it is about, and what is kept for it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from enum import Enum, auto
from typing import Any

from app.server.request_reader import PIECE_BYTES, RequestReader

# How much is read or sent at once of what may be long.
MOST_BYTES = 64 * 1024
# What a client that was told to close may still send without being cut off.
FAREWELL_BYTES = 1024 * 1024

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
    """A socket as gunicorn writes to it; what the client does not take at once is kept."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        # Of its file, by which the loop knows it.
        self.number = sock.fileno()
        self.unsent = bytearray()

    def getpeername(self) -> Any:
        return self._sock.getpeername()

    def encrypt(self, context: ssl.SSLContext, suppress_ragged_eofs: bool) -> None:
        """Speak TLS; reading makes the handshake, as far as it gets without waiting."""
        self._sock = context.wrap_socket(
            self._sock,
            server_side=True,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=suppress_ragged_eofs,
        )

    def setblocking(self, flag: bool) -> None:
        """Stay as it is; gunicorn would wait."""

    def settimeout(self, seconds: float | None) -> None:
        """Stay as it is; gunicorn would wait."""

    def receive(self, size: int) -> bytes | None:
        """Return what has come; nothing at the end, and None where there is nothing yet."""
        try:
            return self._sock.recv(size)
        except _BLOCKED:
            return None
        except OSError:
            return b""

    def recv(self, size: int) -> bytes:
        """Return nothing, as at the end; gunicorn reads here only to close."""
        return b""

    def pending(self) -> int:
        """Return how much has been decrypted and not been read, which wakes no loop."""
        return self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0

    def sendall(self, data: bytes) -> None:
        sent = 0 if self.unsent else self._send(data)
        if sent < len(data):
            self.unsent += memoryview(data)[sent:]
            self.flush()

    def flush(self) -> None:
        """Send what the client takes of what was kept."""
        while self.unsent and (sent := self._send(self.unsent)):
            del self.unsent[:sent]

    def _send(self, data: bytes | bytearray) -> int:
        try:
            if len(data) <= MOST_BYTES:
                return self._sock.send(data)
            # TLS wants to be offered the same bytes again where it could not send them.
            with memoryview(data) as view, view[:MOST_BYTES] as part:
                return self._sock.send(part)
        except _BLOCKED:
            return 0

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        if self.unsent:
            # A client that does not read would keep the system waiting in our place.
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.unsent.clear()
        self._sock.close()


class Connection:
    """What the loop and gunicorn's threads know of a client; only one of them has it at a time."""

    # What gunicorn asks of a connection: there is nothing to set up, and no HTTP/2.
    initialized = data_ready = True
    is_http2 = False

    def __init__(self, cfg: Any, sock: Any, client: Any, server: Any, most_body: int) -> None:
        self.sock = NonBlockingSocket(sock)
        self.client = client
        self.server = server
        self.parser = RequestReader(cfg, client, most_body)
        # When the last request was complete.
        self.arrived_at = 0.0
        # What it waits for in the loop, and until when.
        self.phase: Phase | None = None
        self.deadline = 0.0
        # How many bytes of it are counted among those of the worker.
        self.counted = 0
        # Whether another request may come, and whether the client has been told so.
        self.is_kept = True
        self.was_answered = False
        self._is_closing = False
        self._farewell = FAREWELL_BYTES

    def init(self) -> None:
        """Do nothing: it is ready from the beginning."""

    @property
    def buffered(self) -> int:
        """The bytes that are kept for it."""
        return len(self.parser.received) + len(self.sock.unsent)

    @property
    def has_ended(self) -> bool:
        """Whether the client will send nothing more."""
        return self.parser.received.has_ended

    def waits_for(self) -> Phase:
        if self.sock.unsent:
            return Phase.SENDING
        if self._is_closing:
            return Phase.CLOSING
        if self.parser.request is not None:
            return Phase.BODY
        return Phase.HEAD if self.parser.received else Phase.IDLE

    def receive(self) -> bool:
        """Take what has come, and tell whether a thread can go on with it."""
        is_body = self.parser.request is not None
        piece = self.sock.receive(MOST_BYTES if is_body else PIECE_BYTES)
        while piece:
            self.parser.received.feed(piece)
            piece = self.sock.receive(MOST_BYTES) if self.sock.pending() else None
        if piece is not None:
            self.parser.received.has_ended = True
        if self.parser.is_ready():
            return True
        if self.parser.expects_continue():
            # Whether the client is still there, the next read tells.
            with contextlib.suppress(OSError):
                self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return False

    def begin_closing(self) -> None:
        """Say that nothing more comes; to close before the client does would take answers back."""
        self._is_closing = True
        self.sock.shutdown(socket.SHUT_WR)

    def hear_out(self) -> bool:
        """Take no notice of what a client still says; tell whether that is over."""
        while piece := self.sock.receive(MOST_BYTES):
            self._farewell -= len(piece)
            if self._farewell < 0:
                return True
        return piece is not None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()
