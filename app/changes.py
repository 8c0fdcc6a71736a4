"""What a change to a document is: decided by a rule, meant by a caller, applied by the storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Change(NamedTuple):
    """What a rule decided: the new values of whole fields, and what to tell the caller."""

    fields: Mapping[str, Any]
    answer: Any


Rule = Callable[[dict[str, Any]], Change]


class Intent(NamedTuple):
    """What a caller is about to do, and how to recognise that it does it again."""

    operation: str
    key: str | None = None
    fingerprint: str | None = None


class Applied(NamedTuple):
    """The answer of a change, and whether it was given before."""

    answer: Any
    replayed: bool = False
