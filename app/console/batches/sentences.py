"""Sentences about rows of batches, and filters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.console.frame.times import parsed
from app.console.history.sentences import GUID, named_arguments
from app.operations import batch_operations, object_arguments
from app.texts import Names, name_of, sentence, whole_text
from app.types import Document

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


def filter_texts(chosen: Document, names: Names) -> list[tuple[str, str]]:
    """Return the filters of the changes that a batch undoes, as labels and texts."""
    texts = {name: str(value) for name, value in chosen.items()}
    if "Item" in chosen:
        texts["Item"] = name_of(chosen["Item"], names)
    for name in chosen.keys() & {"From", "To"}:
        texts[name] = whole_text(parsed(texts[name]) or texts[name])
    return [(label, texts[name]) for name, label in FILTERS.items() if name in chosen]
