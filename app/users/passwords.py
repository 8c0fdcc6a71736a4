"""Stored passwords: argon2id over the upper-cased SHA-256 that clients send. Pure."""

from __future__ import annotations

import re
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# The maximum of passes times KiB: a hundred times the usual cost, some seconds. A higher cost,
# stored by mistake, would block a thread for minutes.
MOST_WORK = 4_000_000
_COST = re.compile(r"\$argon2(?:id?|d)\$v=\d+\$m=(\d{1,10}),t=(\d{1,10}),p=\d{1,3}", re.ASCII)


def cost_of(stored: str | None) -> str | None:
    """Return the part of a hash that encodes its cost: all but the salt and the digest."""
    cost, _, rest = (stored or "").rpartition("$")[0].rpartition("$")
    return cost if rest and is_usable(cost) else None


def is_usable(cost: str) -> bool:
    """Tell whether a password can be hashed at a cost within a request."""
    found = _COST.fullmatch(cost)
    return found is not None and int(found[1]) * int(found[2]) <= MOST_WORK


class Passwords:
    """Hashes and checks passwords with the given cost."""

    def __init__(self, time_cost: int, memory_kib: int, parallelism: int) -> None:
        self._hasher = PasswordHasher(time_cost, memory_kib, parallelism)
        # The prefix of hashes at the current cost.
        self.cost = f"$argon2id$v=19$m={memory_kib},t={time_cost},p={parallelism}"
        # A salt and a digest that match no password.
        self._dummy = f"{secrets.token_hex(12)}${secrets.token_hex(22)}"

    def hash(self, sha256: str) -> str:
        return self._hasher.hash(sha256.upper())

    def matches(self, stored: str, sha256: str) -> bool:
        try:
            return self._hasher.verify(stored, sha256.upper())
        except (VerificationError, InvalidHashError):
            return False

    def spend_time(self, cost: str, sha256: str) -> None:
        """Take as long as checking a password against a hash of this cost."""
        self.matches(f"{cost}${self._dummy}", sha256)

    def is_outdated(self, stored: str) -> bool:
        """Tell whether the cost of a hash differs from the current cost."""
        return self._hasher.check_needs_rehash(stored)
