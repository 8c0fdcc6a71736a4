"""The pages of batches: the list, and a batch with its rows and forms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission
from app.batches import access, result_file
from app.batches.domain import OPEN, VERDICTS, public_batch
from app.batches.schemas import RowListArgs
from app.batches.titles import kind_sentence, title_of
from app.console.batches.forms import FORMS, RESUME
from app.console.batches.sentences import (
    bar,
    filter_texts,
    has_arguments,
    ids_in_rows,
    row_sentence,
)
from app.console.forms.curl import curl
from app.console.forms.declared import Field, Target
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.csv_files import BYTE_ORDER_MARK, CSV, columns, csv_lines, csv_list
from app.console.frame.lists import filter_page
from app.console.frame.pages import HEADERS, PAGE_SIZE, blp, path_to, render, required
from app.console.history.sentences import GUID, lines, reverse_of, with_names
from app.console.history.sentences import ids_in as entry_ids_in
from app.console.stores import batches, cursors, objects
from app.errors import Forbidden
from app.history.access import visible_entries
from app.http.parser import load
from app.http.path_converters import path_guid
from app.http.uploads import download
from app.types import Document

ROW_ARGUMENTS = RowListArgs()
TABS = ("", *VERDICTS, "replanned")
ROW_FILTERS = (
    Field("verdict", "Verdict", type="hidden"),
    Field("player", "Player", suggest="player"),
)
RESULT_ROWS = 500


@blp.get("/batches")
@required(Permission.PLAYERS_READ)
def list_batches() -> Response:
    found, following = read_batches(request.args.get("after", ""), PAGE_SIZE)
    return render(
        "batches/list.html",
        page="batches",
        batches=[{**batch, "Bar": bar(batch)} for batch in found],
        next=following,
        curl=curl(request.host_url.rstrip("/"), "GET", "/api/v1/batches"),
    )


def read_batches(after: str, size: int) -> tuple[list[Document], str | None]:
    page = batches.list(size, cursors.read(after), access.hidden_needs())
    kinds = [kind for batch in page.values for kind in batch.get("Summary", ())]
    names = objects.names_of([kind["Object"] for kind in kinds if kind["Object"]])
    found = [{**public_batch(batch), "Title": title_of(batch, names)} for batch in page.values]
    return found, cursors.write(page.next)


def state_word(batch: Document) -> str:
    """Return the state of a batch as its page shows it."""
    is_refused = batch["State"] == "done" and not batch["Done"]
    return "refused" if is_refused else str(batch["State"])


csv_list(
    "/batches",
    (Permission.PLAYERS_READ,),
    read_batches,
    columns("At Title Rows Ready Done Refused Replanned By Reason Id", State=state_word),
)


@blp.get("/batches/<batch_id>/result")
@required(Permission.PLAYERS_READ)
def download_result(batch_id: str) -> Response:
    """Stream the rows with their verdicts as a CSV file for a spreadsheet."""
    batch = access.visible_batch(path_guid("id", batch_id))
    verdict = request.args.get("verdict", "")
    args = {"verdict": verdict} if verdict in TABS[1:] else {}
    disposition = f'attachment; filename="batch-{batch["_id"]}.csv"'
    headers = {**HEADERS, "Content-Disposition": disposition}
    kind = f"{CSV}; charset=utf-8"
    return download(lambda: (result_of(batch, args), headers), guard.caller().id, content_type=kind)


def result_of(batch: Document, args: Document) -> Iterator[bytes]:
    yield BYTE_ORDER_MARK + csv_lines([result_file.columns()])
    following: str | None = ""
    while following is not None:
        page = access.rows_page(batch, {**args, "after": following}, RESULT_ROWS)
        rows = with_words(page["Values"])
        yield csv_lines([result_file.result_cells(batch["_id"], row) for row in rows])
        following = page["Next"]


def batch_page(_: str, sent: Submission | None, batch_id: str) -> Response:
    batch = access.visible_batch(batch_id)
    shown = public_batch(batch)
    found = filter_page(ROW_FILTERS, partial(search_rows, batch))
    target = Target(path_to("batches", batch_id), batch_id, record=shown)
    why_not = run_refusal(batch)
    offered = [form for form in (*FORMS, RESUME) if form.name != RESUME.name or not why_not]
    return render(
        "batches/batch.html",
        found.status,
        sent=sent,
        page="batches",
        batch=shown,
        bar=bar(shown),
        is_open=batch["State"] in OPEN,
        tabs=[(tab, shown[tab.capitalize() or "Rows"]) for tab in TABS],
        found=found,
        rows=with_words(found.values),
        why_not=why_not,
        forms=forms_on(offered, target, sent),
        **plan_words(batch),
    )


def run_refusal(batch: Document) -> str:
    """Return why the caller may not run a batch; empty if they may, or can ask for it."""
    try:
        access.require_permissions(guard.caller(), batch)
    except Forbidden as error:
        return str(error)
    return ""


def plan_words(batch: Document) -> dict[str, Any]:
    """Return the texts about a batch: its kinds of rows, and which changes it undoes."""
    kinds, chosen = batch.get("Summary", []), batch.get("Undo") or {}
    ids = [*(kind["Object"] for kind in kinds), chosen.get("Item")]
    names = objects.names_of([id_ for id_ in ids if id_])
    plan = [kind_sentence(kind, names) for kind in kinds]
    title = title_of(batch, names)
    return {"plan": plan, "title": title, "chosen": filter_texts(chosen, names)}


def search_rows(batch: Document, wanted: Document) -> tuple[Any, str | None]:
    page = access.rows_page(batch, load(ROW_ARGUMENTS, wanted), PAGE_SIZE)
    return page["Values"], page["Next"]


def with_words(rows: list[Document]) -> list[Document]:
    """Return rows with their texts; an undo describes its entry if the caller may see it."""
    found = visible_entries([row["Arguments"]["Id"] for row in rows if "Id" in row["Arguments"]])
    ids = ids_in_rows(rows) | entry_ids_in(found.values())
    # A refused row may have a name that the catalogue lacks.
    names = {id_: id_ for id_ in ids if not GUID.fullmatch(id_)} | objects.names_of(ids)
    undone = {
        id_: {**entry, "Id": id_, "Lines": lines(reverse_of(entry), names)}
        for id_, entry in found.items()
    }
    return [
        {
            **row,
            "Undone": undone.get(row["Arguments"].get("Id", "")),
            "Text": row_sentence(row, names) if has_arguments(row) else row["Operation"] or "",
            "Why": with_names(row["Why"] or row["Warning"] or "", names),
        }
        for row in rows
    ]


register(
    Place(
        "/batches/<batch_id>",
        ("batches",),
        {"": FORMS},
        batch_page,
        needs=(Permission.PLAYERS_READ,),
    )
)
