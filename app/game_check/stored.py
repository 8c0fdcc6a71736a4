"""Finds habits of a game in stored documents and actions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from app.changes import (
    LARGEST_CLOCK_ERROR,
    SWAP_FIELDS,
    TOO_LARGE,
    SubjectKind,
    is_same_value,
)
from app.game_check.habits import Habit
from app.game_check.report import terminal_text
from app.moderation.penalties import BAN, MUTE, is_in_force
from app.storage.schema.explain_validator import MISSING, Fault
from app.types import Document, whole

PRESENCE = frozenset({"Online", "LastSeen", "LastOnline"})
# Maps in which the game and the service write single entries.
MAPS = frozenset({"Inventory", "Bank", "Spells", "Variables", "Slots"})
# Fields that only the service writes.
OWN_FIELDS = frozenset(
    {*SWAP_FIELDS, "Notes", "Keys", "KeyDigests", "DeletedAt", "RestoredFrom", "ErasedAt"}
    | {"FormerNames", "FormerEmails", "SecondFactor"}
    | {"OpenId", "Roles", "GroupRoles", "IsDisabled"}
) - {"Version"}
# Older actions may come from an earlier version of the game.
RECENT = timedelta(days=1)
LOOKS_WITHIN = timedelta(seconds=10)
ANSWERS_WITHIN = timedelta(minutes=1)
TAKES_WITHIN = timedelta(seconds=5)
# A tolerance: the game compares times with its own clock, and the database writes them.
CLOCK_ERROR = timedelta(seconds=5)
# A time further in the future would make a stopped game, or an offline player, seem active.
FAR_AHEAD = timedelta(minutes=1)
LONGEST_ID = 64
TYPES = {"Taken": datetime, "TakenBy": str, "Done": datetime, "Error": str, "Result": dict}
# How long a game may take to end a session after a ban.
BAN_GRACE = timedelta(minutes=1)
# The texts of penalties, which an erasure rewrites in accounts and in history.
_REWRITTEN = frozenset(name for penalty in (BAN, MUTE) for name in (penalty.reason, penalty.by))
_NUMBER_OR_GUID = re.compile(r"\.(\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=\.|$)")


def fault_habits(faults: Iterable[Fault]) -> dict[Habit, list[str]]:
    """Return the habits behind the faults of one document, each with the fields that show it."""
    found: dict[Habit, list[str]] = {}
    for fault in faults:
        fields = found.setdefault(_habit_of(fault), [])
        where = _NUMBER_OR_GUID.sub(".*", fault.where)
        if where not in fields:
            fields.append(where)
    return found


def _habit_of(fault: Fault) -> Habit:
    field = fault.where.partition(".")[0]
    if field == "Version":
        return Habit.NO_VERSION
    if fault.what == MISSING:
        return Habit.MISSING_FIELDS
    if field in OWN_FIELDS:
        return Habit.OWN_FIELDS
    begins = {
        "is an empty slot": Habit.EMPTY_SLOTS,
        "is null, not": Habit.NULLS,
        "does not match the": Habit.WRONG_KEYS,
        "is not a lower-case guid": Habit.WRONG_TYPES,
        "is unknown": Habit.UNKNOWN_FIELDS,
        "is not allowed as a field": Habit.UNKNOWN_FIELDS,
    }
    for begin, habit in begins.items():
        if fault.what.startswith(begin):
            return habit
    is_type = fault.what.startswith("is ") and ", not " in fault.what
    return Habit.WRONG_TYPES if is_type else Habit.WRONG_VALUES


def book_habits(
    kind: SubjectKind, document: Document, entries: list[Document], now: datetime
) -> Iterator[tuple[Habit, list[str]]]:
    """Yield the habits that a document and its entries, with the newest one, show."""
    version = whole(document.get("Version"))
    former = [whole(document.get("LastVersion")), *(whole(e.get("Version")) for e in entries)]
    if version is not None and version < max((v for v in former if v is not None), default=0):
        yield Habit.VERSION_SET_BACK, []
    counted = whole(document.get("JournalCount")) or 0
    if counted < max((whole(e.get("Number")) or 0 for e in entries), default=0):
        yield Habit.LOST_ENTRIES, []
    if odd := list(_odd_books(document, now)):
        yield Habit.OWN_FIELDS, odd
    if changed := _changed_since(kind, document, entries):
        yield Habit.CHANGED_UNCOUNTED, changed


def _odd_books(document: Document, now: datetime) -> Iterator[str]:
    """Yield fields of the service with values that it never writes."""
    for name in ("LastVersion", "JournalCount"):
        if name in document and (whole(document[name]) is None or document[name] < 0):
            yield name
    if "ChangedAt" in document:
        at = document["ChangedAt"]
        if not isinstance(at, datetime) or at - now > LARGEST_CLOCK_ERROR:
            yield "ChangedAt"


def _changed_since(kind: SubjectKind, document: Document, entries: list[Document]) -> list[str]:
    """Return the fields that differ from the last change although Version is the same."""
    last = [
        entry
        for entry in entries
        if entry.get("Stamp") == document.get("Stamp")
        and entry.get("Version") == document.get("Version")
        and not entry.get("IsErased")
    ]
    changes = last[0]["Changes"] if last and "Stamp" in document else ()
    return [
        change["Path"]
        for change in changes
        if _is_recorded(kind, change) and not _has_value(document, change["Path"], change["After"])
    ]


def _is_recorded(kind: SubjectKind, change: Any) -> bool:
    """Tell whether an entry contains the value after a change, and nothing else writes it."""
    if not isinstance(change, dict) or not isinstance(change.get("Path"), str):
        return False
    field = change["Path"].partition(".")[0]
    is_quoted = change["Path"] not in kind.secret.values() and field not in kind.unquoted
    is_free = field in PRESENCE or field in _REWRITTEN
    return is_quoted and not is_free and change.get("After", TOO_LARGE) != TOO_LARGE


def _has_value(document: Document, path: str, after: Any) -> bool:
    field, _, name = path.partition(".")
    value = document.get(field)
    if name:
        value = value.get(name) if isinstance(value, dict) else None
    return is_same_value(value, after)


def is_ban_ignored(player: Document, account: Document, now: datetime) -> bool:
    """Tell whether a player is online with an account that has been banned for a while."""
    seen = player.get("LastSeen")
    seen = seen if isinstance(seen, datetime) else now
    changed = account.get("ChangedAt")
    is_recent = isinstance(changed, datetime) and seen - changed < BAN_GRACE
    return is_in_force(account, BAN, now) and not is_recent


def is_written_while_deleted(player: Document) -> bool:
    """Tell whether a game has counted up the Version of a player marked as deleted."""
    version, last = whole(player.get("Version")), whole(player.get("LastVersion"))
    return version is not None and last is not None and version > last


def is_stored_again(player: Document, kept: Document) -> bool:
    """Tell whether a game stored a deleted player again: the service would continue Version."""
    former, last = whole(kept.get("LastVersion")), whole(player.get("LastVersion")) or 0
    return "DeletedAt" not in player and former is not None and last <= former


def action_habits(
    action: Document, now: datetime, somebody_looks: bool
) -> Iterator[tuple[Habit, list[str]]]:
    """Yield the habits that an action shows of the game that was to take it."""
    asked, before = action.get("At"), action.get("TakeBefore")
    taken, done, error = (action.get(name) for name in ("Taken", "Done", "Error"))
    if not isinstance(asked, datetime) or now - asked > RECENT:
        return
    if wrong := list(_wrong_values(action)):
        yield Habit.WRONG_ANSWERS, wrong
    if done is not None and error is not None:
        yield Habit.DONE_AND_ERROR, []
    is_answered = done is not None or error is not None
    if is_answered and taken is None:
        yield Habit.ANSWERED_UNTAKEN, []
    if isinstance(taken, datetime):
        if isinstance(before, datetime) and taken - before > CLOCK_ERROR:
            yield Habit.TAKEN_LATE, []
        if not is_answered and now - taken > ANSWERS_WITHIN:
            yield Habit.NEVER_ANSWERED, []
    is_waiting = taken is None and not is_answered and now - asked > TAKES_WITHIN
    if is_waiting and somebody_looks:
        yield Habit.LEFT_WAITING, []


def _wrong_values(action: Document) -> Iterator[str]:
    for name, kind in TYPES.items():
        value = action.get(name)
        is_blank = isinstance(value, str) and not value.strip()
        if value is not None and (not isinstance(value, kind) or is_blank):
            yield name
    if action.get("Taken") is not None and action.get("TakenBy") is None:
        yield "TakenBy"


def wrong_fields_of(game: Document, now: datetime) -> list[str]:
    """Return the unusable fields of a document in games."""
    id_, looked = game.get("_id"), game.get("LookedAt")
    wrong = []
    if not isinstance(id_, str) or not 1 <= len(id_) <= LONGEST_ID:
        wrong.append("_id")
    if not isinstance(looked, datetime) or looked - now > FAR_AHEAD:
        wrong.append("LookedAt")
    return wrong


def is_polling(game: Document, now: datetime) -> bool:
    """Tell whether a game server polls for actions now."""
    looked = game.get("LookedAt")
    return isinstance(looked, datetime) and now - looked <= LOOKS_WITHIN


def why_nobody_looks(games: list[Document]) -> str:
    """Return a sentence on since when no game server has polled."""
    dated: list[Any] = [game for game in games if isinstance(game.get("LookedAt"), datetime)]
    if not dated:
        return "none has ever done so in the collection games"
    last = max(dated, key=lambda game: game["LookedAt"])
    at = last["LookedAt"].strftime("%Y-%m-%d %H:%M:%S")
    return f"the last, {terminal_text(str(last['_id']))}, did so at {at} UTC"
