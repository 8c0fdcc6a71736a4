"""Checks that every change has an entry: in the Journal of its document, or in history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from app.changes import Intent, field_changes
from app.database import SUBJECTS
from app.storage.client import Storage
from app.storage.committed import committed
from app.storage.history_entries import entries_of
from app.storage.journal import HISTORY
from app.storage.schema.explain_validator import Fault
from app.types import Document, whole

Range = tuple[int, int]
# The argument of a repair that lists the numbers of lost entries, as pairs of first and last.
LOST = "LostEntries"
# Entries move within seconds; if one has not moved after this time, no worker moves entries.
MOVES_WITHIN = timedelta(minutes=1)


def history_faults(
    storage: Storage, name: str, documents: list[Document]
) -> dict[str, list[Fault]]:
    """Return the documents with lost or unmoved entries, by the repr of their id."""
    now, lost = storage.clock.now(), lost_numbers(storage, name, documents)
    found = {
        repr(document["_id"]): [
            *_unmoved_faults(
                sum(now - entry["At"] > MOVES_WITHIN for entry in entries_of(document))
            ),
            *_lost_faults(sum(last - first + 1 for first, last in lost[repr(document["_id"])])),
        ]
        for document in documents
        if repr(document["_id"]) in lost
    }
    return {key: faults for key, faults in found.items() if faults}


def _unmoved_faults(count: int) -> Iterator[Fault]:
    if count:
        noun = "entry" if count == 1 else "entries"
        yield Fault("Journal", f"holds {count} {noun} that should be in history")


def _lost_faults(count: int) -> Iterator[Fault]:
    if count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        what = f"counts {entries} that history lacks: --repair records them as lost"
        yield Fault("JournalCount", what)


def is_mended_beside(fault: Fault) -> bool:
    """Return whether a fault is repaired by moving entries, or by recording what is lost."""
    return fault.where.partition(".")[0] in ("Journal", "JournalCount")


def lost_numbers(storage: Storage, name: str, documents: list[Document]) -> dict[str, list[Range]]:
    """Return the numbers of missing entries that are not recorded as lost, by the repr of an id.

    Documents that do not count their entries are skipped. So are those whose id is not a string:
    their entries cannot be found.
    """
    counted = {
        document["_id"]: document
        for document in (documents if name in SUBJECTS else ())
        if isinstance(document["_id"], str) and whole(document.get("JournalCount")) is not None
    }
    known: dict[str, list[Range]] = {
        id_: [range_ for entry in entries_of(document) for range_ in _ranges(entry)]
        for id_, document in counted.items()
    }
    history, fields = storage.db[HISTORY.name], ["Subject.Id", "Number", f"Arguments.{LOST}"]
    for entry in committed(history).find({"Subject.Id": {"$in": list(known)}}, fields):
        known[entry["Subject"]["Id"]] += _ranges(entry)
    return {repr(id_): _gaps_in(storage, counted[id_], ranges) for id_, ranges in known.items()}


def _gaps_in(storage: Storage, document: Document, ranges: list[Range]) -> list[Range]:
    last = whole(document["JournalCount"]) or 0
    is_expected = storage.journals.keeps(document.get("ChangedAt"), storage.clock.now())
    first = min((first for first, _ in ranges), default=last if is_expected else last + 1)
    return gaps(ranges, first, last)


def _ranges(entry: Document) -> Iterator[Range]:
    """Yield the number of an entry, and the numbers that it records as lost."""
    # A game may have changed the entry before it moved.
    if (number := whole(entry.get("Number"))) is not None:
        yield number, number
    yield from map(tuple, entry.get("Arguments", {}).get(LOST, ()))


def gaps(known: list[Range], first: int, last: int) -> list[Range]:
    """Return the ranges between two numbers that no known range covers.

    This does not iterate over the numbers: a game may have stored any count.
    """
    missing = []
    for begin, end in sorted(known):
        if first < begin:
            missing.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return missing
    return [*missing, (first, last)] if first <= last else missing


def move_entries(storage: Storage, name: str, ids: list[Any]) -> None:
    """Move entries from the Journals of documents to history."""
    if kind := SUBJECTS.get(name):
        storage.journals.move(kind, ids)


def with_entry(
    storage: Storage,
    name: str,
    before: Document,
    after: Document,
    intent: Intent,
    lost: list[Range],
) -> Document:
    """Return a repaired document with the entry of its repair, which records the lost entries."""
    kind = SUBJECTS[name]
    changes = field_changes(kind, before, after)
    if lost:
        intent = intent._replace(arguments={LOST: [list(pair) for pair in lost]})
    return storage.swapper(kind).with_entry(after, intent, changes)
