"""Plans a batch: from where its rows come, who each is about, and whether it could be made now."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from app.auth import guard
from app.auth.spending import refuse_budgets
from app.batches.access import visible_batch
from app.batches.domain import (
    MOST_PLAYERS,
    MOST_ROWS,
    NothingLeft,
    NothingToUndo,
    Row,
    Summary,
    TooManyRows,
    Undone,
    UndoneTwice,
    follow_up,
    number_of,
    refusal_text,
    row_id,
    row_key,
    title_of,
    undoes_nothing,
)
from app.batches.rows import parse_row
from app.batches.running import Alone, change_of, entries_to_undo
from app.batches.schemas import BatchHeadArgs
from app.batches.store import batches
from app.catalogue.store import objects
from app.core.changes import Applied, Origin
from app.core.errors import (
    Forbidden,
    Invalid,
    InvalidField,
    NotFound,
    QuartermasterError,
    Unavailable,
)
from app.core.limits import Limiter, renew_time_limit, working
from app.core.naming import Lookup, parse_guid
from app.core.operations import batch_operations
from app.core.permissions import Permission
from app.core.types import Document
from app.history.access import (
    NEEDED,
    UNDO,
    require_own,
    undo_arguments,
    undo_entry,
    visible_kinds,
)
from app.history.store import filters_of, history
from app.http.context import current
from app.http.intents import origin, sent_key
from app.http.parser import load
from app.players.store import players
from app.storage.bulk import batches as in_chunks
from app.storage.changes import Verdict, Wanted

# How many rows, players and entries are read at once.
CHUNK = 500
HEAD = BatchHeadArgs()
# A plan makes no entry of history, so it needs no author.
NOBODY = Origin(None, "", "batch")
# The names of the filters in the query of history.
QUERY = {
    "By": "by",
    "Key": "key",
    "Operation": "operation",
    "Item": "item",
    "From": "since",
    "To": "until",
}


class PlanPlaces(Limiter):
    """The plans that a worker makes at once: it is expensive, and reads the body into memory."""


places = current(PlanPlaces)


def plan(read: Callable[[], Document], digest: str, name: str = "") -> Applied:
    """Plan a batch from the rows of a body, or from the changes or players that it chooses.

    The argument name overrides the name in the body.
    """
    refuse_budgets("a batch", guard.caller())
    request = _request(digest)
    if earlier := batches.find_earlier(request, sent_key()):
        return Applied(earlier, replayed=True)
    with working(places):
        body = read()
        if "Undo" in body:
            guard.caller().require(Permission.HISTORY_READ, Permission.UNDO_OWN)
        named = {**body, "Name": name} if name else body
        return plan_body(named, visible_kinds(), _author, request)


def plan_body(
    body: Document,
    kinds: tuple[str, ...],
    author_of: Callable[[str | None], Document],
    request: Document,
    *advance: Callable[[int], object],
) -> Applied:
    """Plan a batch for its author, who depends on the reason in the body."""
    head: Document = load(HEAD, {name: body[name] for name in body if name != "Rows"})
    sources = [name for name in ("Rows", "Undo", "Players") if name in body]
    if len(sources) > 1:
        raise InvalidField(sources[1], f"Excludes {sources[0]}.")
    if ("Players" in head) != ("Row" in head):
        raise InvalidField("Row", "Is for Players, and Players need it.")
    fields = {"Name": head["Name"], **author_of(head["Reason"]), **request}
    rows: Iterable[Row] = body.get("Rows", ())
    if "Undo" in head:
        fields["Undo"] = head["Undo"]
        rows = chosen_changes(head["Undo"], kinds)
    if "Players" in head:
        rows = chosen_players(head["Players"], head["Row"])
    return make_plan(rows, fields, *advance)


def plan_undo(batch_id: str, is_partial: bool) -> Applied:
    """Plan the batch that undoes another one, or as much of it as possible."""
    guard.caller().require(Permission.UNDO_OWN)
    digest = f"{batch_id} partial" if is_partial else batch_id
    return _plan_from(batch_id, done_rows(batch_id, is_partial), digest, "Undo", "Undoes")


def plan_retry(batch_id: str) -> Applied:
    """Plan a batch with the rows that another one has not carried out."""
    return _plan_from(batch_id, rows_left(batch_id), f"{batch_id} retry", "Rest", "Retries")


def _plan_from(batch_id: str, rows: Iterable[Row], digest: str, word: str, field: str) -> Applied:
    """Plan a batch from the rows of another one, which has ended."""
    refuse_budgets("a batch", guard.caller())
    visible_batch(batch_id)
    batch, request = batches.require_ended(batch_id), _request(digest)
    if earlier := batches.find_earlier(request, sent_key()):
        return Applied(earlier, replayed=True)
    author = _author(batch["Reason"] if field == "Retries" else None)
    return make_plan(rows, {**follow_up(batch, word, field), **author, **request})


def _request(digest: str) -> Document:
    """Return the fields by which a repeated request finds the batch of the first; {}: none."""
    key = sent_key()
    if not key:
        return {}
    text = f"{guard.caller().id} {key}"
    return {"RequestKey": hashlib.sha256(text.encode()).hexdigest(), "Fingerprint": digest}


def _author(reason: str | None) -> Document:
    by = origin(otherwise=reason)
    author = {"UserId": by.user_id, "Name": by.name, "Key": by.key}
    return {"Reason": by.reason, "By": author, "Via": by.via}


def chosen_changes(chosen: Document, kinds: tuple[str, ...]) -> Iterator[Row]:
    """Yield a row for each matching change of these kinds of documents, the newest first."""
    wanted = {query: chosen[name] for name, query in QUERY.items() if name in chosen}
    filters = filters_of(wanted, kinds)
    if not history.holds(filters):
        raise NothingToUndo("no change matches")
    for entries in in_chunks(history.walk(filters), CHUNK):
        renew_time_limit()
        # The chosen changes that these undo, directly or through other undos.
        undone: dict[str, Document] = {}
        found = {entry["_id"]: entry for entry in entries}
        while ids := {e["Undoes"] for e in found.values() if "Undoes" in e} - undone.keys():
            found = history.get_many([*ids], filters)
            undone |= found
        for entry in entries:
            arguments = undo_arguments(entry["_id"], chosen.get("Partial", False))
            row = Row(None, UNDO.name, arguments)
            if undoes_nothing(entry, undone):
                fault = str(Undone(entry["_id"], entry["Undoes"]))
                # Without its arguments, it cannot be tried again.
                row = row._replace(arguments={}, fault=fault, subject=entry["Subject"])
            yield row


def chosen_players(chosen: Document, row: Document) -> Iterator[Row]:
    """Yield the same row for each player whose name contains a text, or who is online."""
    first = parse_row({"player": "somebody", **row})
    if first.fault:
        raise InvalidField("Row", first.fault)
    ids = players.find_ids(chosen.get("Search"), chosen["Online"], MOST_PLAYERS + 1)
    if not ids:
        raise InvalidField("Players", "Matches nobody.")
    if len(ids) > MOST_PLAYERS:
        raise InvalidField("Players", f"Matches more than {MOST_PLAYERS:,} players.")
    for id_ in ids:
        yield first._replace(player=id_)


def done_rows(batch_id: str, is_partial: bool) -> Iterator[Row]:
    """Yield an undo row for each row that a batch has carried out, the last first."""
    row = None
    for done in in_chunks(batches.walk_rows(batch_id, order=-1, Verdict="done"), CHUNK):
        entries = history.ids_by_key([row_key(row) for row in done])
        for row in done:
            entry_id = entries.get(row_key(row))
            arguments = undo_arguments(entry_id, is_partial) if entry_id else {}
            fault = f"The change of row {number_of(row)} is not in history."
            yield Row(None, UNDO.name, arguments, None if entry_id else fault)
    if row is None:
        raise NothingToUndo("the batch has changed nothing")


def rows_left(batch_id: str) -> Iterator[Row]:
    """Yield again each row that a batch has not carried out, under its number there."""
    row = None
    for verdict in ("refused", "ready"):
        for row in batches.walk_rows(batch_id, Verdict=verdict):
            operation, subject = row["Operation"], row["Subject"]
            # The player may have another name by now.
            player = subject["Id"] if subject and operation != UNDO.name else row["Player"]
            first = row.get("Retries") or row["_id"]
            arguments, number = row["Arguments"], number_of(row)
            again = Row(player, operation, arguments, earlier_id=first, number=number)
            if not row["Arguments"]:  # malformed, so it stays refused
                sent = row.get("Sent", {})
                again = again._replace(fault=row["Why"], subject=subject, sent=sent)
            yield again
    if row is None:
        raise NothingLeft


def make_plan(
    rows: Iterable[Row], fields: Document, advance: Callable[[int], object] = lambda _: None
) -> Applied:
    """Store a batch with the verdict of each row, and return it; no player is changed.

    advance is called with the number of rows that were judged.
    """
    with working(places):
        # Reading a long body may have used up the time limit.
        renew_time_limit()
        found = sorted(_with_subjects(rows), key=lambda row: (row.subject_id, row.number))
        # What its rows show is known in the end; until then, not everybody sees it.
        hidden = {"Rows": len(found), "Needs": [f"{kind}s" for kind in NEEDED]}
        batch = batches.begin({**fields, **hidden}, sent_key())
        if batch["State"] != "planning":
            return Applied(batch, replayed=True)
        try:
            return Applied(_judge_and_store(batch, found, advance))
        except BaseException:
            renew_time_limit()
            batches.remove(batch["_id"])
            raise


def _with_subjects(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows with their subjects, and with the ids of the objects that they name."""
    ids_named = cache(lambda type_, name: list(objects.find_by_name(type_, name)))
    found_rows = 0
    for chunk in in_chunks(rows, CHUNK):
        renew_time_limit()
        if found_rows + len(chunk) > MOST_ROWS:
            raise TooManyRows
        keys = {row.player: Lookup.parse(row.player) for row in chunk if row.player}
        found = players.identify_many(list(keys.values()))
        undone = [row.arguments["id"] for row in chunk if not (row.fault or row.player)]
        entries = history.get_many(undone)
        for row in chunk:
            found_rows += 1
            row = _with_object_ids(row._replace(number=row.number or found_rows), ids_named)
            if row.fault:
                yield row
            elif row.player is None:
                yield row._replace(subject=entries.get(row.arguments["id"], {}).get("Subject"))
            elif identity := found.get(keys[row.player]):
                subject = {"Kind": "player", "Id": identity.id, "Name": identity.name}
                yield row._replace(subject=subject)
            else:
                yield row._replace(fault=str(NotFound("player", keys[row.player])))
    if not found_rows:
        raise Invalid("A batch has at least one row.", {"Rows": ["Has no row."]})


def _with_object_ids(row: Row, ids_named: Callable[[str, str], Sequence[str]]) -> Row:
    """Return a row with ids instead of names, or with a fault."""
    operation = None if row.fault else batch_operations().get(row.operation or "")
    for argument, type_ in operation.object_types.items() if operation else ():
        name = row.arguments.get(argument)
        if not name or parse_guid(name):
            continue
        found = ids_named(type_, name)
        if len(found) != 1:
            many = f"The catalogue has {len(found)} objects of the type {type_} with the name"
            none = f"The catalogue has no {type_} with the name"
            fault = f"{many} '{name}': use the id." if found else f"{none} '{name}'."
            return row._replace(fault=fault)
        row = row._replace(arguments={**row.arguments, argument: found[0]})
    return row


def _judge_and_store(
    batch: Document, found: Sequence[Row], advance: Callable[[int], object]
) -> Document:
    """Store rows, which are sorted by subject, with their verdicts; return the planned batch."""
    # The permissions that a caller needs to see or carry out the rows.
    judge, summary, needs = Judge(), Summary(), set[str]()
    for portion in in_chunks(found, CHUNK):
        renew_time_limit()
        rows = [_new_row(batch["_id"], row) for row in portion]
        judge.judge([row for row in rows if row["Verdict"] == "ready"])
        batches.add_rows(batch, rows)
        for row in rows:
            if operation := batch_operations().get(row["Operation"]):
                permissions = {one.value for one in operation.permissions}
                needs |= {"undo"} if operation.is_undo else permissions
            # As history, rows about users and about roles need a permission of their own.
            if row["Subject"] and row["Subject"]["Kind"] in NEEDED:
                needs.add(f"{row['Subject']['Kind']}s")
            summary.add(row)
        advance(len(portion))
    kinds = summary.records()
    needs |= judge.needs
    plan: Document = {"Needs": sorted(needs), "Moves": summary.moves, "Summary": kinds}
    # An erasure may have hidden a name that was given, so that is not written again.
    if not batch["Name"]:
        names = objects.names_of([kind["Object"] for kind in kinds if kind["Object"]])
        plan["Name"] = title_of({**batch, **plan}, names)
    return batches.complete(batch, plan)


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
        "Retries": row.earlier_id,
        "Sent": row.sent,
    }


class Judge:
    """Sets the verdicts of rows, each on the player as the earlier rows would leave it."""

    def __init__(self) -> None:
        # Players as the earlier rows would leave them.
        self._players: dict[str, Document] = {}
        # The permissions that undos need, as far as they are known.
        self.needs: set[str] = set()
        # By entry, the first row that undoes it.
        self._undoing: dict[str, int] = {}

    def judge(self, rows: Sequence[Document]) -> None:
        """Judge a portion of the rows; only the rows of its last player may go on in the next."""
        together: list[tuple[Document, Wanted]] = []
        entries = entries_to_undo(rows)
        for row in rows:
            try:
                if entry := entries.get(row["Arguments"].get("id", "")):
                    self._require_undo(row, entry)
                change = change_of(row, entries, NOBODY)
                if isinstance(change, Alone):
                    renew_time_limit()
                    undo_entry(change.entry, change.intent._replace(is_preview=True))
                else:
                    row["Warning"] = change.intent.warning
                    together.append((row, change))
            except Unavailable:
                raise
            except QuartermasterError as refusal:
                _refuse(row, refusal)
        if not together:
            return
        wanted = [change for _, change in together]
        # A player that was read for earlier rows has only the fields that those needed.
        read = players.read_many(wanted).items()
        self._players = {id_: {**new, **self._players.get(id_, {})} for id_, new in read}
        verdicts = players.judge_many(wanted, self._players)
        for (row, _), verdict in zip(together, verdicts, strict=True):
            if isinstance(verdict, QuartermasterError):
                _refuse(row, verdict)
            elif isinstance(verdict, Verdict):
                row["Version"] = verdict.version
                row["Warning"] = verdict.warning or row["Warning"]

    def _require_undo(self, row: Document, entry: Document) -> None:
        """Raise if the caller may not see and undo an entry, or if another row undoes it."""
        if guard.own_rights():  # whoever can run commands may undo everything
            caller, kind = guard.caller(), entry["Subject"]["Kind"]
            caller.require(Permission.UNDO_OWN, *([NEEDED[kind]] if kind in NEEDED else []))
            require_own(entry)
            may_any = caller.may(Permission.UNDO_ANY)
            self.needs.add((Permission.UNDO_ANY if may_any else Permission.UNDO_OWN).value)
        number = number_of(row)
        # The undo of a transfer also undoes its other side.
        for id_ in filter(None, (entry["_id"], entry.get("Transfer", {}).get("Entry"))):
            first = self._undoing.setdefault(id_, number)
            if first != number:
                raise UndoneTwice(entry["_id"], first)


def _refuse(row: Document, refusal: QuartermasterError) -> None:
    if isinstance(refusal, Forbidden):
        # The subject must not be visible either.
        row["Subject"] = None
    row |= {"Verdict": "refused", "Why": refusal_text(refusal)}
