"""Encrypts secrets, form tokens and the state of sign-ins, with keys derived from QM_SECRET_KEY."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.core.services import current
from app.users.second_factor.domain import UNREADABLE, CodeRefused


class Vault:
    """Seals values for a purpose. The first key encrypts; the others still decrypt."""

    def __init__(self, keys: list[str], clock: Callable[[], float]) -> None:
        fernets = []
        for key in keys:
            derive = HKDF(SHA256(), 32, salt=None, info=b"quartermaster second factor").derive
            fernets.append(Fernet(base64.urlsafe_b64encode(derive(key.encode()))))
        self._fernet = MultiFernet(fernets)
        # The database's clock: one machine may open what another has sealed.
        self._clock = clock

    def seal(self, purpose: str, *values: Any) -> str:
        content = orjson.dumps([purpose, *values])
        return self._fernet.encrypt_at_time(content, int(self._clock())).decode()

    def unseal(self, purpose: str, sealed: str, seconds: int | None = None) -> list[Any]:
        """Return the sealed values; raise CodeRefused if they are forged or too old."""
        try:
            if seconds is None:
                content = self._fernet.decrypt(sealed)
            else:
                content = self._fernet.decrypt_at_time(sealed, seconds, int(self._clock()))
        except (InvalidToken, ValueError):
            raise CodeRefused(UNREADABLE) from None
        found, *values = orjson.loads(content)
        if found != purpose:
            raise CodeRefused(UNREADABLE)
        return values


vault = current(Vault)
