"""Writing notes on players and users."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from app.auth import guard
from app.core.changes import changed_at
from app.core.operations import Inverse, Operation, Prepared, no_items
from app.core.permissions import Need, Permission
from app.core.types import Document
from app.http.masking import masked
from app.players.store import players
from app.users.notes.domain import undo, write
from app.users.notes.schemas import NoteArgs
from app.users.store import users


def prepare_note(args: Document) -> Prepared:
    caller, at = guard.caller(), changed_at(users.now(), None)
    note = {"At": at, "UserId": caller.id, "Name": caller.name, "Text": text_of(args)}
    return Prepared(("Notes",), partial(write, note_id=str(uuid.uuid4()), note=note))


def text_of(args: Document) -> str:
    """Return the text of a note, with tokens masked: it is kept for long and shown to many."""
    return masked(args["Text"].strip())


HIDE_NOTES = Inverse(fields=("Notes",), rule=undo)


def _operation(subject: str, store: Any, *needs: Need) -> Operation:
    return Operation(
        name="note",
        subject=subject,
        needs=needs,
        arguments=NoteArgs(),
        store=store,
        prepare=prepare_note,
        inverse=HIDE_NOTES,
        moves=no_items,
        sentence="Note written",
        notice="Wrote a note on {whom}.",
    )


NOTE_ON_PLAYER = _operation("player", players, Permission.NOTES_WRITE)
NOTE_ON_USER = _operation("user", users, Permission.NOTES_USERS, Permission.USERS_FIND)
