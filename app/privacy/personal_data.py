"""All stored data about a person, as one JSON document, written in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from app.approvals.domain import public_approval
from app.approvals.store import approvals
from app.auth.api_keys import keys_of
from app.batches.domain import public_batch, public_row
from app.batches.store import batches
from app.core.changes import KINDS, Applied, Intent
from app.core.naming import Lookup
from app.core.types import Document
from app.game.actions.domain import public_action
from app.game.actions.store import actions
from app.game.player_events.domain import public_event
from app.game.player_events.store import events as game_events
from app.history.store import filters_of, history
from app.http.json import encode
from app.players import domain as players
from app.players.guilds import guilds_of
from app.players.items.store import bags
from app.privacy.domain import note_export
from app.storage.client import storage
from app.storage.limits import budgets
from app.users import domain as users
from app.users.api_keys.domain import public_keys
from app.users.notes import public_note
from app.users.oauth.store import refresh_tokens
from app.users.store import users as accounts

# Internal search fields that nevertheless contain personal data.
EXPORTED_INTERNAL = {"FormerNames", "FormerEmails", "OpenId", "GroupRoles"}
# Fields that are not exported: secrets, derived keys, and those exported separately.
LEFT_OUT = (*users.INTERNAL, "PasswordHash", "Notes")


def write(key: Lookup, intent: Intent) -> tuple[Applied, Iterator[bytes]]:
    """Return the pieces of the document about a person; raise NotFound before the first piece.

    A history entry is written first: nobody reads personal data without a trace.
    """
    user_id = accounts.get(key, "_id")["_id"]
    applied = accounts.change(Lookup.parse(user_id), (), note_export, intent)
    stored = storage.db["users"].find_one({"_id": user_id}) or {"_id": user_id}
    return applied, _pieces(accounts.readable(stored, ()))


def _pieces(user: Document) -> Iterator[bytes]:
    yield b'{"User":' + encode(_readable(user, LEFT_OUT))
    for name, values in _lists(user):
        yield f',"{name}":['.encode()
        for number, value in enumerate(values):
            yield (b"," if number else b"") + encode(value)
        yield b"]"
    yield b"}\n"


def _lists(user: Document) -> Iterator[tuple[str, Iterable[Any]]]:
    """Yield the lists about a person by name; each may be long."""
    user_id, now, own = user["_id"], storage.clock.now(), {"UserId": user["_id"]}
    characters = [*storage.db["players"].find(own)]
    deleted = [kept["Player"] for kept in storage.db["deleted_players"].find(own)]
    ids = [user_id, *(player["_id"] for player in [*characters, *deleted])]
    yield "Characters", map(_character, characters)
    yield "DeletedCharacters", map(_character, deleted)
    yield "Guilds", guilds_of(storage.db, ids)
    # Those that an undo has hidden, too.
    yield (
        "Notes",
        (
            {**public_note(id_, note), "IsHidden": note.get("IsHidden", False)}
            for id_, note in user.get("Notes", {}).items()
        ),
    )
    yield "Keys", public_keys(user, now, budgets.used_today([*keys_of(user)]))
    yield "SignIns", refresh_tokens.sign_ins(user)
    yield "Actions", (public_action(one, now) for one in actions.of_person(ids, user_id))
    yield "BatchRows", ({"Id": r["_id"], **public_row(r)} for r in batches.rows_about(ids))
    yield "Batches", map(public_batch, batches.requested_by(user_id))
    yield "Approvals", map(public_approval, approvals.of_person(ids, user_id))
    yield "GameEvents", (public_event(event, {}) for event in game_events.of_players(ids))
    about = (filters_of({}, KINDS, id_) for id_ in ids)
    yield "HistoryAbout", chain.from_iterable(map(history.present_all, about))
    yield "HistoryBy", history.present_all(filters_of({"by": user_id}, KINDS))


def _character(player: Document) -> Document:
    """Return a character with everything that it owns and has learned, including bags."""
    carried = [_readable(bag, ()) for bag in bags.carried_by([player])]
    return {**_readable(player, players.INTERNAL), "Bags": carried}


def _readable(document: Document, left_out: Iterable[str]) -> Document:
    """Return a stored document without some fields."""
    hidden = {"_id", *left_out} - EXPORTED_INTERNAL
    kept = {name: value for name, value in document.items() if name not in hidden}
    return {"Id": document["_id"], **kept}
