"""Notes of staff on a player or a user: a map from id to note. Pure.

Undoing a note hides it but keeps it, so that the undo can be undone. History records that a note
was written, without its text, because history stays when a person is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard

from app.core.changes import Change
from app.core.errors import Conflict, Damaged
from app.core.types import Document

MOST_NOTES = 100


class TooManyNotes(Conflict):
    sentence = "There are already {most} notes, the maximum."


class NoteGone(Conflict):
    sentence = "The note {note} no longer exists."


def visible_notes(notes: Any) -> Sequence[Document]:
    """Return the notes that are not hidden, the newest first; skip invalid ones."""
    shown = [
        public_note(id_, note)
        for id_, note in as_map(notes).items()
        if is_note(note) and not note.get("IsHidden")
    ]
    return sorted(shown, key=lambda note: (note["At"], note["Id"]), reverse=True)


def public_note(id_: str, note: Mapping[str, Any]) -> Document:
    by = {"UserId": note.get("UserId"), "Name": note.get("Name")}
    return {"Id": id_, "At": note["At"], "By": by, "Text": note["Text"]}


def as_map(notes: Any) -> Document:
    """Return stored notes for a reader; {} if they are missing or invalid."""
    return notes if isinstance(notes, dict) else {}


def is_note(value: Any) -> TypeGuard[Document]:
    """Tell whether a value is a valid note; another program may have stored anything."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("At"), datetime) and isinstance(value.get("Text"), str)


def write(
    subject: Document, *, note_id: str, text: str, user_id: str, name: str, at: datetime
) -> Change:
    """Add a note. The answer is only its id, because history keeps answers but not the text."""
    notes = changeable(subject)
    if len(notes) >= MOST_NOTES:
        raise TooManyNotes(MOST_NOTES)
    note = {"At": at, "UserId": user_id, "Name": name, "Text": text}
    return Change({"Notes": {**notes, note_id: note}}, note_id)


def undo(subject: Document, *, changes: list[Document]) -> Change:
    """Hide the notes that were written, or show hidden ones again."""
    notes = dict(changeable(subject))
    for change in changes:
        id_ = change["Path"].partition(".")[2]
        if not is_note(notes.get(id_)):
            raise NoteGone(id_)
        is_hidden = bool(notes[id_].get("IsHidden"))
        notes[id_] = {**notes[id_], "IsHidden": not is_hidden}
    return Change({"Notes": notes}, None)


def changeable(subject: Document) -> Document:
    """Return the notes for a change, or raise Damaged instead of overwriting an invalid map."""
    if not isinstance(subject.get("Notes"), dict | None):
        raise Damaged("user")  # the store of players has already refused a damaged player
    return as_map(subject.get("Notes"))
