"""Making guesses expensive: attempts at passwords, codes and tokens are counted."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager

from app.auth import roles
from app.http.address import client_address
from app.http.stores import current
from app.storage.attempts import Attempts

attempts = current(Attempts)


def attempt_at(user_id: str) -> AbstractContextManager[None]:
    """Allow one attempt to sign in, unless there were too many failures; a refusal is one."""
    return attempts.one(account=user_id, address=client_address())


def attempt_at_nobody(name: str) -> AbstractContextManager[None]:
    """Allow one attempt at a name that no account has, which nobody can tell from one that has."""
    return attempts.one(account=_nobody(name), address=client_address())


def attempt_of_caller(user_id: str) -> AbstractContextManager[None]:
    """Allow a caller one attempt at an account.

    Behind a web site's one address are all of its visitors, and what the site itself does.
    """
    return attempts.one(account=user_id, caller=roles.caller().id)


def attempt_of_caller_at_nobody(name: str) -> AbstractContextManager[None]:
    return attempts.one(account=_nobody(name), caller=roles.caller().id)


def attempt_from_here() -> AbstractContextManager[None]:
    """Allow one attempt by the client's address alone."""
    return attempts.one(address=client_address())


def _nobody(name: str) -> str:
    # A digest, because a stranger chooses the name, and its length.
    return f"name {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
