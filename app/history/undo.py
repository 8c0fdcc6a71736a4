"""Which rule undoes an entry, and what of the player or object it needs to read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from app.changes import Rule
from app.history.domain import undone_by
from app.items import undo as items
from app.items.domain import Limits
from app.notes import undo as notes
from app.players.domain import NAME_FIELDS, undo_rename
from app.spells import undo as spells
from app.types import Document
from app.variables import undo as variables
from app.variables.server import undo as server_variables


class Inverse(NamedTuple):
    """A rule that undoes a change, and the fields that it reads."""

    reads: tuple[str, ...]
    rule: Rule


class Inverses:
    """Makes inverse rules, with the limits that hold now."""

    def __init__(
        self,
        limits_of: Callable[[str], Limits],
        is_filled: Callable[[str], bool],
        spells_size: int,
    ) -> None:
        self._limits_of = limits_of
        self._is_filled = is_filled
        self._spells_size = spells_size

    def of(self, entry: Document) -> Inverse:
        """Return what undoes an entry, or raise CannotUndo."""
        changes = entry["Changes"]
        kind = undone_by(entry)
        if kind == "items":
            rule = partial(
                items.undo,
                changes=changes,
                limits_of=self._limits_of,
                is_filled=self._is_filled,
            )
            return Inverse(items.CONTAINERS, rule)
        if kind == "spells":
            rule = partial(spells.undo, changes=changes, size=self._spells_size)
            return Inverse(("Spells",), rule)
        if kind == "name":
            return Inverse(NAME_FIELDS, partial(undo_rename, changes=changes))
        if kind == "notes":
            return Inverse(("Notes",), partial(notes.undo, changes=changes))
        if kind == "server_variables":
            return Inverse(("Value",), partial(server_variables.undo, changes=changes))
        paths = tuple(change["Path"] for change in changes)
        return Inverse(paths, partial(variables.undo, changes=changes))
