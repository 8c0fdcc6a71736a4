"""Bodies that are larger than memory should hold: received and sent piece by piece."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from flask import Response, copy_current_request_context, current_app, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import (
    NEED_DATA,
    Data,
    Epilogue,
    Event,
    Field,
    File,
    MultipartDecoder,
)

from app.errors import Invalid, InvalidField
from app.http.context import current
from app.http.parser import MAX_FIELDS, ONCE, PIECE_BYTES, body_pieces
from app.limits import Limiter
from app.request_scope import resumable, working

# The pieces of an answer, and its headers.
Pieces = tuple[Iterable[bytes], Mapping[str, str]]

# The paths whose bodies are read as streams.
STREAMED_PATHS = ("/api/v1/batches", "/console/batches")
MULTIPART = "multipart/form-data"
# Of all fields of a form that come before its file.
FIELDS_BYTES = 64 * 1024


class UploadPlaces(Limiter):
    """The bodies that one worker receives at a time, a quarter of them from one account at most.

    So a slow sender does not keep others from sending.
    """

    def __init__(self, places: int) -> None:
        own = "You send other batches", max(1, places // 4)
        super().__init__("Others send batches", places, own=own)


class DownloadPlaces(Limiter):
    """The answers that one worker sends at a time, as fast as clients read them."""

    def __init__(self, places: int) -> None:
        own = "You load other files", max(1, places // 2)
        super().__init__("Others load files", places, own=own)


upload_places = current(UploadPlaces)
download_places = current(DownloadPlaces)


class Upload(NamedTuple):
    """A body in a file, and its SHA-256."""

    file: BinaryIO
    digest: str


@contextmanager
def upload(sender: str) -> Iterator[Upload]:
    """Yield the body of this request, all of it, or raise; the file ends with the block."""
    with _kept(_pieces(sender)) as body:
        yield body


def download(begin: Callable[[], Pieces], reader: str, **options: Any) -> Response:
    """Return an answer that is made while it is sent; it holds a place until then, or raises.

    Begin returns its pieces and headers, and is called when there is a place. Each piece is made in
    the context of the current request, and may take as long as a request.
    """
    with ExitStack() as held:
        held.enter_context(working(download_places, reader))
        pieces, headers = begin()
        body = (piece for piece in pieces)
        held.callback(resumable(body.close))
        step = resumable(copy_current_request_context(partial(next, body, None)))
        response = Response(iter(step, None), headers=dict(headers), **options)
        response.call_on_close(held.pop_all().close)
        return response


class FormUpload:
    """A form with one file, read while it arrives: the fields before the file, and then the file.

    So a form that is refused by its token is refused before its file has been read.
    """

    def __init__(self, sender: str) -> None:
        self._pieces = _pieces(sender)
        self._events = _decoded(self._pieces)
        try:
            self.fields = dict(self._fields())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Read no more, and free the place among those who receive bodies."""
        self._pieces.close()

    def _fields(self) -> Iterator[tuple[str, str]]:
        names: set[str] = set()
        name, value, size = "", bytearray(), 0
        for event in self._events:
            if isinstance(event, File):
                return
            if isinstance(event, Field):
                name, value = event.name or "", bytearray()
                if name in names:
                    raise InvalidField(name, ONCE)
                names.add(name)
            elif isinstance(event, Data):
                value += event.data
                size += len(event.data)
                if size > FIELDS_BYTES:
                    raise RequestEntityTooLarge
                if not event.more_data:
                    yield name, value.decode(errors="replace")

    @contextmanager
    def file(self) -> Iterator[Upload]:
        """Yield the file, all of it, or raise; it is empty if the form has none."""
        with _kept(self._content()) as content:
            self.close()
            yield content

    def _content(self) -> Iterator[bytes]:
        for event in self._events:
            if isinstance(event, Data):
                yield event.data
                if not event.more_data:
                    return


def _decoded(pieces: Iterator[bytes]) -> Iterator[Event]:
    boundary = request.mimetype_params.get("boundary", "")
    try:
        decoder = MultipartDecoder(boundary.encode("ascii"), 4 * PIECE_BYTES, max_parts=MAX_FIELDS)
        for piece in pieces:
            decoder.receive_data(piece)
            yield from iter(decoder.next_event, NEED_DATA)
        decoder.receive_data(None)
        while not isinstance(event := decoder.next_event(), Epilogue):
            yield event
    except ValueError:
        raise Invalid("The request body is not a valid form.") from None


@contextmanager
def _kept(pieces: Iterator[bytes]) -> Iterator[Upload]:
    """Yield a temporary file with some bytes; it ends with the block."""
    with tempfile.TemporaryFile() as file:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        file.seek(0)
        yield Upload(file, digest.hexdigest())


def _pieces(sender: str) -> Generator[bytes]:
    """Yield the body of this request, which may be as large as a batch."""
    with working(upload_places, sender):
        yield from body_pieces(current_app.config["BATCH_CONTENT_LENGTH"])
