"""The stylesheet, the modules and the icon of the console."""

from __future__ import annotations

import hashlib
from mimetypes import guess_type
from pathlib import Path

from flask import Response

from app.auth import guard
from app.core.errors import NotFound

FOLDER = Path(__file__).with_name("files")
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
# Of all files. It is part of their paths: files of another release do not fit the page.
DIGEST = hashlib.sha256(repr(FILES).encode()).hexdigest()[:12]
HEADERS = {
    # A changed file has another digest and so another path: browsers may cache it for ever.
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


def file_path(name: str) -> str:
    return f"/console/files/{DIGEST}/{name}"


@guard.without_database
def get_file(name: str) -> Response:
    """Send a file."""
    if name not in FILES:
        raise NotFound("file", name, "There is no such file.")
    return Response(FILES[name], headers=HEADERS, mimetype=guess_type(name)[0])
