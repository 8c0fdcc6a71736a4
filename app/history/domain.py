"""Entries of history: their served form, and which can be undone. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from app.core.errors import Conflict
from app.core.naming import Lookup, name_key
from app.core.operations import Inverse, NotUndoable, OwnInverse, find_inverse, find_operation
from app.core.types import Document
from app.storage.search_fields import words

# The fields of an entry that are served unchanged; the others are for searching.
SERVED = (
    "At",
    "Subject",
    "Operation",
    "By",
    "ApprovedBy",
    "Via",
    "RequestId",
    "Reason",
    "Arguments",
    "Changes",
    "Undoes",
    "Warning",
)


class CannotUndo(Conflict):
    sentence = "The change {entry_id} cannot be undone: {why}."


class Filters(NamedTuple):
    """Which entries a list shows; None: all."""

    kinds: tuple[str, ...]
    subject_id: str | None = None
    author: str | None = None
    key: str | None = None
    operation: str | None = None
    item: str | None = None
    words: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


def filters_of(args: Document, kinds: tuple[str, ...], subject_id: str | None = None) -> Filters:
    by = args.get("by")
    return Filters(
        kinds,
        subject_id,
        # Entries store the account id of their author, and the key of the name.
        None if by is None else Lookup.parse(by).id or name_key(by),
        args.get("key"),
        args.get("operation"),
        args.get("item"),
        _wanted_words(args.get("reason", "")),
        args.get("since"),
        args.get("until"),
    )


def _wanted_words(text: str) -> tuple[str, ...]:
    """Return the words to search for; a text without any, such as !!!, matches nothing."""
    return tuple(words(text)) or ((text,) if text.strip() else ())


def public_entry(entry: Document, undone_by: str | None) -> Document:
    record = {"Id": entry["_id"], **{name: entry.get(name) for name in SERVED}}
    by = {"UserId": None, "Name": None, "Key": None, **entry["By"]}
    return {**record, "By": by, "UndoneBy": undone_by, "Batch": _batch_of(entry)}


def _batch_of(entry: Document) -> str | None:
    """Return the id of the batch whose row made a change: its key is "batch ID:NUMBER".

    If the row tried another one again, that is the key of the other, and the fingerprint its own.
    """
    key = entry.get("IdempotencyKey") if entry["Via"] == "batch" else None
    own = entry.get("Fingerprint") or key
    return own.removeprefix("batch ").partition(":")[0] if own and key else None


def inverse_of(entry: Document) -> Inverse | OwnInverse:
    """Return the inverse of an entry, or raise CannotUndo."""
    kind = entry["Subject"]["Kind"]
    operation = find_operation(entry["Operation"], kind)
    found = operation.inverse if operation else None
    if isinstance(found, NotUndoable):
        raise CannotUndo(entry["_id"], found.why)
    if not entry["Changes"]:
        raise CannotUndo(entry["_id"], "what it changed is not recorded, or it changed nothing")
    # A transfer changed the same fields of another player, so both changes are undone together.
    roots = {"Transfer"} if "Transfer" in entry else {path_root(c) for c in entry["Changes"]}
    found = found or find_inverse(next(iter(roots)), kind)
    if found is None or not roots <= {*found.fields}:
        raise CannotUndo(entry["_id"], "it changed fields that its undo does not cover")
    return found


def path_root(change: Document) -> str:
    root: str = change["Path"].partition(".")[0]
    return root
