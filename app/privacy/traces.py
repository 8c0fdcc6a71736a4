"""Where personal data is stored, in the order in which an erasure deletes or masks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from app.approvals.store import APPROVALS
from app.batches.store import BATCH_ROWS, BATCHES
from app.core.naming import name_key
from app.core.penalties import BAN, MUTE
from app.core.types import Document
from app.game.actions.store import ACTIONS
from app.game.player_events.store import GAME_EVENTS
from app.players.guilds import GUILDS, MEMBER
from app.players.items.store import BAGS
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    Person,
    entry_without,
    row_without,
    texts_without,
    without_members,
    without_role,
)
from app.storage.history import HISTORY
from app.storage.schema.plan import CollectionPlan
from app.storage.search_fields import words
from app.users.moderation import IMPOSE, LIFT
from app.users.oauth.store import REFRESH_TOKENS
from app.users.store import USERS

# The entries that quote texts of staff.
QUOTING: Document = {
    "Operation": {"$in": [operation.name for operation in (*IMPOSE.values(), *LIFT.values())]}
}
TEXT: Document = {"$type": "string"}


class Trace(NamedTuple):
    """Documents with data of a person, and what becomes of them."""

    plan: CollectionPlan
    where: Callable[[Person], Document]
    # Returns what a document becomes. Without a rule, the documents are deleted.
    rule: Callable[[Document, Person], Document] | None = None
    hint: str | None = None


def _about(plan: CollectionPlan, field: str) -> Trace:
    """Return a trace that is deleted: what belongs to an account or its characters."""
    return Trace(plan, lambda person: {field: {"$in": person.ids}})


def _by(plan: CollectionPlan, role: str) -> Trace:
    """Return a trace of which only the id of the author stays."""
    return Trace(
        plan,
        lambda person: {f"{role}.UserId": person.id, f"{role}.Name": {"$ne": None}},
        partial(without_role, role=role),
    )


def _texts(plan: CollectionPlan, where: Document, *paths: str, hint: str | None = None) -> Trace:
    """Return a trace in texts of others, in which names are masked."""
    return Trace(plan, lambda _: where, partial(texts_without, paths=paths), hint)


def _with_words(person: Person) -> Document:
    """Return the filter of documents whose Words include all those of a name."""
    # Nothing names somebody without a name.
    texts = person.texts or [" "]
    return {"$or": [{"Words": {"$all": words(text) or [name_key(text)]}} for text in texts]}


# Found by ids, so these tell also whether an erased person has returned.
OWN = (
    _about(PLAYERS, "UserId"),
    _about(DELETED_PLAYERS, "UserId"),
    _about(REFRESH_TOKENS, "UserId"),
    _about(ACTIONS, "Subject.Id"),
    _by(ACTIONS, "By"),
    _about(APPROVALS, "Subject.Id"),
    _about(APPROVALS, "Arguments.to"),
    _by(APPROVALS, "By"),
    _by(APPROVALS, "DecidedBy"),
    _about(BATCH_ROWS, "Subject.Id"),
    _by(BATCHES, "By"),
    _by(BATCHES, "StartedBy"),
    _by(BATCHES, "ApprovedBy"),
    _about(GAME_EVENTS, "Player"),
    _about(BAGS, "_id"),
    Trace(GUILDS, lambda person: {MEMBER: {"$in": person.ids}}, without_members),
)
OTHERS = (
    _texts(USERS, {BAN.by: TEXT}, BAN.by, BAN.reason),
    _texts(USERS, {MUTE.by: TEXT}, MUTE.by, MUTE.reason),
    _texts(USERS, {"Notes": {"$exists": True}}, "Notes", hint="noted"),
    _texts(PLAYERS, {"Notes": {"$exists": True}}, "Notes", hint="noted"),
    # Few players are deleted, so their notes need no index.
    _texts(DELETED_PLAYERS, {}, "Player.Notes"),
    _texts(ACTIONS, {}, "Reason", "Error", "Arguments.Message", "Arguments.Target", "Result"),
    _texts(BATCHES, {}, "Name", "Reason", "Undo"),
    Trace(BATCH_ROWS, _with_words, row_without),
    _texts(APPROVALS, {}, "Reason", "Why", "Arguments"),
    _texts(GAME_EVENTS, {"Text": TEXT}, "Text"),
)
# The erasure has begun with deleting it; a game may have stored it again.
ACCOUNT = (_about(USERS, "_id"),)
ENTRIES = (
    Trace(
        HISTORY,
        lambda person: {"Subject.Id": {"$in": person.ids}, "IsErased": {"$ne": True}},
        entry_without,
    ),
    Trace(
        HISTORY,
        lambda person: {"Authors": person.id, "By.Name": {"$ne": None}},
        entry_without,
    ),
    _by(HISTORY, "ApprovedBy"),
)
MENTIONS = (
    Trace(HISTORY, _with_words, entry_without),
    Trace(HISTORY, lambda _: QUOTING, entry_without),
)
TRACES = (*OWN, *OTHERS, *ACCOUNT, *ENTRIES, *MENTIONS)
RETURNED = (*ACCOUNT, *OWN, *ENTRIES)
