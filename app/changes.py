"""A change to a document: what a rule decides, what a caller intends, what history keeps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from app.types import Document

# How many entries a document holds before they must have moved to the collection history.
JOURNAL_LENGTH = 64
# The fields that the compare-and-swap (app/storage/swap.py) keeps on every document it changes.
SWAP_FIELDS = ("Version", "LastVersion", "Stamp", "ChangedAt", "Journal", "JournalCount")
# A document with this field may still be withdrawn, so its entries stay in its Journal.
PENDING = "RestorePending"
# A ChangedAt further ahead of the clock than this was not written by this program.
LARGEST_CLOCK_ERROR = timedelta(days=1)
# The resolution of a BSON date.
MILLISECOND = timedelta(milliseconds=1)
# A game may keep megabytes in fields of its own.
MOST_TOLD = 64 * 1024
TOO_LARGE = "(too large to be told)"

_ABSENT = object()


class Change(NamedTuple):
    """What a rule decided: the new values of whole fields, and what to tell the caller.

    A change without an entry is bookkeeping, such as the count of wrong codes. One that changes no
    field has an entry only if it is noted, such as that somebody has read personal data. The values
    of a large one may be too large for its entry.
    """

    fields: Mapping[str, Any]
    answer: Any
    has_entry: bool = True
    is_large: bool = False
    is_noted: bool = False


Rule = Callable[[Document], Change]


class Origin(NamedTuple):
    """Who asks for a change, through which door, and why."""

    user_id: str | None
    name: str
    via: str
    request_id: str | None = None
    reason: str | None = None
    # The name of the key that a tool used.
    key: str | None = None


class Intent(NamedTuple):
    """What a caller is about to do, and how to recognise a repetition of it."""

    operation: str
    origin: Origin
    arguments: Document = {}
    # The Idempotency-Key, and a hash of the request that came with it.
    key: str | None = None
    fingerprint: str | None = None
    # The entry that this change undoes.
    undoes: Document | None = None
    # What whoever asks is told, although the change is made.
    warning: str | None = None


class Applied(NamedTuple):
    """The answer of a change, whether it was given before, and the entry of the change.

    There is no entry where nothing changed.
    """

    answer: Any
    replayed: bool = False
    entry: Document | None = None


@dataclass(frozen=True, eq=False)
class SubjectKind:
    """A kind of documents, and which of their fields history may tell."""

    name: str
    # Under the given name, an entry tells that the field changed, and no value.
    secret: Mapping[str, str] = field(default_factory=dict)
    # Follows from other fields, so nothing is told of it.
    derived: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    # A map of which an entry tells which keys changed, and no value.
    unquoted: tuple[str, ...] = ()
    # What a document that replaces another has of that one, such as its former names.
    carried: Callable[[Document, Document], Document] = lambda before, new: {}

    @cached_property
    def untold(self) -> frozenset[str]:
        return frozenset((*self.derived, *self.hidden, *SWAP_FIELDS))

    @property
    def collection(self) -> str:
        return f"{self.name}s"


def entry_id(kind: str, id_: Any, version: int) -> str:
    """Return the id of the entry that made this version of a document."""
    return f"{kind}:{id_}:{version}"


def new_entry(
    kind: SubjectKind,
    subject: Document,
    intent: Intent,
    changes: list[Document],
    bookkeeping: Mapping[str, Any],
) -> Document:
    """Return the entry of a change; bookkeeping holds what the change sets of SWAP_FIELDS."""
    origin = intent.origin
    return {
        "_id": entry_id(kind.name, subject["_id"], bookkeeping["Version"]),
        "At": bookkeeping["ChangedAt"],
        "Subject": {"Kind": kind.name, "Id": subject["_id"], "Name": subject.get("Name")},
        "Operation": intent.operation,
        "By": {"UserId": origin.user_id, "Name": origin.name, **_given(Key=origin.key)},
        "Via": origin.via,
        "RequestId": origin.request_id,
        "Reason": origin.reason,
        "Arguments": intent.arguments,
        "Changes": changes,
        "Version": bookkeeping["Version"],
        "Stamp": bookkeeping["Stamp"],
        "Number": bookkeeping["JournalCount"],
        **_given(
            Undoes=intent.undoes and intent.undoes["_id"],
            Warning=intent.warning,
            IdempotencyKey=intent.key,
            Fingerprint=intent.fingerprint,
        ),
    }


def _given(**fields: Any) -> Document:
    """Return what few entries have: it is left out of the others, and so out of their indexes."""
    return {name: value for name, value in fields.items() if value is not None}


def changed_at(now: datetime, last: Any) -> datetime:
    """Return the time of a change, which is later than that of the document's last one."""
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    if not isinstance(last, datetime) or last - now > LARGEST_CLOCK_ERROR:
        return now
    return max(now, last + MILLISECOND)


def field_changes(kind: SubjectKind, old: Document, new: Mapping[str, Any]) -> list[Document]:
    """Return what an entry tells of a change, key by key of maps: Path, Before and After."""
    changes: list[Document] = []
    for name, value in new.items():
        if name in kind.untold or value is old.get(name):
            continue
        found = list(_changes_of(name, old.get(name, _ABSENT), value))
        if name in kind.secret:
            found = [_changed(kind.secret[name])] if found else []
        elif name in kind.unquoted:
            found = [_changed(change["Path"]) for change in found]
        changes += found
    return changes


def _changes_of(path: str, before: Any, after: Any) -> Iterator[Document]:
    old = None if before is _ABSENT else before
    if not (isinstance(after, dict) and isinstance(old, dict | None) and (old or after)):
        if not is_same_value(before, after):
            yield _changed(path, old, after)
        return
    old = old or {}
    for name in {**old, **after}:
        one, other = old.get(name, _ABSENT), after.get(name, _ABSENT)
        if one is not other and not is_same_value(one, other):
            yield _changed(f"{path}.{name}", old.get(name), after.get(name))


def _changed(path: str, before: Any = None, after: Any = None) -> Document:
    return {"Path": path, "Before": before, "After": after}


def within_size(changes: list[Document]) -> list[Document]:
    """Return changes of which an entry tells at most so much: of a larger field, that it changed.

    A Journal holds many entries, and all of them are part of one document.
    """
    by_field: dict[str, list[Document]] = {}
    for change in changes:
        by_field.setdefault(change["Path"].partition(".")[0], []).append(change)
    told: list[Document] = []
    left = MOST_TOLD
    for name, some in by_field.items():
        size = len(repr(some))
        if size <= left:
            told += some
            left -= size
        else:
            told.append(_changed(name, TOO_LARGE, TOO_LARGE))
    return told


def is_same_value(one: Any, other: Any) -> bool:
    """Tell whether two values are stored alike: in BSON, unlike Python, True, 1 and 1.0 differ."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_value, one, other))
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (one, other)]
    return bool(one == other) and kinds[0] == kinds[1]
