"""Rate limits on guessing passwords, codes and tokens."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager

from flask import has_request_context

from app.auth import guard
from app.core.errors import QuartermasterError, Unavailable
from app.http.address import client_address
from app.storage.limits import limits

# The account and the client to which a failed attempt is attributed, by kind of limit.
Guess = dict[str, str]


def attempt(guess: Guess) -> AbstractContextManager[None]:
    """Allow an attempt unless a limit is reached; an error counts, except Unavailable."""
    return limits.use(is_failure, **guess)


def is_failure(error: BaseException | None) -> bool:
    return isinstance(error, QuartermasterError) and not isinstance(error, Unavailable)


def guess_by_address(account: str | None = None) -> Guess:
    """Return an attempt of the client's address to sign in to an account or with a token."""
    return {**({"account": account} if account else {}), "address": client_address()}


def guess_by_session(chain: str) -> Guess:
    """Return an attempt of somebody who is signed in already: guesses of strangers do not count."""
    return {"account": f"session {chain}"}


def guess_by_caller(account: str) -> Guess:
    """Return an attempt on an account through a caller of the API, or at the command line.

    It counts by caller instead of address: all visitors of a web site share the site's address.
    """
    return {"account": account, **({"caller": guard.caller().id} if has_request_context() else {})}


def unknown_account(name: str) -> str:
    """Return the rate-limit key of an unknown name: limits must not reveal which accounts exist."""
    # A digest, because the client chooses the name and its length.
    return f"name {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
