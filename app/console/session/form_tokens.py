"""The tokens by which a form proves that it is from a page of the same session."""

from __future__ import annotations

import hashlib
import hmac
import secrets

SIZE = hashlib.sha256().digest_size


class FormTokens:
    """Makes and checks form tokens. The first key signs; the others are still accepted."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = [f"quartermaster form {key}".encode() for key in keys]

    def make(self, secret: str) -> str:
        """Return a token for a session's secret, another one each time.

        A page is compressed, and holds what a stranger may have put into a link. If the token were
        the same in each page, the sizes of pages would betray it letter by letter (BREACH); so it
        is combined with random bytes.
        """
        mask = secrets.token_bytes(SIZE)
        return (mask + _combined(mask, _digest(self._keys[0], secret))).hex()

    def check(self, secret: str, token: str) -> bool:
        """Tell whether a token was made for a session's secret."""
        try:
            parts = bytes.fromhex(token)
        except ValueError:
            return False
        digest = _combined(parts[:SIZE], parts[SIZE:])
        return any(hmac.compare_digest(_digest(key, secret), digest) for key in self._keys)


def _digest(key: bytes, secret: str) -> bytes:
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _combined(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))
