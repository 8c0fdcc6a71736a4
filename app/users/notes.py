"""Notes of staff on a player or a user: a map from id to note.

Undoing a note hides it but keeps it, so that the undo can be undone. History records that a note
was written, without its text, because history stays when a person is erased.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from flask import Response

from app.auth import guard
from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.changes import Applied, Change, time_of_change
from app.core.errors import Conflict
from app.core.naming import Lookup
from app.core.operations import Inverse, Operation, ReadsAndRule, no_items
from app.core.permissions import Need, Permission
from app.core.types import Document
from app.http.api import Blueprint, Schema
from app.http.examples import NOTE, USER, USER_ID
from app.http.fields import Guid, MaskedText, Moment, Nested, Text
from app.http.intents import change_response
from app.http.lists import CursorListArgs, CursorPageSchema, cursor_list, page_of
from app.players.store import players
from app.storage.paging import newest_first
from app.users.store import users

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


LONGEST_NOTE = 2000


class WriterSchema(Schema):
    UserId = Guid(allow_none=True, example=USER_ID)
    Name = Text(allow_none=True, example=USER, description="At the time.")


class NoteSchema(Schema):
    Id = Guid(example=NOTE)
    At = Moment(example="2026-01-31T19:04:21.250Z")
    By = Nested(WriterSchema)
    Text = Text(example="Asked twice for the same sword; see ticket 4711.")


NotePageSchema = page_of(NoteSchema, CursorPageSchema)


class NoteArgs(Schema):
    # Masked, because it is kept for long and shown to many.
    Text = MaskedText(
        LONGEST_NOTE,
        shortest=1,
        has_lines=True,
        required=True,
        example="Asked twice for the same sword; see ticket 4711.",
        description="Some text, on one line or several.",
        unrecorded=True,
    )


def prepare_note(args: Document) -> ReadsAndRule:
    caller, at = guard.caller(), time_of_change(users.now(), None)
    note = {"At": at, "UserId": caller.id, "Name": caller.name, "Text": args["Text"].strip()}
    return ("Notes",), partial(write, note_id=str(uuid.uuid4()), note=note)


def _operation(subject: str, store: Any, *needs: Need) -> Operation:
    return Operation(
        name="note",
        subject=subject,
        needs=needs,
        arguments=NoteArgs(),
        store=store,
        prepare=prepare_note,
        inverse=Inverse(fields=("Notes",), rule=undo),
        moves=no_items,
        sentence="Note written",
        notice="Wrote a note on {whom}.",
    )


NOTE_ON_PLAYER = _operation("player", players, Permission.NOTES_WRITE)
NOTE_ON_USER = _operation("user", users, Permission.NOTES_USERS, Permission.USERS_FIND)


of_players = Blueprint("PlayerNotes", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserNotes", __name__, url_prefix="/api/v1/users", group="Users")


full = TooManyNotes(MOST_NOTES)
args = CursorListArgs()


@read_route(of_players, "/<player:key>/notes", NotePageSchema, Permission.PLAYERS_READ, args=args)
def list_player_notes(args: Document, key: Lookup) -> Document:
    """List the notes on a player

    The newest first.
    """
    return list_notes(args, players.read(key, "Notes"))


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
    return list_notes(args, users.get(key, "Notes"))


@change_route(of_users, NOTE_ON_USER, "/<lookup:key>/notes", NoteSchema, full)
def write_user_note(args: Document, key: Lookup) -> Response:
    """Write a note on a user

    For staff: users do not see it. Undo its history entry to hide it.
    """
    return note_response(execute(NOTE_ON_USER, key, args), args)


def list_notes(args: Document, subject: Document) -> Document:
    notes, name = visible_notes(subject.get("Notes")), f"notes {subject['_id']}"
    return cursor_list(args, partial(newest_first.page, notes, name))


def note_response(applied: Applied, args: Document) -> Response:
    """Return the response with the note that this request, or an earlier attempt of it, wrote."""
    entry, told = applied.entry or {}, applied.answer
    if not isinstance(told, dict):  # release 0.3.0 stored the id alone
        subject = entry["Subject"]
        store = players if subject["Kind"] == "player" else users
        notes = store.get_many([subject["Id"]], "Notes").get(subject["Id"], {}).get("Notes", {})
        told = {"Id": told, "At": notes.get(told, entry)["At"]}
    by = {name: entry["By"][name] for name in ("UserId", "Name")}
    return change_response(applied, {**told, "By": by, "Text": args["Text"].strip()})
