"""The rows of a batch that come from elsewhere: from history, another batch, or a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.batches.domain import (
    MOST_PLAYERS,
    NothingLeft,
    NothingToUndo,
    Row,
    RowFilters,
    Undone,
    number_of,
    row_key,
    undoes_nothing,
)
from app.batches.rows import parse_row
from app.batches.store import Batches
from app.core.errors import InvalidField
from app.core.request_scope import renew_time_limit
from app.core.types import Document
from app.history.access import undo_arguments
from app.history.domain import filters_of, matches
from app.history.operations import UNDO
from app.history.store import History
from app.players.store import Players
from app.storage.bulk import batches as in_chunks
from app.storage.search_fields import history_document

# How many entries are read at once.
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
    def __init__(self, batches: Batches, history: History, players: Players) -> None:
        self._batches = batches
        self._history = history
        self._players = players

    def changes(self, chosen: Document, kinds: tuple[str, ...]) -> Iterator[Row]:
        """Yield a row for each matching change of these kinds of documents, the newest first."""
        wanted = {query: chosen[name] for name, query in QUERY.items() if name in chosen}
        filters = filters_of(wanted, kinds)
        if not self._history.holds(filters):
            raise NothingToUndo("no change matches")
        number = 0
        for entries in in_chunks(self._history.walk(filters), CHUNK):
            renew_time_limit()
            undone = self._undone_by(entries)
            for entry in entries:
                number += 1
                arguments = undo_arguments(entry["_id"], chosen.get("Partial", False))
                row = Row(number, None, UNDO.name, arguments)
                if "Undoes" in entry and undoes_nothing(
                    entry,
                    undone.get,
                    lambda other: matches(other, filters, history_document(other, None)),
                ):
                    fault = str(Undone(entry["_id"], entry["Undoes"]))
                    # Without its arguments, it cannot be tried again.
                    row = row._replace(arguments={}, fault=fault, subject=entry["Subject"])
                yield row

    def _undone_by(self, entries: Sequence[Document]) -> dict[str, Document]:
        """Return by id the entries that these entries undo, directly or through other undos."""
        found: dict[str, Document] = {}
        looked_up: set[str] = set()
        wanted = {entry["Undoes"] for entry in entries if "Undoes" in entry}
        while wanted:
            more = self._history.get_many(list(wanted))
            found |= more
            looked_up |= wanted
            wanted = {e["Undoes"] for e in more.values() if "Undoes" in e} - looked_up
        return found

    def done_rows(self, batch_id: str, is_partial: bool) -> Iterator[Row]:
        """Yield an undo row for each row that a batch has carried out, the last first."""
        number = 0
        for done in self._batches.walk_done(batch_id):
            entries = self._history.ids_by_key([row_key(row) for row in done])
            for row in done:
                number += 1
                entry_id = entries.get(row_key(row))
                if entry_id is None:
                    fault = f"The change of row {number_of(row)} is not in history."
                    yield Row(number, None, UNDO.name, {}, fault)
                else:
                    yield Row(number, None, UNDO.name, undo_arguments(entry_id, is_partial))
        if not number:
            raise NothingToUndo("the batch has changed nothing")

    def rows_left(self, batch_id: str) -> Iterator[Row]:
        """Yield again each row that a batch has not carried out, under its number there."""
        is_empty = True
        for verdict in ("refused", "ready"):
            for row in self._batches.walk_rows(RowFilters(batch_id, verdict)):
                is_empty = False
                yield _again(row)
        if is_empty:
            raise NothingLeft

    def players(self, chosen: Document, row: Document) -> Iterator[Row]:
        """Yield the same row for each player whose name contains a text, or who is online."""
        first = parse_row(1, {"player": "somebody", **row})
        if first.fault:
            raise InvalidField("Row", first.fault)
        ids = self._players.find_ids(chosen.get("Search"), chosen["Online"], MOST_PLAYERS + 1)
        if not ids:
            raise InvalidField("Players", "Matches nobody.")
        if len(ids) > MOST_PLAYERS:
            raise InvalidField("Players", f"Matches more than {MOST_PLAYERS:,} players.")
        for number, id_ in enumerate(ids, 1):
            yield first._replace(number=number, player=id_)


def _again(row: Document) -> Row:
    """Return a stored row as if it were new; one without arguments is malformed, and refused."""
    operation, subject = row["Operation"], row["Subject"]
    # The player may have another name by now.
    player = subject["Id"] if subject and operation != UNDO.name else row["Player"]
    first = row.get("Retries") or row["_id"]
    again = Row(number_of(row), player, operation, row["Arguments"], earlier_id=first)
    again = again._replace(sent=row.get("Sent", {}))
    return again if row["Arguments"] else again._replace(fault=row["Why"], subject=subject)
