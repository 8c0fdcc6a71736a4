"""The pages of batches: the list, and a batch with its rows and forms."""

from __future__ import annotations

from functools import partial

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission
from app.batches import access, result_file
from app.batches.domain import OPEN, VERDICTS, public_batch
from app.batches.schemas import RowListArgs
from app.batches.titles import kind_sentence, title_of
from app.console.batches.forms import FORMS, RESUME
from app.console.forms.curl import curl
from app.console.forms.declared import Field, Target
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ROWS_AT_ONCE, ListPage, columns, csv_file
from app.console.frame.lists import register as register_list
from app.console.frame.pages import blp, path_to, render, required
from app.console.history.sentences import (
    GUID,
    bar,
    filter_texts,
    lines,
    reverse_of,
    row_sentence,
    with_names,
)
from app.console.history.sentences import ids_in as entry_ids_in
from app.console.stores import batches, cursors, objects
from app.errors import Forbidden
from app.history.access import visible_entries
from app.http.parser import load
from app.http.path_converters import path_guid
from app.operations import object_arguments
from app.paging import CursorPage
from app.types import Document

ROW_ARGUMENTS = RowListArgs()
VERDICT_TABS = ("", *VERDICTS, "replanned")


def find_batches(wanted: Document, size: int) -> CursorPage:
    page = batches.list(size, cursors.read(wanted.get("after", "")), access.hidden_needs())
    kinds = [kind for batch in page.values for kind in batch.get("Summary", ())]
    names = objects.names_of([kind["Object"] for kind in kinds if kind["Object"]])
    values = []
    for batch in page.values:
        shown = public_batch(batch)
        values.append({**shown, "Title": title_of(batch, names), "Bar": bar(shown)})
    return page._replace(values=values)


def state_word(batch: Document) -> str:
    """Return the state of a batch as its page shows it."""
    is_refused = batch["State"] == "done" and not batch["Done"]
    return "refused" if is_refused else str(batch["State"])


register_list(
    ListPage(
        "/batches",
        (Permission.PLAYERS_READ,),
        find_batches,
        columns("At Title Rows Ready Done Refused Replanned By Reason Id", State=state_word),
        template="batches/list.html",
        about=lambda _: {"curl": curl(request.host_url.rstrip("/"), "GET", "/api/v1/batches")},
    )
)


@blp.get("/batches/<batch_id>/result")
@required(Permission.PLAYERS_READ)
def download_result(batch_id: str) -> Response:
    """Stream the rows with their verdicts as a CSV file for a spreadsheet."""
    batch = access.visible_batch(path_guid("id", batch_id))
    verdict = request.args.get("verdict", "")
    args = {"verdict": verdict} if verdict in VERDICT_TABS[1:] else {}
    id_ = batch["_id"]
    return csv_file(
        f"batch-{id_}",
        result_file.columns(),
        lambda after: rows_with_words(batch, {**args, "after": after}, ROWS_AT_ONCE),
        partial(result_file.result_cells, id_),
    )


def batch_page(_: str, sent: Submission | None, batch_id: str) -> Response:
    batch = access.visible_batch(batch_id)
    shown = public_batch(batch)
    found = ROWS.find(batch=batch)
    target = Target(path_to("batches", batch_id), batch_id, record=shown)
    kinds, chosen = batch.get("Summary", []), batch.get("Undo") or {}
    ids = [*(kind["Object"] for kind in kinds), chosen.get("Item")]
    names = objects.names_of([id_ for id_ in ids if id_])
    why_not = run_refusal(batch)
    offered = [form for form in (*FORMS, RESUME) if form.name != RESUME.name or not why_not]
    return render(
        "batches/batch.html",
        found.status,
        sent=sent,
        batch=shown,
        bar=bar(shown),
        is_open=batch["State"] in OPEN,
        tabs=[(tab, shown[tab.capitalize() or "Rows"]) for tab in VERDICT_TABS],
        found=found,
        rows=found.values,
        why_not=why_not,
        forms=forms_on(offered, target, sent),
        plan=[kind_sentence(kind, names) for kind in kinds],
        title=title_of(batch, names),
        # Which changes it undoes.
        chosen=filter_texts(chosen, names),
    )


ROWS = ListPage(
    "/batches/<batch_id>",
    (Permission.PLAYERS_READ,),
    lambda wanted, size, batch: rows_with_words(batch, load(ROW_ARGUMENTS, wanted), size),
    filters=(
        Field("verdict", "Verdict", type="hidden"),
        Field("player", "Player", suggest="player"),
    ),
    shows_refusal=True,
)


def run_refusal(batch: Document) -> str:
    """Return why the caller may not run a batch; empty if they may, or can ask for it."""
    try:
        access.require_permissions(guard.caller(), batch)
    except Forbidden as error:
        return str(error)
    return ""


def rows_with_words(batch: Document, args: Document, size: int) -> CursorPage:
    """Return rows with their texts; an undo describes its entry if the caller may see it."""
    page = access.list_rows(batch, args, size)
    rows = page.values
    found = visible_entries([row["Arguments"]["Id"] for row in rows if "Id" in row["Arguments"]])
    ids = entry_ids_in(found.values())
    for row in rows:
        arguments = [row["Arguments"].get(name) for name in object_arguments()]
        ids |= {id_ for id_ in arguments if isinstance(id_, str)}
        ids |= set(GUID.findall(row["Why"] or ""))
    # A refused row may have a name that the catalogue lacks.
    names = {id_: id_ for id_ in ids if not GUID.fullmatch(id_)} | objects.names_of(ids)
    undone = {
        id_: {**entry, "Id": id_, "Lines": lines(reverse_of(entry), names)}
        for id_, entry in found.items()
    }
    values = [
        {
            **row,
            "Undone": undone.get(row["Arguments"].get("Id", "")),
            "Text": row_sentence(row, names),
            "Why": with_names(row["Why"] or row["Warning"] or "", names),
        }
        for row in rows
    ]
    return page._replace(values=values)


register(
    Place(
        "/batches/<batch_id>",
        ("batches",),
        {"": FORMS},
        batch_page,
        needs=(Permission.PLAYERS_READ,),
    )
)
