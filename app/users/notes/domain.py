"""Notes of staff on a player or a user: a map from id to note. Pure.

Undoing a note hides it but keeps it, so that the undo can be undone. History records that a note
was written, without its text, because history stays when a person is erased.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document

MOST_NOTES = 100


class TooManyNotes(Conflict):
    sentence = "There are already {most} notes, the maximum."


class NoteGone(Conflict):
    sentence = "The note {note} no longer exists."


def visible_notes(notes: Document | None) -> Sequence[Document]:
    """Return the notes that are not hidden, the newest first."""
    found = (notes or {}).items()
    shown = [public_note(id_, note) for id_, note in found if not note.get("IsHidden")]
    return sorted(shown, key=lambda note: (note["At"], note["Id"]), reverse=True)


def public_note(id_: str, note: Document) -> Document:
    by = {"UserId": note.get("UserId"), "Name": note.get("Name")}
    return {"Id": id_, "At": note["At"], "By": by, "Text": note["Text"]}


def write(subject: Document, *, note_id: str, note: Document) -> Change:
    """Add a note. History keeps the answer, which is without the text and the names."""
    notes = subject.get("Notes", {})
    if len(notes) >= MOST_NOTES:
        raise TooManyNotes(MOST_NOTES)
    return Change({"Notes": {**notes, note_id: note}}, {"Id": note_id, "At": note["At"]})


def undo(subject: Document, *, changes: list[Document]) -> Change:
    """Hide the notes that were written, or show hidden ones again."""
    notes = {**subject.get("Notes", {})}
    for change in changes:
        id_ = change["Path"].partition(".")[2]
        if id_ not in notes:
            raise NoteGone(id_)
        notes[id_] = {**notes[id_], "IsHidden": not notes[id_].get("IsHidden")}
    return Change({"Notes": notes}, None)
