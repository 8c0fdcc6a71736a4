"""Sentences about batches, their rows and kinds of rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.console.frame.times import parsed
from app.console.history.sentences import (
    GUID,
    Names,
    name_of,
    named_arguments,
    sentence,
    short_text,
    whole_text,
)
from app.operations import batch_operations, object_arguments
from app.types import Document

NAMELESS = "Unnamed batch"
# The labels of the filters on the page of a batch.
FILTERS = {
    "By": "made by",
    "Key": "with the key",
    "Operation": "with the operation",
    "Item": "about",
    "From": "from",
    "To": "before",
}


class Bar(NamedTuple):
    """The lengths of the parts of a progress bar, in thousandths."""

    done: float
    ready: float
    refused: float


def bar(counts: Document) -> Bar:
    rows = sum(counts[name] for name in ("Done", "Ready", "Refused")) or 1
    return Bar(*(1000 * counts[name] / rows for name in ("Done", "Ready", "Refused")))


def ids_in_rows(rows: Iterable[Document]) -> set[str]:
    """Return the ids of the catalogue objects in rows and in their refusals."""
    found = set()
    for row in rows:
        found |= {row["Arguments"].get(name) for name in object_arguments()}
        found |= set(GUID.findall(row["Why"] or ""))
    return {id_ for id_ in found if isinstance(id_, str)}


def row_sentence(row: Document, names: Names) -> str:
    """Return a sentence about what a row does."""
    found = batch_operations()[row["Operation"]].batch
    return sentence(found.order if found else "", **named_arguments(row["Arguments"], names))


def has_arguments(row: Document) -> bool:
    """Tell whether a row has the arguments of its operation; a malformed row has none."""
    return row["Operation"] is not None and bool(row["Arguments"])


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
    made = kind_sentence(kinds[0], names) if kinds else NAMELESS
    return batch["Name"] or (f"{made}, and more" if len(kinds) > 1 else made)


def count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def filter_texts(chosen: Document, names: Names) -> list[tuple[str, str]]:
    """Return the filters of the changes that a batch undoes, as labels and texts."""
    texts = {name: str(value) for name, value in chosen.items()}
    if "Item" in chosen:
        texts["Item"] = name_of(chosen["Item"], names)
    for name in chosen.keys() & {"From", "To"}:
        texts[name] = whole_text(parsed(texts[name]) or texts[name])
    return [(label, texts[name]) for name, label in FILTERS.items() if name in chosen]
