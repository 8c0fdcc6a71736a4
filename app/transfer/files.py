"""The files that export writes: complete or absent, and not readable by others if secret."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from app.errors import Conflict


@contextmanager
def opened_output(path: str, is_secret: bool) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when all is written, and leaves the former one until then.

    A link of that name is replaced and not followed: somebody else may have put it there.
    """
    if path == "-" or _is_stdout(path):
        if is_secret:
            _refuse_open_stdout()
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if Path(path).exists() and not Path(path).is_file():  # a device or a pipe keeps its name
        with Path(path).open("wb") as file:
            yield file
        return
    if not Path(path).parent.is_dir():
        raise Conflict(f"There is no folder {Path(path).parent}.")
    # A draft for each export, and never one that is there already: O_EXCL follows no link.
    draft = Path(f"{path}.{secrets.token_hex(8)}.part")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_secret else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _is_stdout(path: str) -> bool:
    """Tell whether a path such as /dev/stdout leads to standard output, wherever that goes."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(sys.stdout.fileno()))
    except OSError:  # there is no such file, or a caller in this process reads what we print
        return False


def _refuse_open_stdout() -> None:
    """Refuse to fill a file that the shell has made for everybody to read."""
    with suppress(OSError):
        found = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISREG(found) and found & (stat.S_IRWXG | stat.S_IRWXO):
            raise Conflict(
                "Standard output is a file that others can read, and accounts come with their "
                "password hashes: name the FILE, or set umask 077 before."
            )
