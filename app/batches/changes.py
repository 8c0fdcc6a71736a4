"""What a row changes: the rule that a single call would apply, and the fields that it reads."""

from __future__ import annotations

from app.batches.domain import row_intent
from app.changes import Intent, Origin
from app.errors import NotFound
from app.history.domain import inverse_of
from app.history.operations import UNDO
from app.http.context import current
from app.objects.store import KnownObjects
from app.operations import Inverse, batch_operations
from app.storage.bulk_swap import Wanted
from app.types import Document

known_objects = current(KnownObjects)


def change_of(row: Document, entry: Document | None, origin: Origin) -> Wanted:
    """Return the change of a row that is about a player; an undo has an entry."""
    meant = intent_of(row, entry, origin)
    id_, arguments = row["Subject"]["Id"], row["Arguments"]
    inverse = inverse_of(entry) if entry else None
    if entry and isinstance(inverse, Inverse):
        return Wanted(id_, *inverse.prepare(entry["Changes"]), meant)
    operation = batch_operations()[row["Operation"]]
    prepared = operation.prepared(arguments, in_batch=True)
    return Wanted(id_, *known_objects.checked(operation, arguments, prepared, meant))


def row_arguments(row: Document) -> Document:
    """Return the arguments of a row as history tells them; one without shape has none."""
    operation = batch_operations().get(row["Operation"])
    return operation.history_arguments(row["Arguments"]) if operation else {}


def intent_of(row: Document, entry: Document | None, origin: Origin) -> Intent:
    """Return what a row intends, as history tells it."""
    return row_intent(row, origin, row_arguments(row), entry)


def entry_of(row: Document, entries: dict[str, Document]) -> Document | None:
    """Return the entry that a row undoes, None if it undoes none; raise if it is gone."""
    if row["Operation"] != UNDO.name:
        return None
    entry_id = row["Arguments"]["id"]
    if entry_id not in entries:
        raise NotFound("entry of history", entry_id)
    return entries[entry_id]


def is_in_bulk(entry: Document | None) -> bool:
    """Tell whether a change can be made together with others; raise if it cannot be undone."""
    if entry is None:
        return True
    return inverse_of(entry).in_bulk and entry["Subject"]["Kind"] == "player"
