"""The stylesheet, the modules and the icon of the console."""

from __future__ import annotations

import functools
import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from flask import Blueprint, Response, request

from app.auth import guard
from app.errors import NotFound

FOLDER = Path(__file__).with_name("files")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Under another digest a file has another path, so a browser need never ask again.
FOR_EVER = "public, max-age=31536000, immutable"


class File(NamedTuple):
    """A file, and what it is compressed to."""

    content_type: str
    content: bytes
    compressed: bytes


class Files(NamedTuple):
    """All files by name, and the digest of all that is part of their paths."""

    digest: str
    by_name: dict[str, File]


@functools.cache
def files() -> Files:
    """Return all files, read once."""
    by_name = {}
    digest = hashlib.sha256()
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            content = path.read_bytes()
            digest.update(path.name.encode() + content)
            # Without a time in it, equal files are compressed to equal bytes.
            compressed = gzip.compress(content, mtime=0)
            by_name[path.name] = File(TYPES[path.suffix], content, compressed)
    return Files(digest.hexdigest()[:12], by_name)


def file_path(name: str) -> str:
    """Return the path of a file."""
    return f"/console/files/{files().digest}/{name}"


def register(blp: Blueprint) -> None:
    blp.add_url_rule("/files/<digest>/<name>", view_func=get_file)


@guard.without_database
def get_file(digest: str, name: str) -> Response:
    """Send a file. One of another release is not found: it would not fit the page."""
    found = files().by_name.get(name)
    if found is None or digest != files().digest:
        raise NotFound("file", name, "There is no such file.")
    headers = {
        "Cache-Control": FOR_EVER,
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if accepts_gzip():
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, headers=headers, content_type=found.content_type)
    return Response(found.content, headers=headers, content_type=found.content_type)


def accepts_gzip() -> bool:
    return bool(request.accept_encodings["gzip"])
