"""Decides from the received bytes whether a request is complete, before a thread parses it.

gunicorn's own parser alone decides where a request begins and ends: it reads head and body from
memory, and the bytes behind them are the next request. This module only decides when that parser
can run without waiting for more bytes. A second parser that split the bytes into requests might
split them differently, which would allow request smuggling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gunicorn.http.body import DEFAULT_MAX_CHUNK_SIZE_LINE, LengthReader
from gunicorn.http.errors import InvalidChunkSize, LimitRequestHeaders, NoMoreData
from gunicorn.http.parser import RequestParser

from app.http.uploads import STREAMED_PATHS

# The longest request line and headers together.
HEAD_BYTES = 64 * 1024
# The framing of a chunked body: sizes, extensions, line ends and trailers.
FRAMING_BYTES = 64 * 1024
# gunicorn searches and copies its buffer for every chunk, so it gets small pieces.
PIECE_BYTES = 8192
# How far gunicorn reads a chunked body ahead of the application.
READ_AHEAD_BYTES = 1024

_CRLF = b"\r\n"
_HEAD_END = b"\r\n\r\n"
_BARE_LF = re.compile(rb"(?<!\r)\n")
_HEX = re.compile(rb"[0-9a-fA-F]+")


class BodyLimits(NamedTuple):
    """The largest body in bytes that is received before a thread gets its request.

    And the largest that the thread reads as a stream, which only some paths take, and for how long.
    """

    buffered: int
    streamed: int
    seconds: float
    # How long a client may take to read an answer that is made piece by piece.
    send_seconds: float = 30.0


class IncompleteError(Exception):
    """gunicorn's parser needs more bytes than have been received."""


class TooFragmentedError(InvalidChunkSize):
    """Too much framing: a body of tiny chunks costs the server more than its sender."""

    def __str__(self) -> str:
        return f"More than {FRAMING_BYTES} bytes around the chunks of a body."


class ReceiveBuffer:
    """The received bytes that are not parsed yet, in place of gunicorn's unreader of a socket.

    Offsets count from the first unread byte.
    """

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""
        self._at = 0
        self.has_ended = False
        # Waits for more bytes of a body that is read as a stream, in the thread that reads it.
        self.receive_more: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._data) - self._at

    def feed(self, piece: bytes) -> None:
        if self._at == len(self._data):
            self._data, self._at = piece, 0
            return
        # A bytearray grows without a copy for each piece, which may be a single byte.
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        del self._data[: self._at]
        self._at = 0
        self._data += piece

    def read(self, size: int | None = None, read_ahead: int | None = None) -> bytes:
        """Return size bytes, or some if size is None; fewer only at the end of the stream."""
        least = 1 if size is None else size
        while self.receive_more and len(self) < least and not self.has_ended:
            self.receive_more()
        if len(self) < least and not self.has_ended:
            raise IncompleteError
        most = max(PIECE_BYTES, read_ahead or 0) if size is None else size
        piece = self.peek(0, most)
        self._at += len(piece)
        return piece

    def unread(self, data: bytes) -> None:
        """Put back the end of what was read."""
        self._at -= len(data)
        if not self._data.startswith(data, max(0, self._at)):
            raise ValueError("Only the bytes that were read last can be put back.")

    def skip(self, count: int) -> None:
        self._at += count

    def peek(self, start: int, size: int) -> bytes:
        start += self._at
        return bytes(self._data[start : start + size])

    def find(self, text: bytes, start: int) -> int:
        return max(-1, self._data.find(text, self._at + max(0, start)) - self._at)

    def has_bare_lf(self, start: int) -> bool:
        return _BARE_LF.search(self._data, self._at + start) is not None


class Chunks:
    """Finds the end of a chunked body as it arrives, and looks at each byte once."""

    def __init__(self, received: ReceiveBuffer, max_content: int) -> None:
        self._received = received
        self._max_content = max_content
        self.are_whole = False
        # Where the content of the current chunk ends; as if one had ended before the first.
        self._end = -len(_CRLF)
        self._framing = 0
        self._searched = 0
        self._trailers: int | None = None

    def are_decided(self) -> bool:
        """Return whether the chunks are complete, malformed, or larger than allowed."""
        while self._trailers is None:
            if len(self._received) < self._end + len(_CRLF):
                return len(self._received) - self._framing > self._max_content
            if self._end >= 0 and self._received.peek(self._end, 2) != _CRLF:
                return True
            start = self._end + len(_CRLF)
            if start - self._framing > self._max_content:
                return True
            end = self._received.find(_CRLF, max(start, self._searched))
            if end < 0:
                self._searched = max(start, len(self._received) - 1)
                return len(self._received) - start > DEFAULT_MAX_CHUNK_SIZE_LINE
            if not self._begin_chunk(self._received.peek(start, end - start), end + len(_CRLF)):
                return True
        return self._trailers_are_decided(self._trailers)

    def _begin_chunk(self, line: bytes, start: int) -> bool:
        """Read the size line of a chunk that begins at start; return False if it is malformed."""
        self._framing += len(line) + 2 * len(_CRLF)
        if self._framing > FRAMING_BYTES:
            raise TooFragmentedError(b"")
        text, semicolon, _ = line.partition(b";")
        if not _HEX.fullmatch(text.rstrip(b" \t") if semicolon else text):
            return False
        size = int(text, 16)
        self._end = start + size
        if size == 0:
            self._trailers = self._searched = start
        return True

    def _trailers_are_decided(self, start: int) -> bool:
        received = self._received
        self.are_whole = (
            received.peek(start, 2) == _CRLF or received.find(_HEAD_END, self._searched - 3) >= 0
        )
        if self.are_whole:
            return True
        if self._framing + len(received) - start > FRAMING_BYTES:
            raise TooFragmentedError(b"")
        is_wrong = received.has_bare_lf(self._searched)
        self._searched = len(received)
        return is_wrong


class RequestReader(RequestParser):
    """gunicorn's parser on a buffer, with a check that the buffer holds a complete request."""

    def __init__(self, cfg: Any, client: Any, limits: BodyLimits) -> None:
        super().__init__(cfg, (), client)
        self.unreader = self.received = ReceiveBuffer()
        self._limits = limits
        self._begin()

    def _begin(self) -> None:
        self.request: Any = None
        self._error: Exception | None = None
        self._chunks: Chunks | None = None
        self._searched = 0

    def is_ready(self) -> bool:
        """Return whether a request can be parsed to its end, or refused, without more bytes."""
        if self._error is not None:
            return True
        try:
            if self.request is None and self._head_is_decided():
                self._read_head()
            return self.request is not None and self._body_is_decided()
        except Exception as error:  # __next__ raises it in the thread.
            self._error = error
            return True

    @property
    def ended_without_request(self) -> bool:
        """Whether the client has closed without sending a request, and gets no answer."""
        return isinstance(self._error, (StopIteration, NoMoreData))

    def expects_continue(self) -> bool:
        """Return, once per request, whether the client waits for 100 Continue."""
        if self.request is None or not self.request._expected_100_continue:
            return False
        self.request._expected_100_continue = False
        return True

    def __next__(self) -> Any:
        """Return the request that is ready."""
        if self._error is not None:
            raise self._error
        # The body has been received: gunicorn must not send 100 Continue.
        self.request._expected_100_continue = False
        return self.request

    def finish_body(self, deadline: float | None = None, max_bytes: int | None = None) -> bool:
        """Skip the unread rest of the body; return False if the connection must close."""
        body = self.request.body
        if body.failed or self.request.must_close:
            return False
        if isinstance(body.reader, LengthReader):
            self.received.skip(body.reader.length)
        else:
            try:
                while body.read(PIECE_BYTES):
                    pass
            except Exception:  # gunicorn raises many kinds here.
                return False
        self._begin()
        return True

    def _head_is_decided(self) -> bool:
        received = self.received
        if received.find(_HEAD_END, self._searched - 3) >= 0 or received.has_ended:
            return True
        is_wrong = received.has_bare_lf(self._searched)
        self._searched = len(received)
        return is_wrong or len(received) > HEAD_BYTES

    def _read_head(self) -> None:
        self.req_count += 1
        try:
            self.mesg = self.mesg_class(self.cfg, self.received, self.source_addr, self.req_count)
        except IncompleteError:
            raise LimitRequestHeaders("limit request head size") from None
        self.request = self.mesg

    @property
    def is_streamed(self) -> bool:
        """Whether a thread reads the body while it arrives, because it may be large."""
        if self.request is None or self.request.path.rstrip("/") not in STREAMED_PATHS:
            return False
        reader = self.request.body.reader
        if isinstance(reader, LengthReader):
            return bool(self._limits.buffered < reader.length <= self._limits.streamed)
        return True

    def _body_is_decided(self) -> bool:
        reader, received = self.request.body.reader, self.received
        if self.is_streamed:
            # The thread may end before it has read all.
            self.request.force_close()
            return True
        if isinstance(reader, LengthReader):
            is_whole = len(received) >= reader.length
            is_decided = is_whole or received.has_ended or reader.length > self._limits.buffered
        else:
            if self._chunks is None:
                self._chunks = Chunks(received, self._limits.buffered + READ_AHEAD_BYTES)
            is_decided = self._chunks.are_decided() or received.has_ended
            is_whole = self._chunks.are_whole
        if is_decided and not is_whole:
            # The start of the next request is unknown.
            self.request.force_close()
        return is_decided
