"""Access tokens: signed, so that checking one costs no look-up."""

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

REMEMBERED = 4096
LONGEST = 512


class Claims(NamedTuple):
    """What an access token says: whose it is, of which chain of refresh tokens, and until when."""

    user_id: str
    chain: str
    expires_at: int


class AccessTokens:
    """Issues and checks access tokens. The first key signs; the others are still accepted."""

    def __init__(
        self, keys: list[str], lifetime: int, clock: Callable[[], float] | None = None
    ) -> None:
        self.lifetime = lifetime
        # One that all machines share: what one of them issues, another checks.
        self.now = clock or time.time
        newest_last = list(reversed(keys))
        self._signer = Signer(
            newest_last,
            salt="quartermaster access token",
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )
        # A caller shows the same token many times. Only good ones are remembered.
        self._verified = functools.lru_cache(REMEMBERED)(self._verify)

    def issue(self, user_id: str, chain: str, now: int) -> str:
        """Return a token that lives from now on."""
        payload = orjson.dumps([user_id, chain, now + self.lifetime])
        return self._signer.sign(base64_encode(payload)).decode()

    def check(self, token: str) -> Claims:
        """Return what a token says, or raise Unauthorized."""
        if len(token) > LONGEST:
            raise Unauthorized
        claims = self._verified(token)
        if claims.expires_at <= self.now():
            raise Unauthorized
        return claims

    def _verify(self, token: str) -> Claims:
        try:
            payload = self._signer.unsign(token)
            if not _is_ours(token.rpartition(".")[2]):
                raise Unauthorized
            return Claims(*orjson.loads(base64_decode(payload)))
        except (BadData, ValueError, TypeError):
            # A token of ours that says something else is of another version of this program.
            raise Unauthorized from None


def _is_ours(signature: str) -> bool:
    """Tell whether a signature is spelled as we spell it; a reader of base64 takes many spellings.

    It passes over padding, signs of other alphabets and the last bits. One token would be many.
    """
    return base64_encode(base64_decode(signature)).decode() == signature
