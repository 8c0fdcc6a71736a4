"""Hashes and checks passwords in requests: few at a time, in constant time, with a cache."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from cachetools import TTLCache

from app.auth.guesses import Guess, attempt
from app.core.errors import QuartermasterError
from app.core.limits import Limiter, working
from app.core.services import current
from app.storage.limits import limits
from app.users.passwords import Passwords

CACHE_SIZE = 10_000


class Hasher:
    """Hashes and checks the passwords of one worker."""

    def __init__(self, passwords: Passwords, limiter: Limiter, seconds: float) -> None:
        self._passwords = passwords
        self._limiter = limiter
        # Remembers verified passwords for some seconds: some clients sign in for every call. It
        # keeps only a keyed digest, with a random key per process.
        self._key = secrets.token_bytes(32)
        self._verified: TTLCache[bytes, bool] = TTLCache(CACHE_SIZE, seconds)
        self._lock = Lock()

    def check(
        self, guess: Guess, stored: str | None, sha256: str, refusal: QuartermasterError
    ) -> str | None:
        """Raise the refusal, and count a failure, unless this is the password.

        Return a hash at the current cost if the stored one has another.
        """
        # It includes the stored hash, so that it no longer matches after a password change.
        identity = f"{sha256.upper()} {stored}".encode()
        digest = hashlib.blake2b(identity, key=self._key, digest_size=32).digest()
        with self._lock:
            is_verified = digest in self._verified
        if is_verified:
            limits.refuse_full(**guess)
            return None
        # Hashing does not use up the time at the database.
        with self.attempt(guess), working(self._limiter):
            if not self._passwords.matches(stored, sha256):
                raise refusal
            renewed = self._passwords.hash_again(str(stored), sha256)
        with self._lock:
            self._verified[digest] = True
        return renewed

    @contextmanager
    def attempt(self, guess: Guess) -> Iterator[None]:
        """Allow an attempt that hashes; one that waits for a slot does not count yet.

        A client that is locked out needs no slot.
        """
        limits.refuse_full(**guess)
        with working(self._limiter), attempt(guess):
            yield

    def hash(self, sha256: str) -> str:
        with working(self._limiter):
            return self._passwords.hash(sha256)


hasher = current(Hasher)
passwords = current(Passwords)
