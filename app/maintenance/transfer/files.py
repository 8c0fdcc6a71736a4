"""The files that export writes: atomically, and with mode 600 if they hold secrets."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from app.core.errors import Conflict


@contextmanager
def open_output(path: str, is_secret: bool) -> Iterator[IO[bytes]]:
    """Open a file that is renamed to its path when it is complete; - is standard output.

    A symlink at path is replaced, not followed: another user may have planted it. A program that is
    killed leaves its unfinished file.
    """
    if path in ("-", "/dev/stdout"):
        mode = 0
        with suppress(OSError):
            mode = os.fstat(sys.stdout.fileno()).st_mode
        # A redirection into a file: its mode, set by the shell, may let others read it.
        if is_secret and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Conflict(
                "Standard output is a file that others can read, and the records are secret: give "
                "a FILE, or set umask 077 first."
            )
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if Path(path).exists() and not Path(path).is_file():
        # Write directly to a device or a FIFO: a rename would replace it.
        with Path(path).open("wb") as file:
            yield file
        return
    if not Path(path).parent.is_dir():
        raise Conflict(f"There is no folder {Path(path).parent}.")
    # O_EXCL fails on an existing file and follows no symlink, so there is no TOCTOU race.
    temporary = Path(f"{path}.{secrets.token_hex(8)}.part")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_secret else 0o666
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            # After a power failure, a file must not have its name without its content.
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
