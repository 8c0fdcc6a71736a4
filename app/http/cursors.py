"""The cursors of lists: places in an order, signed, so that none but ours comes back to us."""

from __future__ import annotations

import hashlib

from itsdangerous import BadData, Signer
from itsdangerous.encoding import base64_decode, base64_encode

from app.errors import InvalidCursor


class Cursors:
    """Writes and reads cursors. The first key signs; the others are still accepted."""

    def __init__(self, keys: list[str]) -> None:
        self._signer = Signer(
            list(reversed(keys)),
            salt="quartermaster cursor",
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )

    def write(self, place: bytes | None) -> str | None:
        """Return the Next of a page; none where there is no more."""
        return None if place is None else self._signer.sign(base64_encode(place)).decode()

    def read(self, text: str) -> bytes:
        """Return the place that a Next of ours means; no text is the beginning."""
        try:
            return base64_decode(self._signer.unsign(text)) if text else b""
        except (BadData, ValueError):
            raise InvalidCursor("Is not a Next that this service gave.") from None
