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
from app.http.intents import change_response
from app.http.lists import CursorListArgs, cursor_list
from app.players.store import players
from app.users.notes.domain import (
    MOST_NOTES,
    TooManyNotes,
    visible_notes,
)
from app.users.notes.operations import NOTE_ON_PLAYER, NOTE_ON_USER, text_of
from app.users.notes.schemas import NotePageSchema, NoteSchema
from app.users.store import users

of_players = Blueprint("PlayerNotes", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserNotes", __name__, url_prefix="/api/v1/users", group="Users")


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
    return note_response(execute(NOTE_ON_PLAYER, key, args), args)


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
    return note_response(execute(NOTE_ON_USER, key, args), args)


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


def note_response(applied: Applied, args: Document) -> Response:
    """Return the response with the note that this request, or an earlier attempt of it, wrote."""
    entry, told = applied.entry or {}, applied.answer
    # Entries of former releases have the id alone.
    made = told if isinstance(told, dict) else {"Id": told, "At": entry["At"]}
    by = {name: entry["By"][name] for name in ("UserId", "Name")}
    return change_response(applied, {**made, "By": by, "Text": text_of(args)})
