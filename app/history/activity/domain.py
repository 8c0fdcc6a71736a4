"""The log of a user or a player: its entries of history, and for a user its sign-ins. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.types import Document

SIGN_IN = "sign-in"


class Happening(NamedTuple):
    """A line of a log; lines are ordered by time, and by id where two have the same."""

    at: datetime
    id: str
    action: str
    peer: str
    meta: Document


def of_entry(entry: Document) -> Happening:
    """Return what an entry of history tells."""
    meta = {name: entry.get(name) for name in ("By", "Reason", "Arguments")}
    return Happening(entry["At"], entry["_id"], entry["Operation"], entry["Via"], meta)


def of_sign_in(chain: str, at: datetime, via: str) -> Happening:
    # Not the chain itself, which the tokens of the sign-in name.
    digest = hashlib.sha256(chain.encode()).hexdigest()[:32]
    return Happening(at, f"{SIGN_IN}:{digest}", SIGN_IN, via, {})


def first_needed(start: int, others: int) -> int:
    """Return how many of the older and longer list a page of both certainly skips.

    Of the newest lines of both lists, at most all of the others are not of the long one.
    """
    return max(0, start - others)


def merged(
    long: Sequence[Happening], others: Sequence[Happening], start: int, size: int
) -> Sequence[Happening]:
    """Return a page of two lists; the long one is given from first_needed on."""
    skipped = start - first_needed(start, len(others))
    # By id: what has moved from one list to the other while they were read is in both.
    lines = {line.id: line for line in (*others, *long)}.values()
    return sorted(lines, reverse=True, key=lambda line: line[:2])[skipped : skipped + size]


def served(line: Happening, user_id: str | None, player_id: str | None) -> Document:
    """Return the record that callers see."""
    return {
        "Id": line.id,
        "TimeStamp": line.at,
        "UserId": user_id,
        "PlayerId": player_id,
        "Action": line.action,
        "Peer": line.peer,
        # Addresses of clients are not kept.
        "Ip": None,
        "Meta": json.dumps(line.meta, default=str, ensure_ascii=False),
    }
