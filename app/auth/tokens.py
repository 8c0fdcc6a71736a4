"""Access tokens: signed, so that they are verified without the database; and their keys."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import orjson
from itsdangerous import BadData, Signer
from itsdangerous.encoding import base64_decode, base64_encode

from app.core.errors import QuartermasterError, Unauthorized
from app.core.services import current
from config import MIN_SECRET_LENGTH
from config.base import Settings

CACHE_SIZE = 4096


class Claims(NamedTuple):
    """The content of an access token: the user, the chain of refresh tokens, and the expiry."""

    user_id: str
    chain: str
    expires_at: int


class AccessTokens:
    """Issues and checks access tokens. The first key signs; the others are only accepted."""

    def __init__(
        self, keys: list[str], lifetime: int, clock: Callable[[], float] | None = None
    ) -> None:
        self.lifetime = lifetime
        # The database's clock: one machine may check tokens that another has issued.
        self.now = clock or time.time
        newest_last = list(reversed(keys))
        self._signer = Signer(
            newest_last,
            salt="quartermaster access token",
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )
        # A caller sends the same token many times. lru_cache does not cache exceptions.
        self._verified = functools.lru_cache(CACHE_SIZE)(self._verify)

    def issue(self, user_id: str, chain: str, now: int) -> str:
        """Return a token whose lifetime starts now."""
        payload = orjson.dumps([user_id, chain, now + self.lifetime])
        return self._signer.sign(base64_encode(payload)).decode()

    def check(self, token: str) -> Claims:
        claims = self._verified(token)
        if claims.expires_at <= self.now():
            raise Unauthorized
        return claims

    def _verify(self, token: str) -> Claims:
        try:
            payload = self._signer.unsign(token)
            # The decoder ignores padding, foreign characters and trailing bits. So one token could
            # be written in many ways, each with its own cache entry.
            signature = token.rpartition(".")[2]
            if base64_encode(base64_decode(signature)).decode() != signature:
                raise Unauthorized
            return Claims(*orjson.loads(base64_decode(payload)))
        except (BadData, ValueError, TypeError):
            # TypeError: a token with other claims, issued by another version of this program.
            raise Unauthorized from None


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


access_tokens = current(AccessTokens)
