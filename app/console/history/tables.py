"""Entries of history for tables on pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.auth import guard
from app.catalogue.store import objects
from app.console.history import sentences
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.texts import Names, words_of
from app.core.types import Document
from app.game.player_events.access import served_events
from app.game.player_events.domain import WORDS
from app.game.player_events.store import events as game_events
from app.history.access import UNDO, search
from app.history.access import page as history_page
from app.history.domain import CannotUndo, inverse_of
from app.history.store import filters_of, history
from app.http.cursors import cursors
from app.players.store import players
from app.storage.paging import newest_first

LAST_CHANGES = 8


def names_in(*values: Any) -> Names:
    """Return the names of the catalogue objects whose ids are anywhere in some values."""
    return objects.names_of(sentences.GUID.findall(str(values)))


def last_changes() -> list[Document]:
    return table_entries(search({}, LAST_CHANGES).values)


def may_undo(entry: Document) -> bool:
    caller = guard.caller()
    is_own = entry["By"]["UserId"] == caller.id
    return caller.may(*UNDO.permissions, *([] if is_own else [Permission.UNDO_ANY]))


def is_undoable(entry: Document) -> bool:
    """Tell whether a page should offer the caller the undo of a public entry."""
    if entry["UndoneBy"] is not None or not may_undo(entry):
        return False
    try:
        inverse_of({**entry, "_id": entry["Id"]})
    except CannotUndo:
        return False
    return True


def changes_of(kind: str, id_: str, size: int, after: str = "") -> Document:
    """Return the changes of a document for pages: the latest, or a page of all."""
    found = history_page({"after": after}, size, (kind,), id_)
    return {"entries": table_entries(found.values), "next": cursors.write(found.next)}


def timeline(kind: str, id_: str, size: int, after: str) -> CursorPage:
    """Return a page of the changes of a player or a user, and of events of the game."""
    filters = filters_of({}, (kind,), id_)
    cursor = cursors.read(after)
    # One more of each tells whether there is another page.
    entries = table_entries(history.list(filters, size + 1, cursor).values)
    if cursor:
        at, entry_id = newest_first.parse(filters, cursor)
        cursor = newest_first.position(id_, {"At": at, "_id": entry_id})
    events = event_rows(game_events.list(id_, size + 1, cursor).values)
    rows = sorted([*entries, *events], key=lambda row: (row["At"], row["Id"]), reverse=True)
    return newest_first.page(rows, filters, size, None)


def event_rows(found: Sequence[Document]) -> list[Document]:
    """Return events of the game with the texts for a table."""
    events = served_events(found)
    names = names_in(events)
    known = players.get_many([event["With"] for event in events if event["With"]], "Name")
    for event in events:
        event |= {
            "IsEvent": True,
            # The names of an entry, for files.
            "Operation": event["Kind"],
            "Reason": event["Text"],
            "By": "the game",
            "What": WORDS.get(event["Kind"], words_of(event["Kind"])),
            "Lines": [
                sentences.Line(sentences.item_text(item, names), item["Quantity"])
                for item in event["Items"]
            ],
            "WithName": known.get(event["With"], {}).get("Name"),
        }
    return events


def table_entries(entries: Any) -> list[Document]:
    """Return public entries with the texts for a table."""
    shown = [{**entry} for entry in entries]
    names = names_in(shown)
    for entry in shown:
        lines = sentences.lines(entry, names)
        entry |= {
            "Lines": lines,
            "Text": ", ".join(line.text for line in lines),
            "ArgumentTexts": sentences.argument_texts(entry, names),
            "CanUndo": is_undoable(entry),
            "Changes": [_change_texts(change, names) for change in entry["Changes"]],
        }
    return shown


def _change_texts(change: Document, names: Names) -> Document:
    texts = {side: sentences.value_text(change[side], names) for side in ("Before", "After")}
    if change["Before"] is None and change["After"] is None:
        # History stores no values of secrets, notes and keys.
        texts = dict.fromkeys(texts, "not kept")
    path = change["Path"]
    return {"Path": path, "Field": sentences.path_text(path, names), **texts}
