"""The change that a row makes: the same rule as in a single call, and the fields that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.batches.domain import row_key
from app.catalogue.store import KnownObjects
from app.core.changes import Intent, Origin
from app.core.errors import NotFound, QuartermasterError
from app.core.operations import Inverse, Moved, batch_operations
from app.core.types import Document
from app.history.domain import inverse_of
from app.history.operations import UNDO
from app.history.store import History
from app.http.context import current
from app.storage.changes import Wanted


class Alone(NamedTuple):
    """An undo that cannot be combined with other changes, such as that of a deletion."""

    entry: Document
    intent: Intent


history = current(History)
known_objects = current(KnownObjects)


def row_arguments(row: Document) -> Document:
    """Return the arguments of a row under their names in history; those sent if it is malformed."""
    operation = batch_operations().get(row["Operation"])
    known = operation.history_arguments(row["Arguments"]) if operation else {}
    return known or row.get("Sent", {})


def changes_of(
    rows: Sequence[Document], origin: Origin
) -> Iterator[tuple[Document, Wanted | Alone | QuartermasterError]]:
    """Yield each row with its change, or with its refusal."""
    undone = [row["Arguments"]["id"] for row in rows if row["Operation"] == UNDO.name]
    entries = history.get_many(undone) if undone else {}
    for row in rows:
        change: Wanted | Alone | QuartermasterError
        try:
            change = _change_of(row, entries, origin)
        except QuartermasterError as refusal:
            change = refusal
        yield row, change


def _change_of(row: Document, entries: dict[str, Document], origin: Origin) -> Wanted | Alone:
    arguments = row["Arguments"]
    meant = Intent(row["Operation"], origin, row_arguments(row), *row_key(row))
    if row["Operation"] != UNDO.name:
        operation = batch_operations()[row["Operation"]]
        _note_items(row, operation.moves(arguments))
        prepared = operation.prepare_change(arguments, in_batch=True)
        checked = known_objects.checked(operation, arguments, prepared, meant)
        return Wanted(row["Subject"]["Id"], *checked)
    entry = entries.get(arguments["id"])
    if entry is None:
        raise NotFound("entry of history", arguments["id"])
    row["Subject"] = entry["Subject"]
    meant = meant._replace(undoes=entry)
    inverse = inverse_of(entry)
    _note_items(row, inverse.moves(entry["Changes"]))
    if isinstance(inverse, Inverse) and inverse.in_bulk and entry["Subject"]["Kind"] == "player":
        return Wanted(entry["Subject"]["Id"], *inverse.prepared(entry["Changes"], meant), meant)
    return Alone(entry, meant)


def _note_items(row: Document, moved: Moved) -> None:
    """Note how many items a row moves, None if that is unknown; and the most of one item."""
    if moved is not None:
        quantities = None if isinstance(moved, str) else moved
        row["Items"] = None if quantities is None else sum(quantities.values())
        row["Largest"] = max((quantities or {}).values(), default=0)
