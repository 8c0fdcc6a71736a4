"""The stylesheet, the modules and the icon of the console."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flask import Response

from app.auth import guard
from app.core.errors import NotFound

FOLDER = Path(__file__).with_name("files")
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
# Of all files; it is part of their paths.
DIGEST = hashlib.sha256(repr(FILES).encode()).hexdigest()[:12]
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # A changed file has another digest and so another path: browsers may cache it for ever.
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


def file_path(name: str) -> str:
    return f"/console/files/{DIGEST}/{name}"


@guard.without_database
def get_file(digest: str, name: str) -> Response:
    """Send a file. The digest of another release is not found: its files do not fit the page."""
    if name not in FILES or digest != DIGEST:
        raise NotFound("file", name, "There is no such file.")
    return Response(FILES[name], headers=HEADERS, content_type=TYPES[Path(name).suffix])
