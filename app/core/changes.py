"""A change to a document: the decision of a rule, the caller's intent, the history entry. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from app.core.types import Document

# The fields that every change keeps up to date: games filter on one, and lists sort by the other.
BOOKKEEPING = ("Version", "ChangedAt")
# A field that games made for release 0.3.0 insert, and that means nothing any more.
FORMER_FIELD = "Journal"
# The kinds of documents that have a history.
KINDS = ("player", "user", "bag", "object", "role")
# A ChangedAt further in the future than this was not written by this program.
LARGEST_CLOCK_ERROR = timedelta(days=1)
# The resolution of a BSON date.
MILLISECOND = timedelta(milliseconds=1)
# The maximum size of the changes in an entry: a game may keep megabytes in fields of its own.
MAX_RECORDED_SIZE = 64 * 1024
TOO_LARGE = "(too large to be told)"

# The value of a field that a document does not have; a rule that returns it removes the field.
ABSENT: Any = object()


class Change(NamedTuple):
    """The decision of a rule: the new values of whole fields, and the answer to the caller.

    A change without an entry is bookkeeping, such as counting wrong reset codes. A change of no
    field has an entry only if it is noted, such as reading personal data. The values of a large
    change may be too large for its entry.
    """

    fields: Mapping[str, Any]
    answer: Any
    has_entry: bool = True
    is_large: bool = False
    is_noted: bool = False
    # What could not be done, if the caller asked for as much as possible.
    warning: str | None = None


Rule = Callable[[Document], Change]


class Origin(NamedTuple):
    """Who requests a change, through which interface, and why."""

    user_id: str | None
    name: str
    via: str
    request_id: str | None = None
    reason: str | None = None
    # The name of the API key, if one was used.
    key: str | None = None
    # The UserId and Name of the colleague who approved it, if one had to.
    approved_by: Document | None = None


class Intent(NamedTuple):
    """What a caller is about to do, and how to recognise a repeated request."""

    operation: str
    origin: Origin
    arguments: Document = {}
    # The Idempotency-Key, and a hash of the request that was sent with it.
    key: str | None = None
    fingerprint: str | None = None
    # The entry that this change undoes.
    undoes: Document | None = None
    # A warning for the caller, although the change is made.
    warning: str | None = None
    # Whether to write nothing, and only return the entry, without id and time.
    is_preview: bool = False


class Applied(NamedTuple):
    """The answer to a change, whether it is a replay, and the entry of the change.

    There is no entry if nothing changed.
    """

    answer: Any
    replayed: bool = False
    entry: Document | None = None
    # The Version that a change without an entry has made.
    version: int | None = None


@dataclass(frozen=True, eq=False)
class SubjectKind:
    """A kind of document, and which of its fields history records."""

    name: str
    # Fields whose values an entry must not contain, by the name under which it records the change.
    secret: Mapping[str, str] = field(default_factory=dict)
    # Fields that are derived from others, and so not recorded.
    derived: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    # Maps of which an entry records the changed keys, without values.
    unquoted: tuple[str, ...] = ()
    # The shape that its documents are read with, if they may break their validator.
    shape: Mapping[str, Any] | None = None
    # Returns the fields that a document keeps when another replaces it, such as former names.
    carried: Callable[[Document, Document], Document] = lambda before, new: {}

    @cached_property
    def unrecorded(self) -> frozenset[str]:
        return frozenset((*self.derived, *self.hidden, *BOOKKEEPING, FORMER_FIELD))

    @property
    def collection(self) -> str:
        return f"{self.name}s"


def new_entry(
    kind: SubjectKind, subject: Document, intent: Intent, changes: list[Document], version: int
) -> Document:
    """Return the entry of the change that makes this version of a document, yet without id."""
    origin = intent.origin
    return {
        "_id": None,
        "At": None,
        "Subject": {"Kind": kind.name, "Id": subject["_id"], "Name": subject.get("Name")},
        "Operation": intent.operation,
        "By": {"UserId": origin.user_id, "Name": origin.name, **_without_none(Key=origin.key)},
        "Via": origin.via,
        "RequestId": origin.request_id,
        "Reason": origin.reason,
        "Arguments": intent.arguments,
        "Changes": changes,
        "Version": version,
        **_without_none(
            ApprovedBy=origin.approved_by,
            Undoes=intent.undoes and intent.undoes["_id"],
            Warning=intent.warning,
            IdempotencyKey=intent.key,
            Fingerprint=intent.fingerprint,
        ),
    }


def _without_none(**fields: Any) -> Document:
    """Return the fields that are not None: indexes then skip the entries without them."""
    return {name: value for name, value in fields.items() if value is not None}


def time_of_change(now: datetime, last: Any) -> datetime:
    """Return the time of a change, later than the document's last change."""
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    if not isinstance(last, datetime) or last - now > LARGEST_CLOCK_ERROR:
        return now
    return max(now, last + MILLISECOND)


class Difference(NamedTuple):
    """A field that has changed, or one key of a field that is a map; a value may be ABSENT."""

    field: str
    key: str | None
    before: Any
    after: Any


def differences(old: Document, new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield how new values of fields differ from what a document has."""
    for field_name, after in new.items():
        before = old.get(field_name, ABSENT)
        if after is before:  # unchanged: a rule returns the same object
            continue
        former = {} if before is ABSENT or before is None else before
        if isinstance(after, dict) and isinstance(former, dict) and (former or after):
            for key in {**former, **after}:
                one, other = former.get(key, ABSENT), after.get(key, ABSENT)
                if one is not other and not is_same_value(one, other):
                    yield Difference(field_name, key, one, other)
        elif not is_same_value(before, after):
            yield Difference(field_name, None, before, after)


def field_changes(kind: SubjectKind, old: Document, new: Mapping[str, Any]) -> list[Document]:
    """Return the Path, Before and After of each changed field, or of each changed key of a map."""
    return recorded_changes(kind, differences(old, new))


def recorded_changes(kind: SubjectKind, found: Iterable[Difference]) -> list[Document]:
    """Return differences as an entry records them."""
    changes: list[Document] = []
    for name, key, *values in found:
        before, after = (None if value is ABSENT else value for value in values)
        if name in kind.unrecorded or (key is None and before is None and after is None):
            continue
        path = name if key is None else f"{name}.{key}"
        change = _field_change(path, before, after)
        if name in kind.secret or name in kind.unquoted:
            change = _field_change(kind.secret.get(name, path))
        if name not in kind.secret or change not in changes:
            changes.append(change)
    return changes


def _field_change(path: str, before: Any = None, after: Any = None) -> Document:
    return {"Path": path, "Before": before, "After": after}


def within_size(changes: list[Document]) -> list[Document]:
    """Return the changes, with the values of fields that exceed MAX_RECORDED_SIZE replaced."""
    recorded: list[Document] = []
    left = MAX_RECORDED_SIZE
    for name, of_field in groupby(changes, lambda change: change["Path"].partition(".")[0]):
        some = list(of_field)
        size = len(repr(some))
        if size <= left:
            recorded += some
            left -= size
        else:
            recorded.append(_field_change(name, TOO_LARGE, TOO_LARGE))
    return recorded


def former_value(change: Document) -> Any:
    """Return the former value of a field; history records null if the document lacked it."""
    return ABSENT if change["Before"] is None else change["Before"]


def is_same_value(one: Any, other: Any) -> bool:
    """Return whether two values are stored alike: unlike Python, BSON separates 1, 1.0 and True."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_value, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            is_same_value(value, other[name]) for name, value in one.items()
        )
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (one, other)]
    return bool(one == other) and kinds[0] == kinds[1]
