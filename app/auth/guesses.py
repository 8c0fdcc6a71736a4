"""Making guesses expensive: attempts at passwords and codes, counted by account and address."""

from __future__ import annotations

from contextlib import AbstractContextManager

from app.http.address import client_address
from app.http.stores import current
from app.storage.attempts import Attempts

attempts = current(Attempts)


def attempt(account: str) -> AbstractContextManager[None]:
    """Allow one attempt at an account, unless there were too many failures; a refusal is one."""
    return attempts.one(account=account, address=client_address())
