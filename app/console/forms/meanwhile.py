"""What others have changed since a page with a form was shown. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from app.errors import Conflict
from app.types import Document, decimal

# What a page has seen of a history that has no entries.
NOTHING_SEEN = "nothing"


class ChangedMeanwhile(Conflict):
    """Somebody else has changed what a form is about to set, since its page was shown."""

    sentence = (
        "Somebody has made a change since you opened this page. Look at it, and send the form "
        "again if you still mean it."
    )


def newest(entries: Sequence[Document]) -> str:
    """Return what a form remembers of the history that its page has shown."""
    return entries[0]["Id"] if entries else NOTHING_SEEN


def newer_than(seen: str, entries: Iterable[Document]) -> list[Document]:
    """Return the entries that came after a page was shown; none if that is unknown.

    Compares the versions in their ids: the entry that the page has shown need not be among these.
    """
    shown = _version(seen) if seen else math.inf
    return [entry for entry in entries if _version(entry["Id"]) > shown]


def require_unchanged(seen: str, entries: Sequence[Document], caller_id: str) -> None:
    """Refuse to replace what somebody else has set meanwhile; the next attempt has seen it.

    One's own changes do not count: the form may have been sent twice.
    """
    if any(entry["By"]["UserId"] != caller_id for entry in newer_than(seen, entries)):
        raise ChangedMeanwhile


def _version(entry_id: str) -> float:
    """Return the version in the id of an entry; less than any if there is none."""
    _, _, version = [*entry_id.split(":"), "", ""][:3]
    number = decimal(version)
    return -math.inf if number is None else number
