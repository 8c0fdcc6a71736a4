"""Batches: their rows, states and verdicts, and what they do in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.core.errors import Conflict, Invalid, KeyReused, QuartermasterError, Unavailable
from app.core.operations import batch_operations
from app.core.texts import Names, count_text, name_of, sentence, short_text
from app.core.types import Document
from app.http.masking import masked

MOST_ROWS = 100_000
# The most players that a search may choose.
MOST_PLAYERS = 10_000
STATES = ("planning", "planned", "running", "paused", "done", "cancelled")
# The states in which rows may still be carried out.
OPEN = ("planned", "running", "paused")
VERDICTS = ("ready", "refused", "done")
PROGRESS = ("Ready", "Done", "Refused", "Replanned")
# The fields that are served as they are stored.
BATCH = (
    "Name",
    "Reason",
    "At",
    "Via",
    "State",
    "Rows",
    "BegunAt",
    "PausedWhy",
    "EndedAt",
    "Undoes",
    "Retries",
    "Undo",
    "ApprovedBy",
)
ROW = ("Player", "Subject", "Operation", "Verdict", "Why", "Warning", "Version", "Replanned")
# How many kinds of rows a summary lists.
MOST_KINDS = 20
# Why a row is refused whose key another row has used.
RETRIED = "Another row or batch has already carried out this row."


class StillPlanning(Conflict):
    sentence = "The batch is still being planned; nothing can be done with it yet."


class PlannedTooLong(Unavailable):
    """The planner was silent for too long, so another process removed the plan."""

    sentence = "Planning the batch took too long; please split it, or try again."


class Cancelled(Conflict):
    code = "BATCH_CANCELLED"
    sentence = "The batch was cancelled: its remaining rows are not carried out."


class Paused(Conflict):
    code = "BATCH_PAUSED"
    sentence = "The batch is paused: nothing changes until it is run again."


class NotRunning(Conflict):
    code = "BATCH_NOT_RUNNING"
    sentence = "The batch is not running: there is nothing to pause."


class AllDone(Conflict):
    code = "BATCH_DONE"
    sentence = "All rows of the batch are done or refused: nothing is left to cancel."


class NotEnded(Conflict):
    code = "BATCH_NOT_ENDED"
    sentence = (
        "The batch is not finished: run it to its end, or cancel it and wait for its running rows."
    )


class NotPlanned(Conflict):
    code = "BATCH_NOT_PLANNED"
    sentence = "Only a planned batch can be approved: this one was started or cancelled."


class NothingToUndo(Conflict):
    sentence = "There is nothing to undo: {what}."


class NothingLeft(Conflict):
    sentence = "There is nothing to try again: all rows of the batch are done."


class TooManyRows(Invalid):
    """The batch has more rows than a batch may have: divide it."""

    def __init__(self) -> None:
        super().__init__(f"A batch has at most {MOST_ROWS:,} rows: split it into several.")


class Undone(Conflict):
    code = "UNDONE_TWICE"
    sentence = (
        "The change {entry_id} undoes {undoes}, which is part of this batch as well: "
        "together they change nothing."
    )


class UndoneTwice(Conflict):
    sentence = "The change {entry_id} is already undone by row {row} of this batch."


class Row(NamedTuple):
    """A row as it was sent, and its subject."""

    player: str | None
    operation: str | None
    arguments: Document
    # Why the row is refused before the player is read.
    fault: str | None = None
    # The kind, id and name of the document, once it has been looked up.
    subject: Document | None = None
    # If it tries a row of another batch again: the id of the first one in a chain of retries.
    earlier_id: str = ""
    # From 1; without one, its place among the rows.
    number: int = 0
    # If its arguments are invalid: what was sent instead, by the names of history.
    sent: Document = {}

    @property
    def subject_id(self) -> str:
        return str(self.subject["Id"]) if self.subject else ""


def row_id(batch_id: str, number: int) -> str:
    """Return the id of a row; ids sort in the order of the rows."""
    return f"{batch_id}:{number:06}"


def number_of(row: Document) -> int:
    return int(row["_id"].rpartition(":")[2])


def row_key(row: Document) -> tuple[str, str]:
    """Return the Idempotency-Key of a row, and its fingerprint.

    A row that tries another one again has the key of that row. So only one of all batches that try
    it carries it out. The fingerprint tells which one did.
    """
    first = row.get("Retries")
    return f"batch {first or row['_id']}", row["_id"] if first else ""


def row_arguments(row: Document) -> Document:
    """Return the arguments of a row under their names in history; those sent if it is malformed."""
    operation = batch_operations().get(row["Operation"])
    known = operation.history_arguments(row["Arguments"]) if operation else {}
    return known or row.get("Sent", {})


def refusal_text(refusal: QuartermasterError) -> str:
    return RETRIED if isinstance(refusal, KeyReused) else masked(str(refusal))


def undoes_nothing(entry: Document, chosen: Mapping[str, Document]) -> bool:
    """Tell whether an entry and the entries that it undoes, if also chosen, cancel each other out.

    An undo and its change cancel each other out. With a redo (the undo of the undo) there are three
    entries, and only the redo has to be undone.
    """
    chain = 1
    undone: Document | None = entry
    while undone and (undone := chosen.get(undone.get("Undoes", ""))):
        chain += 1
    return chain % 2 == 0


class Summary:
    """Counts the ready rows of a plan, and their subjects, by operation and object.

    Rows must be added sorted by subject: that counts each subject once without a list of all.
    """

    def __init__(self) -> None:
        # By operation and object: the counts, and the last subject.
        self._kinds: dict[Any, Document] = {}
        self._last: dict[Any, str] = {}
        # The items that all rows move, the most of one item in a row, and whether a row moves an
        # unknown number.
        self.moves: Document = {"Items": 0, "Largest": 0, "IsUnknown": False}

    def add(self, row: Document) -> None:
        if row["Verdict"] != "ready":
            return
        moved = row.get("Items", 0)
        self.moves["Items"] += moved or 0
        self.moves["Largest"] = max(self.moves["Largest"], row.get("Largest", 0))
        self.moves["IsUnknown"] |= moved is None
        arguments, subject_id = row["Arguments"], row["Subject"]["Id"]
        named = batch_operations()[row["Operation"]].object_types
        kind = (row["Operation"], next((arguments[name] for name in named), None))
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            kind = (None, None)
        # A quantity or value is kept only if it is the same in all rows.
        each = arguments.get("quantity", arguments.get("value"))
        new = {"Operation": kind[0], "Object": kind[1], "Each": each}
        counts = self._kinds.setdefault(kind, {**new, "Rows": 0, "Subjects": 0, "Total": 0})
        counts["Rows"] += 1
        counts["Subjects"] += self._last.get(kind) != subject_id
        self._last[kind] = subject_id
        if counts["Each"] != each:
            counts["Each"] = None
        counts["Total"] += arguments.get("quantity", 0)

    def records(self) -> list[Document]:
        """Return a record for each kind of row, the most frequent first, and "others" last."""
        return sorted(self._kinds.values(), key=lambda kind: (not kind["Operation"], -kind["Rows"]))


def kind_sentence(kind: Document, names: Names) -> str:
    """Return a sentence about all rows of a kind: Give 5 of an item to 1,234 players."""
    rows, subjects, each = kind["Rows"], kind["Subjects"], kind["Each"]
    if kind["Operation"] is None:
        return f"{count_text(rows, 'row')} of other kinds, for {count_text(subjects, 'player')}"
    operation = batch_operations()[kind["Operation"]]
    text = sentence(
        operation.batch.orders if operation.batch else "",
        object=name_of(kind["Object"], names),
        whom=count_text(subjects, "player"),
        count=kind["Total"] if each is None else each,
        in_all=" in all" if each is None else "",
        to_value="" if each is None else f" to {short_text(each)}",
        changes=count_text(rows, "change"),
    )
    return (
        text if rows == subjects or operation.is_undo else f"{text}, in {count_text(rows, 'row')}"
    )


def title_of(batch: Document, names: Names) -> str:
    """Return the name of a batch; without one, what it does."""
    kinds = batch.get("Summary", [])
    rows = f"Batch of {count_text(batch['Rows'], 'row')}"
    made = kind_sentence(kinds[0], names) if kinds else rows
    return batch["Name"] or (f"{made}, and more" if len(kinds) > 1 else made)


def public_batch(batch: Document) -> Document:
    return {
        "Id": batch["_id"],
        **{name: batch.get(name) for name in BATCH},
        "By": _author(batch["By"]),
        "StartedBy": _author(batch.get("StartedBy")),
        **progress_of(batch),
    }


def _author(by: Document | None) -> Document | None:
    return by and {name: by.get(name) for name in ("UserId", "Name", "Key")}


def follow_up(batch: Document, word: str, field: str) -> Document:
    """Return the first fields of a batch that is made from another, such as its undo."""
    # The rest of a rest is a rest of the first batch.
    name = batch["Name"].removeprefix("Rest of ") if word == "Rest" else batch["Name"]
    return {"Name": f"{word} of {name}" if name else "", field: batch["_id"]}


def progress_of(batch: Document) -> Document:
    """Return how many rows have each verdict, and how many were replanned."""
    return {name: batch["Counts"].get(name, 0) for name in PROGRESS}


def public_row(row: Document, entry_id: str | None = None) -> Document:
    return {
        "Row": number_of(row),
        **{name: row.get(name) for name in ROW},
        "Arguments": row_arguments(row),
        "Entry": entry_id,
    }
