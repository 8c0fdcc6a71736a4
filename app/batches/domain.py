"""Batches: their rows, states and verdicts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from app.changes import Intent, Origin
from app.errors import Conflict, Invalid, NotFound, Unavailable
from app.operations import batch_operations
from app.types import Document

MOST_ROWS = 100_000
STATES = ("planning", "planned", "running", "paused", "done", "cancelled")
# The states in which rows may still be carried out, at once or later.
OPEN = ("planned", "running", "paused")
VERDICTS = ("ready", "refused", "done")
# How many rows whoever carries them out takes at once. A part has more where one player has.
PART_ROWS = 200
# Of a longer part, so many rows are stored, read and held in memory at once.
PORTION_ROWS = 1000
# So many kinds of rows a summary tells apart.
MOST_KINDS = 20


class BatchNotFound(NotFound):
    """There is no such batch, or it has expired."""

    def __init__(self, batch_id: str) -> None:
        super().__init__("batch", batch_id)


class StillPlanning(Conflict):
    """A batch whose plan is not complete."""

    sentence = "The batch is still being planned; nothing can be done with it yet."


class PlannedTooLong(Unavailable):
    """A plan that was taken for one whose worker has died."""

    sentence = "The batch took too long to be planned; please divide it, or try again."


class Cancelled(Conflict):
    """A batch that was cancelled."""

    sentence = "The batch was cancelled: what was not done by then is not done."


class Paused(Conflict):
    """A batch of which nothing is carried out until somebody runs it again."""

    sentence = "The batch is paused: nothing of it is done until it is run again."


class NotRunning(Conflict):
    """A batch that cannot be paused, because it does not run."""

    sentence = "The batch does not run: there is nothing to pause."


class AllDone(Conflict):
    """A batch of which nothing is left to be cancelled."""

    sentence = "All rows of the batch are done or refused: nothing is left to cancel."


class NotEnded(Conflict):
    """A batch of which rows may still be carried out, and so cannot be undone as a whole."""

    sentence = "The batch has not ended: run it to its end, or cancel it and wait for who is at it."


class NothingToUndo(Conflict):
    """Nothing was done that could be undone."""

    sentence = "There is nothing to undo: {what}."


class TooManyRows(Invalid):
    """A batch with more rows than one may have."""

    def __init__(self) -> None:
        super().__init__(f"A batch has at most {MOST_ROWS:,} rows: divide it into several.")


class Undone(Conflict):
    """An undo in a batch, together with the change that it undoes."""

    sentence = (
        "The change {entry_id} undoes {undoes}, which is part of this batch as well: "
        "together they change nothing."
    )


class UndoneTwice(Conflict):
    """An undo of a change that another row of the batch undoes as well."""

    sentence = "The change {entry_id} is undone by row {row} of this batch already."


class Row(NamedTuple):
    """What is wanted of one player, or of the document of an entry, and whether it can be read."""

    number: int
    player: str | None
    operation: str | None
    arguments: Document
    # Why it is refused before anybody has looked at the player.
    fault: str | None = None
    # The kind, the id and the name of the document, where it is known.
    subject: Document | None = None

    @property
    def subject_id(self) -> str:
        return str(self.subject["Id"]) if self.subject else ""


def row_id(batch_id: str, number: int) -> str:
    """Return the id of a row; ids are in the order of rows."""
    return f"{batch_id}:{number:06}"


def row_intent(row: Document, origin: Origin, told: Document, undoes: Document | None) -> Intent:
    """Return what a row intends. Its key is its own, so that it is carried out once."""
    key = row_key(row["_id"])
    return Intent(row["Operation"], origin, told, key, "", undoes)


def row_key(id_: str) -> str:
    """Return the Idempotency-Key of a row."""
    return f"batch {id_}"


def in_parts(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    """Yield rows, sorted by their documents, in portions, each with the number of its part.

    A part holds all rows of a document. Whoever carries out a part does so in its order, and nobody
    else does at the same time.
    """
    part = length = 0
    portion: list[Row] = []
    for row in rows:
        is_other = bool(portion) and portion[-1].subject_id != row.subject_id
        ends_part = length >= PART_ROWS and is_other
        if ends_part or len(portion) >= PORTION_ROWS:
            yield part, portion
            part, length = (part + 1, 0) if ends_part else (part, length)
            portion = []
        portion.append(row)
        length += 1
    if portion:
        yield part, portion


def in_waves(rows: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield rows so that each document is in a wave once, and its rows keep their order."""
    waves: list[list[Document]] = []
    count: dict[Any, int] = {}
    for row in rows:
        place = count.get(row["Subject"]["Id"], 0)
        count[row["Subject"]["Id"]] = place + 1
        if place == len(waves):
            waves.append([])
        waves[place].append(row)
    yield from waves


def undoes_nothing(
    entry: Document, get: Callable[[str], Document | None], is_chosen: Callable[[Document], bool]
) -> bool:
    """Tell whether an entry and those that it undoes, if they are chosen too, change nothing.

    An undo and its change cancel each other out. With a redo, the undo of the undo, they are three,
    and the last one is undone, as if it alone had been made.
    """
    chain = 1
    undone: Document | None = entry
    while undone and (earlier := undone.get("Undoes")):
        undone = get(earlier)
        if undone is None or not is_chosen(undone):
            break
        chain += 1
    return chain % 2 == 0


class Summary:
    """What the ready rows of a plan do, by operation and object: how many rows, and of how many.

    Rows are added sorted by whom they are about, so each is counted once without a list of all.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str | None, str | None], Document] = {}
        self._last: dict[tuple[str | None, str | None], str] = {}

    def add(self, row: Document) -> None:
        if row["Verdict"] != "ready":
            return
        arguments = row["Arguments"]
        named = batch_operations()[row["Operation"]].object_types
        object_id = next((arguments[name] for name in named), None)
        kind = (row["Operation"], object_id)
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            kind = (None, None)
        amount = arguments.get("quantity", arguments.get("value"))
        told = self._kinds.setdefault(kind, _untold(kind, amount))
        told["Rows"] += 1
        if self._last.get(kind) != row["Subject"]["Id"]:
            self._last[kind] = row["Subject"]["Id"]
            told["Subjects"] += 1
        if told["Each"] != amount:
            told["Each"] = None
        told["Total"] += arguments.get("quantity", 0)

    def told(self) -> list[Document]:
        """Return a record for each kind of rows, the most frequent first, and the others last."""
        kinds = sorted(self._kinds.values(), key=lambda kind: -kind["Rows"])
        return sorted(kinds, key=lambda kind: kind["Operation"] is None)


def _untold(kind: tuple[str | None, str | None], amount: Any) -> Document:
    numbers = {"Rows": 0, "Subjects": 0, "Total": 0}
    # Each is the quantity or the value, where it is the same in all rows.
    return {"Operation": kind[0], "Object": kind[1], "Each": amount, **numbers}


def served(batch: Document, counts: Document) -> Document:
    """Return the record of a batch that callers see."""
    return {
        "Id": batch["_id"],
        "Name": batch["Name"],
        "Reason": batch["Reason"],
        "At": batch["At"],
        "By": _author(batch["By"]),
        "Via": batch["Via"],
        "Undoes": batch.get("Undoes"),
        "Undo": batch.get("Undo"),
        "State": batch["State"],
        "Rows": batch["Rows"],
        **progress_of(counts),
        "BegunAt": batch.get("BegunAt"),
        "StartedBy": _author(batch["StartedBy"]) if batch.get("StartedBy") else None,
        "PausedWhy": batch.get("PausedWhy"),
        "EndedAt": batch.get("EndedAt"),
    }


def _author(by: Document) -> Document:
    return {name: by.get(name) for name in ("UserId", "Name", "Key")}


def undo_of(batch: Document) -> Document:
    """Return what is known of a batch that undoes another."""
    return {"Name": f"Undo of {batch['Name']}" if batch["Name"] else "", "Undoes": batch["_id"]}


def progress_of(counts: Document) -> Document:
    """Return how many rows have each verdict, and how many were judged anew."""
    return {name: counts.get(name, 0) for name in ("Ready", "Done", "Refused", "Replanned")}


def served_row(row: Document, told: Document, entry_id: str | None) -> Document:
    """Return the record of a row that callers see."""
    return {
        "Row": number_of(row),
        "Player": row["Player"],
        "Subject": row["Subject"],
        "Operation": row["Operation"],
        "Arguments": told,
        "Verdict": row["Verdict"],
        "Why": row["Why"],
        "Warning": row.get("Warning"),
        "Version": row["Version"],
        "Replanned": row["Replanned"],
        "Entry": entry_id,
    }


def number_of(row: Document) -> int:
    return int(row["_id"].rpartition(":")[2])
