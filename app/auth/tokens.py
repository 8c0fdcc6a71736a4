"""Access tokens: signed, so that they are verified without the database."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

import orjson
from itsdangerous import BadData, Signer
from itsdangerous.encoding import base64_decode, base64_encode

from app.errors import Unauthorized

CACHE_SIZE = 4096
LONGEST = 512


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
        if len(token) > LONGEST:
            raise Unauthorized
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
