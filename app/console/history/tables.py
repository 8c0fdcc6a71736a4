"""Entries of history as tables on pages show them."""

from __future__ import annotations

from typing import Any

from app.console.forms.meanwhile import newer_than, newest
from app.console.forms.submissions import Submission
from app.console.history import sentences
from app.history.access import page as history_page
from app.history.domain import CannotUndo, inverse_of
from app.http.context import current
from app.http.cursors import Cursors
from app.objects.store import Objects
from app.types import Document

UNTOLD_VALUE = "not kept"

cursors = current(Cursors)
objects = current(Objects)


def is_undoable(entry: Document) -> bool:
    """Tell whether it makes sense to offer an undo of a served entry."""
    try:
        inverse_of({**entry, "_id": entry["Id"]})
    except CannotUndo:
        return False
    return entry["UndoneBy"] is None


def changes_part(
    kind: str, id_: str, size: int, sent: Submission | None, after: str = ""
) -> dict[str, Any]:
    """Return what pages show of the changes of a document: the last ones, or a page of all.

    With them comes what a form remembers of them, and what has come since a refused one was shown.
    """
    found = history_page({"after": after}, size, (kind,), id_)
    entries = with_names(found.values)
    return {
        "entries": entries,
        "seen": newest(entries),
        "newer": newer_than(sent.seen, entries) if sent and sent.error else [],
        "next": cursors.write(found.next),
    }


def with_names(entries: Any) -> list[Document]:
    """Return served entries with what a table shows of them."""
    shown = list(entries)
    names = objects.names_of(sentences.ids_in(shown)) if shown else {}
    return [
        {
            **entry,
            "Lines": sentences.lines(entry, names),
            "CanUndo": is_undoable(entry),
            "Changes": [_with_texts(change, names) for change in entry["Changes"]],
        }
        for entry in shown
    ]


def _with_texts(change: Document, names: sentences.Names) -> Document:
    if change["Before"] is None and change["After"] is None:
        # History keeps neither value of a secret, of a note and of a key.
        return {"Path": change["Path"], "Before": UNTOLD_VALUE, "After": UNTOLD_VALUE}
    texts = {name: sentences.held(change[name], names) for name in ("Before", "After")}
    return {"Path": change["Path"], **texts}
