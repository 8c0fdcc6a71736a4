"""What a row changes: the rule that a single call would apply, and the fields that it reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.batches.domain import row_intent
from app.changes import Intent, Origin, Rule
from app.errors import NotFound
from app.history.domain import undone_by
from app.history.undo import Inverses
from app.http.intents import told_arguments
from app.items.domain import Limits, give_uncounted, take
from app.spells.domain import forget, teach
from app.storage.bulk_swap import Wanted
from app.types import Document
from app.variables.domain import assign

# What undoes changes of players that can be made many at once. A name is unique, and the undo of a
# deletion is more than one write.
IN_BULK = ("items", "spells", "variables", "notes")


# Checks whether the catalogue holds what a change gives.
Checked = Callable[[Document, Rule, Intent], tuple[Rule, Intent]]


class RowChanges:
    """Makes the changes of rows, with the limits that hold now."""

    def __init__(
        self,
        limits_of: Callable[[str], Limits],
        is_filled: Callable[[str], bool],
        spells_size: int,
        inverses: Inverses,
        checked: Checked,
    ) -> None:
        self._limits_of = limits_of
        self._is_filled = is_filled
        self._spells_size = spells_size
        self._inverses = inverses
        self._checked = checked

    def of(self, row: Document, entry: Document | None, origin: Origin) -> Wanted:
        """Return the change of a row that is about a player; an undo has an entry."""
        reads, rule = self._inverses.of(entry) if entry else self._rule(row)
        change = self._checked(row["Arguments"], rule, intent_of(row, entry, origin))
        return Wanted(row["Subject"]["Id"], reads, *change)

    def _rule(self, row: Document) -> tuple[tuple[str, ...], Rule]:
        operation, arguments = row["Operation"], row["Arguments"]
        if operation == "give":
            # Nobody is told how many there are then, and the bank is as large as the inventory.
            reads = ("Inventory", "Bank") if arguments["bankoverflow"] else ("Inventory",)
            limits = self._limits_of(arguments["itemid"])
            return reads, partial(give_uncounted, **arguments, limits=limits)
        if operation == "take":
            return ("Inventory",), partial(take, **arguments, is_filled=self._is_filled)
        if operation == "teach":
            return ("Spells",), partial(teach, **arguments, size=self._spells_size)
        if operation == "forget":
            return ("Spells",), partial(forget, **arguments)
        return (f"Variables.{arguments['variable_id']}",), partial(assign, **arguments)


def intent_of(row: Document, entry: Document | None, origin: Origin) -> Intent:
    """Return what a row intends, as history tells it."""
    arguments = {"Id": entry["_id"]} if entry else told_arguments(row["Arguments"])
    return row_intent(row, origin, arguments, entry)


def entry_of(row: Document, entries: dict[str, Document]) -> Document | None:
    """Return the entry that a row undoes, None if it undoes none; raise if it is gone."""
    if row["Operation"] != "undo":
        return None
    entry_id = row["Arguments"]["id"]
    if entry_id not in entries:
        raise NotFound("entry of history", entry_id)
    return entries[entry_id]


def is_in_bulk(entry: Document | None) -> bool:
    """Tell whether a change can be made together with others; raise if it cannot be undone."""
    if entry is None:
        return True
    kind = undone_by(entry)
    return entry["Subject"]["Kind"] == "player" and kind in IN_BULK
