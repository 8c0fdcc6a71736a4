"""Bodies that are too large for memory: received and sent in pieces."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, BinaryIO, NamedTuple, cast

from flask import Response, copy_current_request_context, current_app, request

from app.core.errors import Invalid
from app.core.limits import Limiter, resumable, working
from app.http.context import current
from app.http.lenient import refuse_repeated
from app.http.parser import MAX_FIELDS, PIECE_BYTES, body_pieces

# The pieces of a response body, and its headers.
Pieces = tuple[Iterable[bytes], Mapping[str, str]]

# The path of the page whose form may contain a file.
FORM_PATH = "/console/batches/new/file"
MULTIPART = "multipart/form-data"
# The maximum size of all form fields except the file.
FIELDS_BYTES = 64 * 1024


class UploadPlaces(Limiter):
    """The bodies that one worker receives concurrently, at most a quarter of them from one account.

    So a slow sender does not block others.
    """


class DownloadPlaces(Limiter):
    """The responses that one worker streams concurrently, as fast as clients read them."""


upload_places = current(UploadPlaces)
download_places = current(DownloadPlaces)


class Upload(NamedTuple):
    """A body in a temporary file, and its SHA-256."""

    file: BinaryIO
    digest: str


@contextmanager
def upload(sender: str) -> Iterator[Upload]:
    """Yield the complete body of this request, or raise; the file is deleted after the block."""
    with tempfile.TemporaryFile() as file:
        with working(upload_places, sender):
            file.writelines(body_pieces(current_app.config["BATCH_CONTENT_LENGTH"]))
        yield _with_digest(file)


def _with_digest(file: BinaryIO) -> Upload:
    file.seek(0)
    digest = hashlib.sha256()
    for piece in iter(partial(file.read, PIECE_BYTES), b""):
        digest.update(piece)
    file.seek(0)
    return Upload(file, digest.hexdigest())


def download(begin: Callable[[], Pieces], reader: str, **options: Any) -> Response:
    """Return a streamed response. It holds a place until it is sent; without a free one, raise.

    begin returns the pieces and the headers, and is called once there is a place. Each piece is
    produced in the context of the current request, and has the time limit of a request.
    """
    with ExitStack() as held:
        held.enter_context(working(download_places, reader))
        pieces, headers = begin()
        body = (piece for piece in pieces)
        held.callback(resumable(body.close))
        step = resumable(copy_current_request_context(partial(next, body, None)))
        response = Response(iter(step, None), headers=headers, **options)
        response.call_on_close(held.pop_all().close)
        return response


def is_form_with_file() -> bool:
    """Return whether this request is a form with a file, on the path that accepts one."""
    return request.mimetype == MULTIPART and request.path.rstrip("/") == FORM_PATH


def read_form_with_file(sender: str) -> dict[str, str]:
    """Return the fields of the form; Flask keeps its file on disk until the request ends."""
    request.max_content_length = current_app.config["BATCH_CONTENT_LENGTH"]
    request.max_form_memory_size, request.max_form_parts = FIELDS_BYTES, MAX_FIELDS
    with working(upload_places, sender):
        fields = request.form
    if not fields:  # Werkzeug returns no fields for a form that it cannot parse
        raise Invalid("The request body is not a valid form.")
    refuse_repeated(name for name in fields if len(fields.getlist(name)) > 1)
    return fields.to_dict()


def form_file() -> Upload | None:
    """Return the file of the parsed form; None if there is none."""
    sent = request.files.get("file")
    return _with_digest(cast(BinaryIO, sent.stream)) if sent else None
