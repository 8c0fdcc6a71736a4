"""The keys that sign access tokens."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.errors import QuartermasterError
from config import MIN_SECRET_LENGTH
from config.base import Settings


def signing_keys(settings: Settings) -> list[str]:
    """Return the signing keys: the configured or generated one, then former ones still accepted."""
    if settings.SECRET_KEY:
        return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    # In a file, generated once, so that tokens survive a restart.
    path = Path(settings.DATA_DIR) / "secret_key"
    way_out = "Remove it, or choose a key with QM_SECRET_KEY."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Create the file complete, in one step; of several processes, the first one does.
            with NamedTemporaryFile("w", dir=path.parent) as draft:
                draft.write(secrets.token_urlsafe(48))
                draft.flush()
                os.fsync(draft.fileno())
                with suppress(FileExistsError):
                    os.link(draft.name, path)
        key = path.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise QuartermasterError(f"{path} cannot be used: {error.strerror}. {way_out}") from error
    if len(key.strip()) < MIN_SECRET_LENGTH or not key.strip().isprintable():
        raise QuartermasterError(
            f"{path} contains no key of at least {MIN_SECRET_LENGTH} characters. {way_out}"
        )
    return [key, *settings.SECRET_KEY_FALLBACKS]
