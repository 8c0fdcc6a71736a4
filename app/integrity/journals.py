"""Whether every change has its entry: in the Journal of its document, or in history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from app.changes import Intent, field_changes
from app.database import SUBJECTS
from app.storage.client import Storage
from app.storage.committed import committed
from app.storage.event_log import EventLog
from app.storage.history_entries import entries_of
from app.storage.journal import HISTORY
from app.storage.schema.explain_validator import Fault
from app.types import Document, whole

Range = tuple[int, int]
# The argument of a repair that tells which numbers of entries are lost, as pairs of first and last.
LOST = "LostEntries"
# An entry moves within seconds; where it does not, nobody moves any.
MOVES_WITHIN = timedelta(minutes=1)


def history_faults(
    storage: Storage, name: str, documents: list[Document]
) -> dict[str, list[Fault]]:
    """Return by the repr of an id which documents have entries that are lost or have not moved."""
    if name not in SUBJECTS:
        return {}
    now = storage.clock.now()
    counted = [document for document in documents if is_counted(document)]
    lost = lost_numbers(storage, counted)
    faults: dict[str, list[Fault]] = {}
    for document in counted:
        found = [*_unmoved(entries_of(document), now), *_lost(lost[document["_id"]])]
        if found:
            faults[repr(document["_id"])] = found
    return faults


def is_counted(document: Document) -> bool:
    """Tell whether a document counts its entries; of an id that is no text nobody finds any."""
    return isinstance(document["_id"], str) and whole(document.get("JournalCount")) is not None


def _unmoved(entries: list[Document], now: datetime) -> list[Fault]:
    late = [entry for entry in entries if now - entry["At"] > MOVES_WITHIN]
    noun = "entry" if len(late) == 1 else "entries"
    return [Fault("Journal", f"holds {len(late)} {noun} that should be in history")] if late else []


def is_mended_beside(fault: Fault) -> bool:
    """Tell whether a fault is mended by moving entries, or by noting what is lost or left out."""
    return fault.where.partition(".")[0] in ("Journal", "JournalCount", "Entry")


def _lost(missing: list[Range]) -> list[Fault]:
    """Return whether the entries of a document, which are numbered, have a gap."""
    count = sum(last - first + 1 for first, last in missing)
    noun = "entry" if count == 1 else "entries"
    lost = (
        f"counts {count} {noun} that history does not hold: --repair notes there that they are lost"
    )
    return [Fault("JournalCount", lost)] if missing else []


def lost_numbers(storage: Storage, documents: list[Document]) -> dict[Any, list[Range]]:
    """Return by document which numbers of its entries are neither there nor noted as lost."""
    now, history = storage.clock.now(), committed(storage.db[HISTORY.name])
    known: dict[Any, list[Range]] = {
        document["_id"]: [range_ for entry in entries_of(document) for range_ in _ranges(entry)]
        for document in documents
    }
    fields = ["Subject.Id", "Number", f"Arguments.{LOST}"]
    for entry in history.find({"Subject.Id": {"$in": list(known)}}, fields):
        known[entry["Subject"]["Id"]] += _ranges(entry)
    found = {}
    for document in documents:
        ranges, last = known[document["_id"]], whole(document["JournalCount"]) or 0
        is_expected = storage.journals.keeps(document.get("ChangedAt"), now)
        first = min((first for first, _ in ranges), default=last if is_expected else last + 1)
        found[document["_id"]] = gaps(ranges, first, last)
    return found


def _ranges(entry: Document) -> Iterator[Range]:
    """Yield the number of an entry, and those that it notes as lost."""
    # A game may have written to the entry before it moved.
    if (number := whole(entry.get("Number"))) is not None:
        yield number, number
    yield from map(tuple, entry.get("Arguments", {}).get(LOST, ()))


def gaps(known: list[Range], first: int, last: int) -> list[Range]:
    """Return the ranges between two numbers that are in no known one.

    Not by walking from number to number: a game may have stored any count.
    """
    missing = []
    for begin, end in sorted(known):
        if first < begin:
            missing.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return missing
    return [*missing, (first, last)] if first <= last else missing


def event_faults(storage: Storage, name: str, documents: list[Document]) -> dict[str, list[Fault]]:
    """Return by the repr of an id which entries of history no reader of events is told of."""
    if name != HISTORY.name:
        return {}
    log, history = EventLog(storage.db), storage.db[HISTORY.name]
    oldest = history.find_one({"_id": {"$in": log.first()}}, ["At"], sort=[("At", 1)])
    # Older ones are from before there were events.
    ids = [
        document["_id"]
        for document in documents
        if oldest and isinstance(document.get("At"), datetime) and document["At"] >= oldest["At"]
    ]
    fault = Fault("Entry", "is not among the events, so that tools which follow them miss it")
    return {repr(id_): [fault] for id_ in log.missing(ids)}


def move_entries(storage: Storage, name: str, ids: list[Any]) -> None:
    """Move entries from the Journals of documents to history, and from there to the events."""
    if kind := SUBJECTS.get(name):
        storage.journals.move(kind, ids)
    if name == HISTORY.name:
        found = storage.db[name].find({"_id": {"$in": ids}}, ["At"])
        times = {entry["_id"]: entry["At"] for entry in found}
        log = EventLog(storage.db)
        if missing := log.missing(list(times)):
            newest = max(times[id_] for id_ in missing)
            log.append(missing, storage.journals.expiry_of(newest))


def with_entry(
    storage: Storage,
    name: str,
    before: Document,
    after: Document,
    intent: Intent,
    lost: list[Range],
) -> Document:
    """Return a repaired document with the entry of its repair, and of what is lost."""
    kind = SUBJECTS[name]
    changes = field_changes(kind, before, after)
    if lost:
        intent = intent._replace(arguments={LOST: [list(pair) for pair in lost]})
    return storage.swapper(kind).with_entry(after, intent, changes)
