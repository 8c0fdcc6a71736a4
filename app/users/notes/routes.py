"""Notes of staff on players and users."""

from __future__ import annotations

from functools import partial

from flask import Response

from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.changes import Applied
from app.core.errors import InvalidCursor
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer
from app.http.lists import CursorListArgs, cursor_list
from app.players.store import Players
from app.users.notes.domain import (
    MOST_NOTES,
    TooManyNotes,
    as_map,
    is_note,
    public_note,
    visible_notes,
)
from app.users.notes.operations import NOTE_ON_PLAYER, NOTE_ON_USER, text_of
from app.users.notes.schemas import NotePageSchema, NoteSchema
from app.users.store import Users

of_players = Blueprint("PlayerNotes", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserNotes", __name__, url_prefix="/api/v1/users", group="Users")

players = current(Players)
users = current(Users)

full = TooManyNotes(MOST_NOTES)
args = CursorListArgs()


@read_route(of_players, "/<player:key>/notes", NotePageSchema, Permission.PLAYERS_READ, args=args)
def list_player_notes(args: Document, key: Lookup) -> Document:
    """List the notes on a player

    The newest first.
    """
    return cursor_list(args, partial(page_of_notes, players.read(key, "Notes")))


@change_route(of_players, NOTE_ON_PLAYER, "/<player:key>/notes", NoteSchema, full)
def write_player_note(args: Document, key: Lookup) -> Response:
    """Write a note on a player

    For staff: players do not see it. Undo its history entry to hide it.
    """
    applied = execute(NOTE_ON_PLAYER, key, args)
    return note_response(applied, args, players)


@read_route(of_users, "/<lookup:key>/notes", NotePageSchema, Permission.USERS_READ, args=args)
def list_user_notes(args: Document, key: Lookup) -> Document:
    """List the notes on a user

    The newest first.
    """
    return cursor_list(args, partial(page_of_notes, users.get(key, "Notes")))


@change_route(of_users, NOTE_ON_USER, "/<lookup:key>/notes", NoteSchema, full)
def write_user_note(args: Document, key: Lookup) -> Response:
    """Write a note on a user

    For staff: users do not see it. Undo its history entry to hide it.
    """
    applied = execute(NOTE_ON_USER, key, args)
    return note_response(applied, args, users)


def page_of_notes(subject: Document, size: int, after: bytes) -> CursorPage:
    """Return a page of notes; a cursor is the sort key of the last note of the page before."""
    notes = visible_notes(subject.get("Notes"))
    list_name = f"notes {subject['_id']} ".encode()
    if after:
        if not after.startswith(list_name):
            raise InvalidCursor("Belongs to another list.")
        notes = [note for note in notes if list_name + place(note) < after]
    following = list_name + place(notes[size - 1]) if len(notes) > size else None
    return CursorPage(notes[:size], following)


def place(note: Document) -> bytes:
    """Return the sort key of a note."""
    return f"{note['At'].isoformat(timespec='microseconds')} {note['Id']}".encode()


def note_response(applied: Applied, args: Document, subjects: Players | Users) -> Response:
    """Return the response with the note that this request, or an earlier attempt of it, wrote."""
    entry = applied.entry or {}
    # The name may be somebody else's since.
    id_ = entry["Subject"]["Id"]
    subject = subjects.get_many([id_], "Notes").get(id_, {})
    note = as_map(subject.get("Notes")).get(applied.answer)
    if not is_note(note):
        # It is gone, or its subject; history has no text.
        note = {"At": entry["At"], **entry["By"], "Text": text_of(args)}
    return answer(applied._replace(answer=public_note(applied.answer, note)))
