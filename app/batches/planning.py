"""Makes the plan of a batch: whom each row is about, and whether it could be carried out now."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import orjson

from app.batches.changes import change_of, entry_of, intent_of, is_in_bulk
from app.batches.domain import (
    MOST_ROWS,
    Row,
    Summary,
    TooManyRows,
    UndoneTwice,
    in_parts,
    number_of,
    row_id,
)
from app.batches.store import PLANNING, Batches
from app.changes import Origin
from app.errors import Forbidden, Invalid, NotFound, QuartermasterError, Unavailable
from app.history.access import preview_undo_as
from app.history.domain import subject_of
from app.history.operations import UNDO
from app.history.store import History
from app.http.masking import masked
from app.limits import Limiter
from app.naming import Lookup
from app.players.store import Players
from app.request_scope import renew_time_limit, working
from app.storage.bulk import batches as in_chunks
from app.storage.bulk_swap import Swapped, Wanted
from app.types import Document

CHUNK = 500
# How often a plan says that it is under way.
RENEWAL_SECONDS = PLANNING.total_seconds() / 6
# Nobody is asking yet: a plan leaves no entry.
NOBODY = Origin(None, "", "batch")


class NewBatch(NamedTuple):
    """What is known of a batch when its rows have been read."""

    fields: Document
    # By what the same request is recognised, if it has an Idempotency-Key.
    request_key: str | None
    fingerprint: str
    key: str = ""


class RowSpool:
    """Rows in a temporary file, which are read back by whom they are about.

    In memory are only their places: some ten megabytes for the largest batch.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (close ends it)
        self._places: list[tuple[str, int, int, int]] = []
        self.needs: set[str] = set()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, row: Row) -> None:
        encoded = orjson.dumps(tuple(row))
        place = (row.subject_id, row.number, self._file.tell(), len(encoded))
        self._file.write(encoded)
        self._places.append(place)
        self.needs |= _needs(row.operation, row.subject)

    def by_subject(self) -> Iterator[Row]:
        for _, _, start, length in sorted(self._places):
            self._file.seek(start)
            yield Row(*orjson.loads(self._file.read(length)))

    def close(self) -> None:
        self._file.close()


class Planner:
    """Plans batches."""

    def __init__(self, batches: Batches, players: Players, history: History) -> None:
        self._batches = batches
        self._players = players
        self._history = history
        # A plan is much work: a worker makes one at a time.
        self._limiter = Limiter("Another batch is being planned", 1)
        self._renewed_at = 0.0

    def plan(
        self,
        rows: Iterable[Row],
        author: Document,
        describe: Callable[[], NewBatch],
        require_undo: Callable[[str], None],
        advance: Callable[[int], None] = lambda _: None,
    ) -> Document:
        """Store a batch with the verdict of each row, and return it; nothing is changed yet.

        Its author is known before its rows are read, and the rest is described after. An undo that
        the caller may not make is refused by require_undo. Advance is told of each row that has its
        verdict.
        """
        with working(self._limiter), closing(RowSpool()) as spool:
            batch = self._batches.begin(author)
            try:
                self._read(batch, rows, spool)
                new = describe()
                if not len(spool):
                    raise Invalid("A batch has at least one row.", {"Rows": ["Has no row."]})
                return self._store(batch, spool, new, require_undo, advance)
            except BaseException:
                renew_time_limit()
                self._batches.remove(batch["_id"])
                raise

    def _renew(self, batch: Document) -> None:
        """Give the request its whole budget again, and say now and then that the plan goes on."""
        renew_time_limit()
        if time.monotonic() >= self._renewed_at + RENEWAL_SECONDS:
            self._renewed_at = time.monotonic()
            self._batches.describe(batch, {})

    def _read(self, batch: Document, rows: Iterable[Row], spool: RowSpool) -> None:
        for chunk in in_chunks(rows, CHUNK):
            self._renew(batch)
            if len(spool) + len(chunk) > MOST_ROWS:
                raise TooManyRows
            for row in self._identified(chunk):
                spool.add(row)

    def _identified(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Yield rows with whom they are about, or with the fault that there is nobody."""
        keys = {row.player: Lookup.parse(row.player) for row in rows if row.player}
        found = self._players.identify_many(list(keys.values()))
        for row in rows:
            if row.fault:
                yield row
            elif row.player is None:
                yield _of_entry(row)
            elif identity := found.get(keys[row.player]):
                subject = {"Kind": "player", "Id": identity.id, "Name": identity.name}
                yield row._replace(subject=subject)
            else:
                yield row._replace(fault=str(NotFound("player", keys[row.player])))

    def _store(
        self,
        batch: Document,
        spool: RowSpool,
        new: NewBatch,
        require_undo: Callable[[str], None],
        advance: Callable[[int], None],
    ) -> Document:
        # What its rows need is said before there is one that somebody could look at.
        begun = {"Rows": len(spool), "Needs": sorted(spool.needs)}
        batch = self._batches.describe(batch, {**new.fields, **begun})
        # What the rows before have left of the player, whose rows may be in two portions.
        known: dict[str, Document] = {}
        # Which row is the first to undo an entry, of the same documents.
        undone: dict[str, int] = {}
        needs: set[str] = set()
        summary = Summary()
        for number, portion in in_parts(spool.by_subject()):
            self._renew(batch)
            stored = [_unjudged(batch["_id"], row) for row in portion]
            self._judge(stored, known, undone, require_undo)
            self._batches.add_rows(batch, number, stored)
            for row in stored:
                needs |= _needs(row["Operation"], row["Subject"])
                summary.add(row)
            last = portion[-1].subject_id
            known = {last: known[last]} if last in known else {}
            undone = {id_: row for id_, row in undone.items() if _subject_id(id_) == last}
            advance(len(portion))
        told = {"Needs": sorted(needs), "Summary": summary.told()}
        return self._batches.complete(batch, told, *new[1:])

    def _judge(
        self,
        rows: Sequence[Document],
        known: dict[str, Document],
        undone: dict[str, int],
        require_undo: Callable[[str], None],
    ) -> None:
        """Set the verdict of rows, each on what those before it would leave of the player."""
        wanted_ids = [row["Arguments"]["id"] for row in rows if _is_open_undo(row)]
        entries = self._history.get_many(wanted_ids) if wanted_ids else {}
        in_bulk: list[tuple[Document, Wanted]] = []
        for row in rows:
            if row["Verdict"] == "refused":
                continue
            try:
                if row["Operation"] == UNDO.name:
                    require_undo(row["Arguments"]["id"])
                    _require_first(row, undone)
                wanted = self._wanted(row, entries)
            except Unavailable:
                raise
            except Forbidden as refusal:
                # Whom it is about is not told either.
                row["Subject"] = None
                _refuse(row, refusal)
            except QuartermasterError as refusal:
                _refuse(row, refusal)
            else:
                if wanted:
                    row["Warning"] = wanted.intent.warning
                    in_bulk.append((row, wanted))
        self._judge_players(in_bulk, known)

    def _wanted(self, row: Document, entries: dict[str, Document]) -> Wanted | None:
        """Return the change of a player that can be judged with others; judge it if it cannot."""
        entry = entry_of(row, entries)
        if entry:
            row["Subject"] = entry["Subject"]
        if is_in_bulk(entry):
            return change_of(row, entry, NOBODY)
        if entry:
            preview_undo_as(entry, intent_of(row, entry, NOBODY))
        return None

    def _judge_players(
        self, in_bulk: list[tuple[Document, Wanted]], known: dict[str, Document]
    ) -> None:
        if not in_bulk:
            return
        wanted = [one for _, one in in_bulk]
        read = self._players.read_many(wanted)
        # What was read of a player before has only the fields that were read then.
        documents = {id_: {**found, **known.get(id_, {})} for id_, found in read.items()}
        judged = self._players.judge_many(wanted, documents)
        for (row, _), verdict in zip(in_bulk, judged, strict=True):
            _set_verdict(row, verdict)
        known.clear()
        known.update(documents)


def _of_entry(row: Row) -> Row:
    """Return a row with the document of the entry that it undoes."""
    subject = subject_of(row.arguments["id"])
    if subject is None:
        return row._replace(fault=masked(str(NotFound("entry of history", row.arguments["id"]))))
    return row._replace(subject={"Kind": subject[0], "Id": subject[1], "Name": None})


def _subject_id(entry_id: str) -> str | None:
    subject = subject_of(entry_id)
    return subject[1] if subject else None


def _require_first(row: Document, undone: dict[str, int]) -> None:
    """Raise if a row before undoes the same entry: each change is undone once."""
    entry_id, number = row["Arguments"]["id"], number_of(row)
    first = undone.setdefault(entry_id, number)
    if first != number:
        raise UndoneTwice(entry_id, first)


def _unjudged(batch_id: str, row: Row) -> Document:
    """Return a row as it is stored, ready unless it has a fault."""
    return {
        "_id": row_id(batch_id, row.number),
        "Player": row.player,
        "Subject": row.subject,
        "Operation": row.operation,
        "Arguments": row.arguments,
        "Verdict": "refused" if row.fault else "ready",
        "Why": row.fault,
        "Version": None,
        "Replanned": False,
    }


def _needs(operation: str | None, subject: Document | None) -> set[str]:
    """Return what a caller must be allowed to do who sees or carries out a row."""
    needs = {"undo"} if operation == UNDO.name else set()
    return needs | {"users"} if subject and subject["Kind"] == "user" else needs


def _is_open_undo(row: Document) -> bool:
    return bool(row["Operation"] == UNDO.name and row["Verdict"] == "ready")


def _refuse(row: Document, refusal: QuartermasterError) -> None:
    row |= {"Verdict": "refused", "Why": masked(str(refusal))}


def _set_verdict(row: Document, verdict: Swapped) -> None:
    row["Version"] = verdict.version
    if isinstance(verdict.outcome, QuartermasterError):
        _refuse(row, verdict.outcome)
