"""The inverse of writing a note: it is hidden, and by another undo shown again. Pure."""

from __future__ import annotations

from app.changes import Change
from app.notes.domain import NoteGone, changeable, is_note
from app.types import Document


def undo(subject: Document, *, changes: list[Document]) -> Change:
    """Hide the notes that were written, or show those again that were hidden."""
    notes = dict(changeable(subject))
    for change in changes:
        id_ = change["Path"].partition(".")[2]
        if not is_note(notes.get(id_)):
            raise NoteGone(id_)
        is_hidden = bool(notes[id_].get("IsHidden"))
        notes[id_] = {**notes[id_], "IsHidden": not is_hidden}
    return Change({"Notes": notes}, None)
