"""For how long MongoDB keeps the transaction of a dead worker, and its documents locked.

``transactionLifetimeLimitSeconds`` is a setting of each member of a replica set, and only that of
the primary counts. The other members are asked because each may be the primary tomorrow.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

from pymongo import MongoClient, ReadPreference
from pymongo.errors import OperationFailure, PyMongoError

from app.storage.errors import explain

log = logging.getLogger("quartermaster")

SETTING = "transactionLifetimeLimitSeconds"
WANTED_SECONDS = 3
# How often all are asked again without an election: a member may have been away, or mended.
LOOK_SECONDS = 300.0
MEMBER_MS = 1000


class Lifetime:
    """The lifetime of transactions at the members of a replica set."""

    def __init__(self, client: MongoClient[Any], uri: str) -> None:
        self._client = client
        self._uri = uri
        self._election: object = None
        self._next_look = 0.0
        # What an operator should mend, in sentences.
        self.faults: list[str] = []

    def seconds(self) -> float | None:
        """Ask the primary; return None if it does not tell this account."""
        try:
            return _ask(self._client, ReadPreference.PRIMARY)
        except NotImplementedError:  # mongomock has no transactions
            return 0.0

    def look(self) -> None:
        """Ask the members at the start, after an election, and sometimes; log new faults."""
        hello = self._client.admin.command("hello")
        if hello.get("electionId") == self._election and time.monotonic() < self._next_look:
            return
        if (seconds := self.seconds()) is None:
            faults = [f"{SETTING} cannot be read; set it to {WANTED_SECONDS}."]
        else:
            found: dict[Any, float | None] = {hello.get("me"): seconds}
            for address in self._client.secondaries:
                with suppress(PyMongoError):  # one that cannot be reached
                    found[":".join(map(str, address))] = self._ask_member(address)
            faults = [
                f"{SETTING} is {value:g} at {member}; set it to {WANTED_SECONDS}."
                for member, value in found.items()
                if value and value > WANTED_SECONDS
            ]
        for fault in faults:
            if fault not in self.faults:
                log.warning(fault)
        self.faults = faults
        self._election, self._next_look = hello.get("electionId"), time.monotonic() + LOOK_SECONDS

    def _ask_member(self, address: tuple[str, int | None]) -> float | None:
        """Ask one member; return None if it does not tell this account."""
        # Unlike an address of its own, this keeps whatever the URI says about TLS and accounts.
        member: MongoClient[Any] = MongoClient(
            self._uri,
            server_selector=lambda servers: [one for one in servers if one.address == address],
            serverSelectionTimeoutMS=MEMBER_MS,
            timeoutMS=MEMBER_MS,
        )
        with member:
            return _ask(member, ReadPreference.NEAREST)


def _ask(client: MongoClient[Any], whom: Any) -> float | None:
    try:
        told = client.admin.command({"getParameter": 1, SETTING: 1}, read_preference=whom)
    except OperationFailure as error:
        if explain(error):
            raise
        # The account lacks the privilege, or this is a mongos, which has no such setting.
        return None
    return float(told[SETTING])
