"""The keys that sign access tokens."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from pathlib import Path

from app.errors import QuartermasterError
from config import MIN_SECRET_LENGTH
from config.base import Settings

log = logging.getLogger("quartermaster")


def signing_keys(settings: Settings) -> list[str]:
    """Return the signing keys: the configured or generated one, then former ones still accepted."""
    key = settings.SECRET_KEY or _key_from_file(Path(settings.DATA_DIR))
    return [key, *settings.SECRET_KEY_FALLBACKS]


def _key_from_file(folder: Path) -> str:
    """Return the key in a file, generated once, so that tokens survive a restart."""
    path = folder / "secret_key"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # If several workers start together, one of them generates the key.
            fcntl.flock(handle, fcntl.LOCK_EX)
            return _read(path) or _generate(path)
        finally:
            os.close(handle)
    except OSError as error:
        way_out = "Remove it, or choose a key with QM_SECRET_KEY."
        raise QuartermasterError(f"{path} cannot be used: {error.strerror}. {way_out}") from error


def _read(path: Path) -> str | None:
    """Return the key in the file; None if a full disk or a crash left it empty or full of zeros."""
    try:
        key = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        key = ""
    if len(key.strip()) >= MIN_SECRET_LENGTH and key.strip().isprintable():
        return key
    log.warning(
        "%s contained no key of at least %s characters: created a new one.", path, MIN_SECRET_LENGTH
    )
    return None


def _generate(path: Path) -> str:
    key = secrets.token_urlsafe(48)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        draft.touch(mode=0o600, exist_ok=False)
        with draft.open("w") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return key
