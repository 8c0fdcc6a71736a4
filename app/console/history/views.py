"""The pages of history: the list with its filters, and one change with its undo."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.changes import Applied
from app.console.forms.declared import Form, Target
from app.console.forms.object_names import plain, resolve
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import PAGE_SIZE, blp, done, local, path_to, render, required
from app.console.frame.times import as_utc
from app.console.history.tables import with_names
from app.errors import NotFound, QuartermasterError
from app.history import access
from app.history.operations import UNDO
from app.history.schemas import HistoryArgs
from app.history.store import History
from app.http.context import current
from app.http.cursors import Cursors
from app.http.errors import status_of
from app.http.parser import load
from app.operations import operation_names
from app.paging import CursorPage
from app.types import Document

FILTERS = ("player", "user", "by", "key", "operation", "item", "reason", "from", "to")
# By these, a batch chooses what it undoes.
UNDO_FILTERS = ("by", "key", "operation", "item", "from", "to")

cursors = current(Cursors)
history = current(History)


@blp.get("/history")
@required()
def list_history() -> Response:
    wanted = {name: plain(request.args.get(name, "")) for name in FILTERS}
    error = None
    found = CursorPage([], None)
    try:
        found = access.search(history_args(wanted, request.args.get("after", "")), PAGE_SIZE)
    except QuartermasterError as refusal:
        error = refusal
    return render(
        "history/list.html",
        status_of(error) if error else 200,
        page="history",
        wanted=wanted,
        operations=operation_names(),
        entries=with_names(found.values),
        next=cursors.write(found.next),
        error=error,
        undo_all=undo_all_path(wanted) if found.values else None,
    )


def undo_all_path(wanted: dict[str, str]) -> str | None:
    """Return where a batch is planned that undoes all that is listed; None if there is none.

    A batch chooses changes by fewer filters than the list has: with others, it would undo more.
    """
    chosen = {name: text for name, text in wanted.items() if text}
    if not chosen or not chosen.keys() <= set(UNDO_FILTERS):
        return None
    return path_to("batches", "new", kind="changes", **chosen)


def history_args(wanted: dict[str, str], after: str) -> Any:
    """Return the filters as the API takes them; items may be given by name."""
    values: dict[str, Any] = {name: text for name, text in wanted.items() if text}
    for name in ("from", "to"):
        if name in values:
            values[name] = as_utc(values[name])
    if "item" in values:
        values["item"] = object_id(values["item"])
    return load(HistoryArgs(), {**values, **({"after": after} if after else {})})


def object_id(text: str, field: str = "item") -> str:
    """Return the id of an item, a spell or a variable by its name."""
    for type_ in ("item", "spell", "playervariable"):
        try:
            return resolve(field, type_, text)
        except QuartermasterError as error:
            fault = error
    raise fault


def entry_page(_: str, sent: Submission | None, entry_id: str) -> Response:
    entry = access.visible_entry(entry_id)
    (shown,) = with_names(history.serve([entry]))
    preview, refusal = undo_preview(entry) if shown["CanUndo"] else (None, None)
    related = [shown["Undoes"], shown["UndoneBy"]]
    target = Target(path_to("history", entry_id), entry_id)
    return render(
        "history/entry.html",
        sent=sent,
        page="history",
        entry=shown,
        preview=preview,
        refusal=refusal,
        related=[found for found in map(neighbour, related) if found],
        forms=forms_on([UNDO_CHANGE], target, sent),
    )


def undo(sent: Submission, entry_id: str) -> Applied:
    return access.undo(access.entry_to_undo(entry_id))


def after_undo(applied: Applied, sent: Submission, entry_id: str) -> Response:
    return done(applied, local(sent.value("back"), path_to("history", entry_id)))


UNDO_CHANGE = Form(UNDO, "Undo", "Undo", act=undo, lead=after_undo)
register(Place("/history/<entry_id>", ("history",), {"": [UNDO_CHANGE]}, entry_page))


def undo_preview(entry: Document) -> tuple[Document | None, str | None]:
    """Return what an undo would change, or why there can be none."""
    try:
        would = access.preview_undo(entry)
    except QuartermasterError as error:
        return None, str(error)
    return with_names([{**would, "Id": entry["_id"], "UndoneBy": None}])[0], None


def neighbour(entry_id: str | None) -> Document | None:
    """Return the entry that was undone, or that has undone this one."""
    if entry_id is None:
        return None
    try:
        return with_names(history.serve([access.visible_entry(entry_id)]))[0]
    except NotFound:
        return None
