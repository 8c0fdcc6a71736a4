"""The pages of history: the list with filters, and one change with its undo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import Response
from marshmallow import pre_load

from app.auth import guard
from app.auth.execution import preview
from app.console.forms.declared import Field, Form, Target, about_items
from app.console.forms.places import Place
from app.console.forms.submissions import Submission, forms_on, resolve
from app.console.frame.lists import Listed, ListPage, columns
from app.console.frame.pages import done, local, path_to, render
from app.console.frame.times import as_utc
from app.console.history.sentences import lines_text, with_names
from app.console.history.tables import may_undo, names_in, table_entries, timeline
from app.core.changes import Applied
from app.core.errors import QuartermasterError
from app.core.naming import Lookup
from app.core.operations import operation_names
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.texts import words_of
from app.core.types import Document
from app.history import access
from app.history.access import UNDO, undo_arguments
from app.history.schemas import HistoryArgs
from app.history.store import history
from app.players.store import players

# What planning the undo of several changes needs.
UNDO_ALL = (Permission.BATCHES_PLAN, *UNDO.permissions)
# The filters that a batch of undos supports.
UNDO_FILTERS = (
    Field("by", "Changed by"),
    Field("key", "With the key"),
    Field("item", "Item, spell or variable", suggest="item"),
    Field("from", "From", type="datetime-local"),
    Field("to", "Before", type="datetime-local"),
    Field(
        "operation",
        "What was done",
        type="select",
        options=lambda: {"": "anything", **{name: words_of(name) for name in operation_names()}},
    ),
)
FILTERS = (
    Field("player", "Player"),
    Field("user", "User"),
    *UNDO_FILTERS,
    Field("reason", "Words of the reason"),
)


class Filters(HistoryArgs):
    """The filters as they are typed."""

    @pre_load
    def as_sent(self, data: Document, **_: Any) -> Document:
        return api_filters(data)


def about_history(found: Listed) -> Document:
    """Return the path to plan a batch that undoes all listed changes; None if that is impossible.

    A batch supports fewer filters than the list. If others are in use, it would undo too much.
    """
    chosen = {name: text for name, text in found.wanted.items() if text}
    is_supported = chosen.keys() <= {one.name for one in UNDO_FILTERS}
    may = chosen and is_supported and found.values and guard.caller().may(*UNDO_ALL)
    return {"undo_all": path_to("batches", "new", "changes", **chosen) if may else None}


ListPage(
    "/history",
    (Permission.HISTORY_READ,),
    access.search,
    columns(
        "At Subject Operation Reason By Via ApprovedBy UndoneBy Id",
        Kind="Subject.Kind",
        SubjectId="Subject.Id",
        Result=lines_text,
        Key="By.Key",
    ),
    FILTERS,
    "history/list.html",
    about_history,
    schema=Filters(),
    cards=table_entries,
)


def find_timeline(wanted: Document, size: int, key: Lookup) -> CursorPage:
    return timeline("player", players.get_id_ever(key), size, wanted.get("after", ""))


# Of a player: changes, and what the game reported.
ListPage(
    "/players/<player:key>/history",
    (Permission.PLAYERS_READ, Permission.HISTORY_READ),
    find_timeline,
    columns(
        "At What Result Reason By Via With Id",
        What="Operation",
        Result=lines_text,
        With="WithName",
    ),
)


def api_filters(wanted: Document) -> Document:
    """Return typed filters for the API: times in UTC, and the ids of items, which may be named."""
    found = {}
    for name, text in wanted.items():
        if name.lower() in ("from", "to"):
            text = as_utc(text)
        elif name.lower() == "item":
            text = object_id(text, name)
        found[name] = text
    return found


def object_id(text: str, field: str) -> str:
    for type_ in ("item", "spell", "playervariable"):
        try:
            return resolve(field, type_, text)
        except QuartermasterError as error:
            fault = error
    raise fault


def entry_page(entry_id: str) -> Response:
    entry = access.visible_entry(entry_id)
    (shown,) = table_entries(history.present([entry]))
    shown_undo, refusal = undo_preview(entry, shown)
    # The entry that this one undid, or that undid this one.
    related = access.visible_entries([shown["Undoes"], shown["UndoneBy"]])
    offered = UNDO_WHAT_IS_LEFT if shown_undo and refusal else UNDO_CHANGE
    target = Target(path_to("history", entry_id), entry_id)
    return render(
        "history/entry.html",
        entry=shown,
        preview=shown_undo,
        refusal=refusal,
        related=table_entries(history.present(related.values())),
        forms=forms_on([offered], target),
    )


def undo_preview(entry: Document, shown: Document) -> tuple[Document | None, str]:
    """Return the entry of a possible undo, and why the change cannot be undone as a whole."""
    if shown["UndoneBy"]:
        return None, "This change has already been undone."
    if not may_undo(shown):
        return None, "You may not undo this change. Ask somebody who manages staff."
    if not shown["CanUndo"]:
        return None, "A change of this kind cannot be undone."
    refusal = ""
    for is_partial in (False, True):
        try:
            would = preview(UNDO, None, undo_arguments(entry["_id"], is_partial))
        except QuartermasterError as error:
            refusal = refusal or with_names(str(error), names_in(error))
        else:
            return table_entries([{**would, "Id": entry["_id"], "UndoneBy": None}])[0], refusal
    return None, refusal


def after_undo(applied: Applied, sent: Submission, entry_id: str) -> Response:
    return done(applied, local(sent.value("back"), path_to("history", entry_id)))


UNDO_CHANGE = Form(
    UNDO, "Undo", "Undo", path_arguments={"id": "entry_id"}, lead=after_undo, about=about_items
)
UNDO_WHAT_IS_LEFT = replace(
    UNDO_CHANGE,
    button="Undo as much as possible",
    fields=(Field("partial", "", value="true", type="hidden"),),
    name="undo-partial",
    body=lambda _: {"Partial": True},
)
Place(
    "/history/<entry_id>",
    {"": [UNDO_CHANGE, UNDO_WHAT_IS_LEFT]},
    entry_page,
    needs=(Permission.HISTORY_READ,),
)
