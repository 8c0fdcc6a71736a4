"""What a batch does, as sentences; its name if it was given none. Pure."""

from __future__ import annotations

from app.core.operations import batch_operations
from app.core.texts import Names, count_text, name_of, sentence, short_text
from app.core.types import Document


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
