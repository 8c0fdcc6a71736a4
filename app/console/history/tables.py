"""Entries of history for tables on pages."""

from __future__ import annotations

from typing import Any

from app.auth import guard
from app.auth.permissions import Permission
from app.console.history import sentences
from app.console.stores import cursors, objects
from app.history.access import page as history_page
from app.history.access import search
from app.history.domain import CannotUndo, inverse_of
from app.history.operations import UNDO
from app.types import Document

NOT_KEPT = "not kept"


def last_changes(count: int) -> list[Document]:
    """Return the latest changes to anything, if the caller may look at history."""
    if not guard.caller().may(Permission.HISTORY_READ):
        return []
    return table_entries(search({}, count).values)


def may_undo(entry: Document) -> bool:
    caller = guard.caller()
    is_own = entry["By"]["UserId"] == caller.id
    return caller.may(*UNDO.permissions, *([] if is_own else [Permission.UNDO_ANY]))


def is_undoable(entry: Document) -> bool:
    """Tell whether a page should offer the caller the undo of a public entry."""
    if not may_undo(entry):
        return False
    try:
        inverse_of({**entry, "_id": entry["Id"]})
    except CannotUndo:
        return False
    return entry["UndoneBy"] is None


def changes_of(kind: str, id_: str, size: int, after: str = "") -> dict[str, Any]:
    """Return the changes of a document for pages: the latest, or a page of all."""
    found = history_page({"after": after}, size, (kind,), id_)
    return {"entries": table_entries(found.values), "next": cursors.write(found.next)}


def table_entries(entries: Any) -> list[Document]:
    """Return public entries with the texts for a table."""
    served = list(entries)
    names = objects.names_of(sentences.ids_in(served)) if served else {}
    return [
        {
            **entry,
            "Lines": sentences.lines(entry, names),
            "CanUndo": is_undoable(entry),
            "Changes": [_change_texts(change, names) for change in entry["Changes"]],
        }
        for entry in served
    ]


def _change_texts(change: Document, names: sentences.Names) -> Document:
    if change["Before"] is None and change["After"] is None:
        # History stores no values of secrets, notes and keys.
        return {"Path": change["Path"], "Before": NOT_KEPT, "After": NOT_KEPT}
    texts = {side: sentences.value_text(change[side], names) for side in ("Before", "After")}
    return {"Path": change["Path"], **texts}
