"""Stored passwords: argon2id over the upper-cased SHA-256 that clients send. Pure."""

from __future__ import annotations

import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError


class Passwords:
    """Hashes and checks passwords with the given cost."""

    def __init__(self, time_cost: int, memory_kib: int, parallelism: int) -> None:
        self._hasher = PasswordHasher(time_cost, memory_kib, parallelism)
        # Checked for accounts that do not exist, so that time tells nothing.
        self._nobodys = self.hash(secrets.token_hex(32))

    def hash(self, sha256: str) -> str:
        return self._hasher.hash(sha256.upper())

    def matches(self, stored: str | None, sha256: str) -> bool:
        """Tell whether this is the password; nobody's password takes as long to be wrong."""
        try:
            self._hasher.verify(stored or self._nobodys, sha256.upper())
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Tell whether a hash was made at another cost than today's."""
        return self._hasher.check_needs_rehash(stored)
