"""A change to a document: decided by a rule, meant by a caller, applied by the storage. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from app.types import Document

# How many changes with an Idempotency-Key a document remembers.
JOURNAL_LENGTH = 64
# The fields that the compare-and-swap (app/storage/swap.py) keeps on every document it changes.
SWAP_FIELDS = ("Version", "Stamp", "Journal", "JournalCount")


class Change(NamedTuple):
    """What a rule decided: the new values of whole fields, and what to tell the caller."""

    fields: Mapping[str, Any]
    answer: Any


Rule = Callable[[Document], Change]


class Intent(NamedTuple):
    """What a caller is about to do, and how to recognise a repetition of it."""

    operation: str
    key: str | None = None
    fingerprint: str | None = None


class Applied(NamedTuple):
    """The answer of a change, and whether it was given before."""

    answer: Any
    replayed: bool = False
