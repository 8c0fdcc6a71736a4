"""Plans a batch: finds the subject of each row, and whether the row could be carried out now."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import orjson

from app.batches.changes import Alone, changes_of
from app.batches.domain import (
    MOST_ROWS,
    Made,
    NewBatch,
    Row,
    Summary,
    TooManyRows,
    UndoneTwice,
    names_in,
    number_of,
    refusal_text,
    row_id,
    with_ids,
)
from app.batches.store import PLANNING, Batches
from app.batches.titles import title_of
from app.catalogue.store import Objects
from app.core.changes import Origin
from app.core.errors import Forbidden, Invalid, NotFound, QuartermasterError, Unavailable
from app.core.limits import Limiter
from app.core.naming import Lookup, name_key
from app.core.operations import batch_operations
from app.core.permissions import Permission
from app.core.request_scope import renew_time_limit, working
from app.core.types import Document
from app.history.access import NEEDED, preview_undo_as
from app.history.operations import UNDO
from app.history.store import History
from app.http.masking import masked
from app.players.store import Players
from app.storage.bulk import batches as in_chunks
from app.storage.changes import Wanted

CHUNK = 500
# How often a planner notes that it is alive.
RENEWAL_SECONDS = PLANNING.total_seconds() / 6
# A plan makes no entry of history, so it needs no author.
NOBODY = Origin(None, "", "batch")

RequireUndo = Callable[[Document], Permission | None]
Advance = Callable[[int], None]


class RowSpool:
    """Rows in a temporary file, read back sorted by subject.

    Only their offsets are in memory: about ten megabytes for the largest batch.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (close ends it)
        self.close = self._file.close
        self._places: list[tuple[str, int, int, int]] = []
        self.needs: set[str] = set()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, row: Row) -> None:
        encoded = orjson.dumps(tuple(row))
        self._places.append((row.subject_id, row.number, self._file.tell(), len(encoded)))
        self._file.write(encoded)
        self.needs |= _needs(row.operation, row.subject)

    def by_subject(self) -> Iterator[Row]:
        for _, _, start, length in sorted(self._places):
            self._file.seek(start)
            yield Row(*orjson.loads(self._file.read(length)))


class Planner:
    def __init__(
        self, batches: Batches, players: Players, objects: Objects, history: History
    ) -> None:
        self._batches = batches
        self._players = players
        self._objects = objects
        self._history = history
        # Planning is expensive: a worker makes one plan at a time.
        self.limiter = Limiter("Another batch is being planned", 1)
        self._renewed_at = 0.0

    def plan(
        self,
        rows: Iterable[Row],
        new: NewBatch,
        require_undo: RequireUndo,
        advance: Advance = lambda _: None,
    ) -> Made:
        """Store a batch with the verdict of each row, and return it; no player is changed.

        require_undo raises if the caller may not undo the entry of a row, and returns what running
        it needs.
        advance is called with the number of rows that were judged.
        """
        with working(self.limiter), closing(RowSpool()) as spool:
            # Reading a long body may have used up the time limit.
            renew_time_limit()
            batch = self._batches.begin(new.fields["By"], new.fields["Via"])
            try:
                self._read(batch, rows, spool)
                planned = self._store(batch, spool, new, require_undo, advance)
                return Made(planned, replayed=planned["_id"] != batch["_id"])
            except BaseException:
                renew_time_limit()
                self._batches.remove(batch["_id"])
                raise

    def _renew(self, batch: Document) -> None:
        """Restart the time limit of the request, and note regularly that the planner is alive."""
        renew_time_limit()
        if time.monotonic() >= self._renewed_at + RENEWAL_SECONDS:
            self._renewed_at = time.monotonic()
            self._batches.describe(batch, {})

    def _read(self, batch: Document, rows: Iterable[Row], spool: RowSpool) -> None:
        """Add rows to the spool with their subjects."""
        for sent in in_chunks(rows, CHUNK):
            self._renew(batch)
            chunk = self._with_ids(sent)
            if len(spool) + len(chunk) > MOST_ROWS:
                raise TooManyRows
            keys = {row.player: Lookup.parse(row.player) for row in chunk if row.player}
            found = self._players.identify_many(list(keys.values()))
            undone = [row.arguments["id"] for row in chunk if not row.fault and not row.player]
            entries = self._history.get_many(undone) if undone else {}
            for row in chunk:
                if row.fault:
                    spool.add(row)
                elif row.player is None:
                    spool.add(_with_entry(row, entries))
                elif identity := found.get(keys[row.player]):
                    subject = {"Kind": "player", "Id": identity.id, "Name": identity.name}
                    spool.add(row._replace(subject=subject))
                else:
                    spool.add(row._replace(fault=str(NotFound("player", keys[row.player]))))
        if not len(spool):
            raise Invalid("A batch has at least one row.", {"Rows": ["Has no row."]})

    def _with_ids(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with the ids of the catalogue objects that they name."""
        named: dict[str, set[str]] = {}
        for row in rows:
            for _, type_, name in names_in(row):
                named.setdefault(type_, set()).add(name_key(name))
        ids = {type_: self._objects.ids_by_name(type_, keys) for type_, keys in named.items()}
        return [with_ids(row, ids) for row in rows]

    def _store(
        self,
        batch: Document,
        spool: RowSpool,
        new: NewBatch,
        require_undo: RequireUndo,
        advance: Advance,
    ) -> Document:
        # The permissions are stored before the first row, so that nobody sees a row without them.
        begun = {"Rows": len(spool), "Needs": sorted(spool.needs)}
        batch = self._batches.describe(batch, {**new.fields, **begun})
        judge = Judge(self._players, require_undo)
        needs, summary = set[str](), Summary()
        for portion in in_chunks(spool.by_subject(), CHUNK):
            self._renew(batch)
            rows = [_new_row(batch["_id"], row) for row in portion]
            judge.judge([row for row in rows if row["Verdict"] == "ready"])
            judge.forget_all_but(portion[-1].subject_id)
            self._batches.add_rows(batch, rows)
            for row in rows:
                needs |= _needs(row["Operation"], row["Subject"])
                summary.add(row)
            advance(len(portion))
        found: Document = {"Needs": sorted(needs | judge.needs), "Summary": summary.records()}
        found["Moves"] = summary.moves()
        # An erasure may have hidden a name that was given, so that is not written again.
        if not batch["Name"]:
            ids = [kind["Object"] for kind in found["Summary"] if kind["Object"]]
            found["Name"] = title_of({**batch, **found}, self._objects.names_of(ids))
        return self._batches.complete(batch, found, new)


class Judge:
    """Sets the verdicts of rows, each on the player as the earlier rows would leave it."""

    def __init__(self, players: Players, require_undo: RequireUndo) -> None:
        self._players = players
        self._require_undo = require_undo
        # Players as the earlier rows would leave them.
        self._players_by_id: dict[str, Document] = {}
        # The permissions that undos need, as far as they are known.
        self.needs: set[str] = set()
        # By entry, its subject and the first row that undoes it.
        self._undoing: dict[str, tuple[str, int]] = {}

    def judge(self, rows: Sequence[Document]) -> None:
        allowed = [row for row in rows if row["Operation"] != UNDO.name or self._may_undo(row)]
        in_bulk: list[tuple[Document, Wanted]] = []
        for row, change in changes_of(allowed, NOBODY):
            try:
                if isinstance(change, QuartermasterError):
                    raise change
                if isinstance(change, Alone):
                    preview_undo_as(*change)
                else:
                    row["Warning"] = change.intent.warning
                    in_bulk.append((row, change))
            except Unavailable:
                raise
            except QuartermasterError as refusal:
                _refuse(row, refusal)
        if in_bulk:
            self._judge_players(in_bulk)

    def _may_undo(self, row: Document) -> bool:
        """Refuse a row if the caller may not undo its entry, or another row undoes it."""
        entry_id, number = row["Arguments"]["id"], number_of(row)
        try:
            if needed := self._require_undo(row):
                self.needs.add(needed.value)
            _, first = self._undoing.setdefault(entry_id, (row["Subject"]["Id"], number))
            if first != number:
                raise UndoneTwice(entry_id, first)
        except (Forbidden, UndoneTwice) as refusal:
            _refuse(row, refusal)
        return bool(row["Verdict"] == "ready")

    def _judge_players(self, in_bulk: list[tuple[Document, Wanted]]) -> None:
        wanted = [one for _, one in in_bulk]
        known = self._players_by_id
        # A player that was read for earlier rows has only the fields that those needed.
        read = self._players.read_many(wanted).items()
        self._players_by_id = {id_: {**found, **known.get(id_, {})} for id_, found in read}
        verdicts = self._players.judge_many(wanted, self._players_by_id)
        for (row, _), verdict in zip(in_bulk, verdicts, strict=True):
            row["Version"] = verdict.version
            row["Warning"] = verdict.warning or row["Warning"]
            if isinstance(verdict.outcome, QuartermasterError):
                _refuse(row, verdict.outcome)

    def forget_all_but(self, subject_id: str) -> None:
        """Forget all players but the last of a portion, whose rows may continue in the next one."""
        known = self._players_by_id
        self._players_by_id = {subject_id: known[subject_id]} if subject_id in known else {}
        undoing = self._undoing.items()
        self._undoing = {id_: undo for id_, undo in undoing if undo[0] == subject_id}


def _with_entry(row: Row, entries: dict[str, Document]) -> Row:
    """Return a row with the subject of the entry that it undoes."""
    id_ = row.arguments["id"]
    if id_ not in entries:
        return row._replace(fault=masked(str(NotFound("entry of history", id_))))
    return row._replace(subject=entries[id_]["Subject"])


def _new_row(batch_id: str, row: Row) -> Document:
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
        **({"Retries": row.earlier_id} if row.earlier_id else {}),
        **({"Sent": row.sent} if row.sent else {}),
    }


def _needs(operation: str | None, subject: Document | None) -> set[str]:
    """Return the permissions that a caller needs to see or carry out a row."""
    declared = batch_operations().get(operation or "")
    needs = {"undo"} if operation == UNDO.name else set()
    if declared and operation != UNDO.name:
        needs |= {permission.value for permission in declared.permissions}
    # As history, rows about users and about roles need a permission of their own.
    return needs | {f"{subject['Kind']}s"} if subject and subject["Kind"] in NEEDED else needs


def _refuse(row: Document, refusal: QuartermasterError) -> None:
    if isinstance(refusal, Forbidden):
        # The subject must not be visible either.
        row["Subject"] = None
    row |= {"Verdict": "refused", "Why": refusal_text(refusal)}
