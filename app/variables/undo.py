"""The inverse of setting a variable. Pure."""

from __future__ import annotations

from app.changes import Change, is_same_value
from app.errors import Conflict
from app.types import Document


class ChangedSince(Conflict):
    """The variable has another value than the one that was set."""

    sentence = "The variable {variable} was changed since."


def undo(player: Document, *, changes: list[Document]) -> Change:
    """Give a variable its former value, if it still has the one that was set."""
    variables = dict(player["Variables"])
    for change in changes:
        variable = change["Path"].partition(".")[2]
        if not is_same_value(variables.get(variable), change["After"]):
            raise ChangedSince(variable)
        # A variable is never null: null stands for one that was not set.
        variables.pop(variable, None)
        if change["Before"] is not None:
            variables[variable] = change["Before"]
    return Change({"Variables": variables}, None)
