"""The cursors of lists: positions in an order, signed so that clients cannot forge them."""

from __future__ import annotations

import hashlib

from itsdangerous import BadData, Signer
from itsdangerous.encoding import base64_decode, base64_encode

from app.core.errors import InvalidCursor
from app.core.services import current


class Cursors:
    """Encodes and decodes cursors. The first key signs; the others are only accepted."""

    def __init__(self, keys: list[str]) -> None:
        self._signer = Signer(
            list(reversed(keys)),
            salt="quartermaster cursor",
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )

    def write(self, position: bytes | None) -> str | None:
        """Return the cursor of the next page; None on the last page."""
        return None if position is None else self._signer.sign(base64_encode(position)).decode()

    def read(self, text: str) -> bytes:
        """Return the position in a cursor; an empty text is the beginning of the list."""
        try:
            return base64_decode(self._signer.unsign(text)) if text else b""
        except (BadData, ValueError):
            raise InvalidCursor("Is not a cursor of this service.") from None


cursors = current(Cursors)
