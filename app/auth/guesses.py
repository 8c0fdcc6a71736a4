"""Making guesses expensive: attempts at passwords, codes and tokens are counted."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager

from app.auth import guard
from app.http.address import client_address
from app.http.context import current
from app.storage.limits.attempts import Attempts

attempts = current(Attempts)


class Guess:
    """An attempt that is about to be made, and whose failures it counts among."""

    def __init__(self, **of: str) -> None:
        self._of = of

    def refuse_if_locked(self) -> None:
        """Raise RateLimited where the attempt would not be looked at; this costs one read."""
        attempts.refuse_if_locked(**self._of)

    def counted(self) -> AbstractContextManager[None]:
        """Allow the attempt, unless there were too many failures; a refusal within is one."""
        return attempts.one(**self._of)


def guess_at(user_id: str) -> Guess:
    """Return an attempt to sign in."""
    return Guess(account=user_id, address=client_address())


def guess_at_nobody(name: str) -> Guess:
    """Return an attempt at a name that no account has, which nobody can tell from one that has."""
    return Guess(account=_nobody(name), address=client_address())


def guess_of_caller(user_id: str) -> Guess:
    """Return a caller's attempt at an account.

    Behind a web site's one address are all of its visitors, and what the site itself does.
    """
    return Guess(account=user_id, caller=guard.caller().id)


def guess_of_caller_at_nobody(name: str) -> Guess:
    return Guess(account=_nobody(name), caller=guard.caller().id)


def guess_from_here() -> Guess:
    """Return an attempt by the client's address alone."""
    return Guess(address=client_address())


def _nobody(name: str) -> str:
    # A digest, because a stranger chooses the name, and its length.
    return f"name {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
