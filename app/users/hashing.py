"""Hashing and checking passwords within a request: in few places, and no longer than needed."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Protocol

from app.errors import QuartermasterError, Unavailable
from app.storage.password_costs import PasswordCosts, cost_of
from app.users.concurrency import ConcurrencyLimit
from app.users.passwords import Passwords

REMEMBERED = 10_000


class Guess(Protocol):
    """An attempt that is counted, and refused after too many failures."""

    def refuse_if_locked(self) -> None: ...

    def counted(self) -> AbstractContextManager[None]: ...


class Hasher:
    """What hashes passwords for one worker."""

    def __init__(
        self,
        passwords: Passwords,
        costs: PasswordCosts,
        concurrency: ConcurrencyLimit,
        seconds: float,
    ) -> None:
        self._passwords = passwords
        self._costs = costs
        self._concurrency = concurrency
        self._verified = Verified(seconds)

    def check(
        self, guess: Guess, stored: str | None, sha256: str, refusal: QuartermasterError
    ) -> None:
        """Raise the refusal unless this is the password, and count it among the failures."""
        with self.slot_for(guess, stored, sha256), guess.counted():
            if not self.matches(stored, sha256):
                raise refusal

    def slot_for(
        self, guess: Guess, stored: str | None = None, sha256: str = ""
    ) -> AbstractContextManager[None]:
        """Return the slot that an attempt needs, to be taken before the attempt is counted.

        Nobody waits here while others wait for its outcome. Whoever is locked out does not wait at
        all, and neither does who needs no place: both would keep others from theirs.
        """
        if stored and self._verified.has(stored, sha256):
            return nullcontext()
        guess.refuse_if_locked()
        return self._concurrency.slot()

    def hash(self, sha256: str) -> str:
        with self._concurrency.slot():
            self._costs.note(self._passwords.cost)
            return self._passwords.hash(sha256)

    def renewed(self, stored: str, sha256: str) -> str | None:
        """Return a hash at today's cost in the place of one that is not; another time will do."""
        if not self._passwords.is_outdated(stored):
            return None
        try:
            return self.hash(sha256)
        except Unavailable:
            return None

    def matches(self, stored: str | None, sha256: str) -> bool:
        """Tell whether this is the password; that it is not takes as long whoever is asked for.

        Hashes may have been made at several costs. A wrong password is hashed at each of them, be
        it nobody's: otherwise the time would tell who has an account, and since when.
        """
        if stored and self._verified.has(stored, sha256):
            return True
        with self._concurrency.slot():
            own = cost_of(stored)
            self._costs.note(own)
            # A hash that nobody can compute in time is nobody's password.
            if stored and own and self._passwords.matches(stored, sha256):
                self._verified.add(stored, sha256)
                return True
            for cost in ({*self._costs.in_use(), self._passwords.cost}) - {own}:
                self._passwords.hash_in_vain(cost, sha256)
        return False


class Verified:
    """Passwords that were right a moment ago; clients that sign in for every call are normal.

    Nothing of them is kept but a digest, under a key that this process alone has. The stored hash
    is part of it: when the password changes, it changes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._key = secrets.token_bytes(32)
        self._until: dict[bytes, float] = {}

    def has(self, stored: str, sha256: str) -> bool:
        return monotonic() < self._until.get(self._digest(stored, sha256), 0.0)

    def add(self, stored: str, sha256: str) -> None:
        if len(self._until) >= REMEMBERED:
            self._until.clear()
        self._until[self._digest(stored, sha256)] = monotonic() + self._seconds

    def _digest(self, stored: str, sha256: str) -> bytes:
        said = f"{sha256.upper()} {stored}".encode()
        return hashlib.blake2b(said, key=self._key, digest_size=32).digest()
