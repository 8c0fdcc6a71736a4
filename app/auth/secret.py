"""The keys that sign access tokens."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path


def signing_keys(chosen: str | None, fallbacks: list[str], data_dir: str) -> list[str]:
    """Return the key that signs, then those still accepted; a key of our own where none is set."""
    return [chosen or _kept_key(Path(data_dir)), *fallbacks]


def _kept_key(folder: Path) -> str:
    """Make a key once and keep it, so that tokens outlive a restart and all workers agree."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "secret_key"
    draft = folder / f"secret_key.{secrets.token_hex(4)}"
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48))
        # Of several first workers, one wins the name, and all read the winner's.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text()
