"""The rows of a batch that undoes others: the changes of a time, or what a batch has done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.batches.domain import NothingToUndo, Row, Undone, number_of, row_key, undoes_nothing
from app.batches.store import Batches
from app.history.domain import Filters, filters_of, matches
from app.history.operations import UNDO
from app.history.store import History
from app.request_scope import renew_time_limit
from app.storage.bulk import batches as in_chunks
from app.storage.search_fields import archived
from app.types import Document

# So many entries are looked at together.
CHUNK = 500
# The names of the filters in the query of history.
QUERY = {
    "By": "by",
    "Key": "key",
    "Operation": "operation",
    "Item": "item",
    "From": "since",
    "To": "until",
}


class Choosing:
    """Finds in history what is to be undone."""

    def __init__(self, batches: Batches, history: History) -> None:
        self._batches = batches
        self._history = history

    def changes(self, chosen: Document, kinds: tuple[str, ...]) -> Iterator[Row]:
        """Yield a row for each change about these kinds of documents, the newest first."""
        args = {QUERY[name]: value for name, value in chosen.items()}
        filters = filters_of(args, kinds)
        self._history.move_all()
        number = 0
        for entries in in_chunks(self._history.walk(filters), CHUNK):
            renew_time_limit()
            undone = self._undone_by(entries)
            for entry in entries:
                number += 1
                yield _row(number, entry, undone, filters)
        if not number:
            # A primary that is cut off lacks what others have changed since.
            self._batches.require_majority()
            raise NothingToUndo("no change matches")

    def _undone_by(self, entries: Sequence[Document]) -> dict[str, Document]:
        """Return by id what some entries undo, and what that undoes, and so on."""
        found: dict[str, Document] = {}
        asked: set[str] = set()
        wanted = _undone_ids(entries)
        while wanted:
            more = self._history.get_many(list(wanted))
            found |= more
            asked |= wanted
            wanted = _undone_ids(more.values()) - asked
        return found

    def find_made(self, batch_id: str) -> None:
        """Note what callers who died have carried out of a batch, by the keys in history."""
        self._history.move_all()
        made: list[str] = []
        for ids in self._batches.abandoned_rows(batch_id):
            renew_time_limit()
            keys = {row_key(id_): id_ for id_ in ids}
            made += [keys[key] for key in self._history.ids_by_key(list(keys))]
        self._batches.note_made(batch_id, made)

    def done_rows(self, batch_id: str) -> Iterator[Row]:
        """Yield a row for each one that a batch has carried out, the last first."""
        self.find_made(batch_id)
        number = 0
        for done in self._batches.walk_done(batch_id):
            entries = self._history.ids_by_key([row_key(row["_id"]) for row in done])
            for row in done:
                number += 1
                entry_id = entries.get(row_key(row["_id"]))
                if entry_id is None:
                    fault = f"The change of row {number_of(row)} is not in history."
                    yield Row(number, None, UNDO.name, {}, fault)
                else:
                    yield undo_row(number, entry_id)
        if not number:
            raise NothingToUndo("the batch has changed nothing")


def _undone_ids(entries: Iterable[Document]) -> set[str]:
    return {entry["Undoes"] for entry in entries if "Undoes" in entry}


def _row(number: int, entry: Document, undone: dict[str, Document], filters: Filters) -> Row:
    row = undo_row(number, entry["_id"])

    def is_chosen(other: Document) -> bool:
        return matches(other, filters, archived(other, None))

    if "Undoes" in entry and undoes_nothing(entry, undone.get, is_chosen):
        fault = str(Undone(entry["_id"], entry["Undoes"]))
        return row._replace(fault=fault, subject=entry["Subject"])
    return row


def undo_row(number: int, entry_id: str) -> Row:
    return Row(number, None, UNDO.name, {"id": entry_id})
