"""The files that export writes: atomically, and with mode 600 if they hold secrets."""

from __future__ import annotations

import fcntl
import glob
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

    A symlink at path is replaced, not followed: another user may have planted it.
    """
    if path == "-" or _is_stdout(path):
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
    is_special = Path(path).exists() and not Path(path).is_file()
    # Write directly to a device or a FIFO: a rename would replace it.
    with Path(path).open("wb") if is_special else _renamed_when_complete(path, is_secret) as file:
        yield file


@contextmanager
def _renamed_when_complete(path: str, is_secret: bool) -> Iterator[IO[bytes]]:
    if not Path(path).parent.is_dir():
        raise Conflict(f"There is no folder {Path(path).parent}.")
    _remove_abandoned(Path(path))
    # O_EXCL fails on an existing file and follows no symlink, so there is no TOCTOU race.
    temporary = Path(f"{path}.{secrets.token_hex(8)}.part")
    mode = 0o600 if is_secret else 0o666
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            # After a power failure, a file must not have its name without its content.
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove the unfinished files of programs that were killed: nobody has locked them."""
    for part in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError):
            # A file that another user has planted is neither followed nor waited for.
            descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(descriptor)


def _is_stdout(path: str) -> bool:
    """Tell whether a path, such as /dev/stdout, is the same file as standard output."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, AttributeError):  # no such file, or standard output is closed or replaced
        return False
