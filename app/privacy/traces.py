"""Where personal data is stored, in the order in which an erasure deletes or masks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from app.approvals.store import APPROVALS
from app.batches.store import BATCH_ROWS, BATCHES, UNKNOWN
from app.core.changes import ABSENT
from app.core.penalties import BAN, MUTE
from app.core.types import Document
from app.game.actions.store import ACTIONS
from app.game.player_events.store import GAME_EVENTS
from app.players.guilds.store import GUILDS, MEMBER
from app.players.items.store import BAGS
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    ACTION_TEXTS,
    APPROVAL_TEXTS,
    anonymous,
    batch_without,
    changed,
    notes_without,
    quoting_operations,
    texts_without,
    without_approver,
    without_author,
    without_members,
    without_mentions,
)
from app.storage.history import HISTORY
from app.storage.limits import BUDGETS, OF_ACCOUNTS, QUOTAS
from app.storage.schema.plan import CollectionPlan
from app.storage.search_fields import words
from app.users.oauth.store import REFRESH_TOKENS
from app.users.store import USERS


class Person(NamedTuple):
    """The id of an account, those of all that belonged to it, and the texts that identify it."""

    id: str
    ids: Sequence[str]
    texts: Sequence[str] = ()


class Trace(NamedTuple):
    """Documents with data of a person, and what becomes of them."""

    collection: str
    where: Callable[[Person], Document]
    # Returns the new values by path, ABSENT for none. Without a rule, the documents are deleted.
    rule: Callable[[Document, Person], Document] | None = None
    hint: str | None = None
    counted_as: str | None = None


def _about(plan: CollectionPlan, *fields: str) -> Trace:
    """Return a trace that is deleted: what is about an account or its characters."""
    return Trace(plan.name, lambda person: {"$or": [{f: {"$in": person.ids}} for f in fields]})


def _by(plan: CollectionPlan, role: str, *hidden: str, **fields: None) -> Trace:
    """Return a trace of which only the id of the author stays."""
    new = {f"{role}.Name": None, **fields, **dict.fromkeys((f"{role}.Key", *hidden), ABSENT)}

    def where(person: Person) -> Document:
        return {f"{role}.UserId": person.id, f"{role}.Name": {"$ne": None}}

    return Trace(plan.name, where, lambda *_: new)


def _entries(
    where: Callable[[Person], Document],
    rule: Callable[[Document, Person], Document],
    hint: str | None,
) -> Trace:
    """Return a trace in history; the rule returns the new entry."""
    return Trace(HISTORY.name, where, lambda e, person: changed(e, rule(e, person)), hint)


def _texts(
    plan: CollectionPlan,
    where: Document,
    rule: Callable[..., Document],
    hint: str | None = None,
) -> Trace:
    """Return a trace in texts of others, in which names are masked."""
    return Trace(plan.name, lambda _: where, lambda d, person: rule(d, texts=person.texts), hint)


def _notes(plan: CollectionPlan, path: str, hint: str) -> Trace:
    return Trace(
        plan.name,
        lambda _: {path: {"$exists": True}},
        lambda d, person: notes_without(d, path, person.id, person.texts),
        hint,
    )


def _naming(person: Person) -> Document:
    """Return the filter of entries whose reason has all words of a name."""
    found = [wanted for text in person.texts if (wanted := words(text))]
    return {"$or": [{"Words": {"$all": wanted}} for wanted in found or [[""]]]}


KEYS = ("RequestKey", "Fingerprint")
# Found by ids, so these tell also whether an erased person has returned.
OWN = (
    Trace(PLAYERS.name, lambda person: {"UserId": person.id}),
    Trace(DELETED_PLAYERS.name, lambda person: {"UserId": person.id}),
    Trace(REFRESH_TOKENS.name, lambda person: {"UserId": person.id}, counted_as="Tokens"),
    _about(ACTIONS, "Subject.Id"),
    _by(ACTIONS, "By", *KEYS, RequestId=None),
    _about(APPROVALS, "Subject.Id", "Arguments.to"),
    _by(APPROVALS, "By"),
    _by(APPROVALS, "DecidedBy"),
    _about(BATCH_ROWS, "Subject.Id"),
    _by(BATCHES, "By", *KEYS),
    _by(BATCHES, "StartedBy"),
    _by(BATCHES, "ApprovedBy"),
    _about(GAME_EVENTS, "Player"),
    # Those that return; the others are deleted before, the inner ones first.
    _about(BAGS, "_id"),
    Trace(
        GUILDS.name,
        lambda person: {MEMBER: {"$in": person.ids}},
        lambda guild, person: without_members(guild, person.ids),
    ),
)
COUNTERS = (
    Trace(BUDGETS.name, lambda person: {"_id": {"$regex": f"^{person.id} "}}),
    Trace(
        QUOTAS.name,
        lambda person: {"_id": {"$in": [f"{kind} {person.id}" for kind in OF_ACCOUNTS]}},
    ),
)
OTHERS = (
    *(
        _texts(
            USERS,
            {penalty.by: {"$type": "string"}},
            partial(texts_without, paths=(penalty.by, penalty.reason)),
            hint,
        )
        for penalty, hint in ((BAN, "banned"), (MUTE, "muted"))
    ),
    _notes(USERS, "Notes", "noted"),
    _notes(PLAYERS, "Notes", "noted"),
    # Few players are deleted, so their notes need no index.
    _notes(DELETED_PLAYERS, "Player.Notes", "_id_"),
    _texts(ACTIONS, {}, partial(texts_without, paths=ACTION_TEXTS)),
    _texts(BATCHES, {}, batch_without),
    # There may be millions of rows: read only those that can name somebody else.
    _texts(BATCH_ROWS, UNKNOWN, batch_without, "unknown"),
    _texts(APPROVALS, {}, partial(texts_without, paths=APPROVAL_TEXTS)),
    _texts(GAME_EVENTS, {}, partial(texts_without, paths=("Text",))),
)
ACCOUNT = (Trace(USERS.name, lambda person: {"_id": person.id}),)
# The account is deleted after all that is found through it.
ENTRIES = (
    _entries(
        lambda person: {"Subject.Id": {"$in": person.ids}, "IsErased": {"$ne": True}},
        lambda entry, _: anonymous(entry),
        "subject",
    ),
    _entries(
        lambda person: {"Authors": person.id, "By.Name": {"$ne": None}},
        lambda entry, _: without_author(entry),
        "author",
    ),
    _entries(
        lambda person: {"ApprovedBy.UserId": person.id, "ApprovedBy.Name": {"$ne": None}},
        lambda entry, _: without_approver(entry),
        "approver",
    ),
)
MENTIONS = (
    _entries(_naming, lambda entry, person: without_mentions(entry, person.texts), None),
    _entries(
        lambda _: {"Operation": {"$in": quoting_operations()}},
        lambda entry, person: without_mentions(entry, person.texts),
        "operation",
    ),
)
TRACES = (*OWN, *COUNTERS, *OTHERS, *ACCOUNT, *ENTRIES, *MENTIONS)
RETURNED = (*ACCOUNT, *OWN, *ENTRIES)
