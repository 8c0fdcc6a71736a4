"""Writing a note on a player or a user."""

from __future__ import annotations

import uuid
from functools import partial

from app.auth import guard
from app.changes import Applied
from app.http.context import current
from app.http.intents import keyed_intent
from app.http.masking import masked
from app.naming import Lookup
from app.notes.domain import write
from app.players.store import Players
from app.users.store import Users

users = current(Users)


def write_note(store: Players | Users, key: Lookup, text: str) -> Applied:
    """Write a note by the caller; the answer is its id."""
    caller = guard.caller()
    note_id = str(uuid.uuid4())
    rule = partial(
        write,
        note_id=note_id,
        # A note is kept for long and shown to many: a token in it is not.
        text=masked(text.strip()),
        user_id=caller.id,
        name=caller.name,
        at=users.now(),
    )
    return store.change(
        key, ("Notes",), rule, keyed_intent("note", {"Text": text}, untold=("Text",))
    )
