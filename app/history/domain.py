"""Entries of history: their served form, and which can be undone. Pure."""

from __future__ import annotations

from app.core.errors import Conflict
from app.core.operations import Inverse, NotUndoable, OwnInverse, find_inverse, find_operation
from app.core.types import Document

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
