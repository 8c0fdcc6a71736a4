"""Stored passwords: argon2id over the upper-cased SHA-256 that clients send. Pure."""

from __future__ import annotations

import secrets

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

# The maximum of passes times KiB: a hundred times the usual cost, some seconds. A higher cost,
# stored by mistake, would block a thread for minutes.
MOST_WORK = 4_000_000


class Passwords:
    """Hashes and checks passwords with the given cost."""

    def __init__(self, time_cost: int, memory_kib: int, parallelism: int) -> None:
        self._hasher = PasswordHasher(time_cost, memory_kib, parallelism)
        # A hash at the current cost that matches no password.
        cost = f"$argon2id$v=19$m={memory_kib},t={time_cost},p={parallelism}"
        self._dummy = f"{cost}${secrets.token_hex(12)}${secrets.token_hex(22)}"

    def hash(self, sha256: str) -> str:
        return self._hasher.hash(sha256.upper())

    def matches(self, stored: str | None, sha256: str) -> bool:
        """Tell whether this is the password.

        Without a usable hash, it takes as long as a wrong password at the current cost: otherwise
        the time would reveal which accounts exist.
        """
        checked = stored if stored and _is_usable(stored) else self._dummy
        try:
            return self._hasher.verify(checked, sha256.upper())
        except (VerificationError, InvalidHashError):
            return False

    def hash_again(self, stored: str, sha256: str) -> str | None:
        """Return a hash at the current cost if the stored one has another."""
        return self.hash(sha256) if self._hasher.check_needs_rehash(stored) else None


def _is_usable(stored: str) -> bool:
    """Tell whether a password can be checked against a hash within a request."""
    try:
        cost = extract_parameters(stored)
    except InvalidHashError:
        return False
    return cost.time_cost * cost.memory_cost <= MOST_WORK
