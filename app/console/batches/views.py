"""The pages of batches: the list, and one with its rows, which is run, cancelled and undone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from flask import Response, request

from app.auth import guard
from app.batches import access
from app.batches.domain import OPEN, VERDICTS, public_batch
from app.batches.rows import CSV
from app.batches.schemas import RowListArgs
from app.batches.store import Batches
from app.console.batches.forms import FORMS, GO_ON
from app.console.batches.new_batch import BYTE_ORDER_MARK
from app.console.batches.sentences import (
    NAMELESS,
    bar,
    filters_told,
    ids_in_rows,
    is_told,
    kind_told,
    named,
    row_told,
)
from app.console.forms.curl import curl
from app.console.forms.declared import Target
from app.console.forms.object_names import plain
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import HEADERS, PAGE_SIZE, blp, path_to, render, required
from app.console.history.sentences import ids_in as entry_ids_in
from app.console.history.sentences import lines, reverse_of
from app.errors import QuartermasterError
from app.history.access import sees_users, visible_entries
from app.http.context import current
from app.http.cursors import Cursors
from app.http.errors import status_of
from app.http.parser import load
from app.http.path_converters import path_guid
from app.http.uploads import download
from app.objects.store import Objects
from app.types import Document

TABS = ("", *VERDICTS, "replanned")
RESULT_COLUMNS = ("Row", "Player", "PlayerId", "Operation", "What", "Verdict", "Why", "Entry")
# A spreadsheet takes a cell that begins so for a formula, whoever has written the name in it; some
# do so with full-width letters as well.
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
RESULT_ROWS = 500

batches = current(Batches)
cursors = current(Cursors)
objects = current(Objects)


@blp.get("/batches")
@required()
def list_batches() -> Response:
    after = cursors.read(request.args.get("after", ""))
    page = batches.list(PAGE_SIZE, after, with_users=sees_users())
    found = [public_batch(batch, batch["Counts"]) for batch in page.values]
    return render(
        "batches/list.html",
        page="batches",
        batches=[{**batch, "Bar": bar(batch)} for batch in found],
        nameless=NAMELESS,
        next=cursors.write(page.next),
        curl=curl(request.host_url.rstrip("/"), "GET", "/api/v1/batches"),
    )


@blp.get("/batches/<batch_id>/result")
@required()
def download_result(batch_id: str) -> Response:
    """Send the rows with their verdicts as a file for a spreadsheet, piece by piece."""
    batch = access.visible_batch(path_guid("id", batch_id))
    verdict = request.args.get("verdict", "")
    args = {"verdict": verdict} if verdict in TABS[1:] else {}
    disposition = f'attachment; filename="batch-{batch["_id"]}.csv"'
    headers = {**HEADERS, "Content-Disposition": disposition}
    kind = f"{CSV}; charset=utf-8"
    return download(lambda: (result_of(batch, args), headers), guard.caller().id, content_type=kind)


def result_of(batch: Document, args: Document) -> Iterator[bytes]:
    yield BYTE_ORDER_MARK + csv_lines([RESULT_COLUMNS])
    following: str | None = ""
    while following is not None:
        page = access.rows_page(batch, {**args, "after": following}, RESULT_ROWS)
        yield csv_lines([result_line(row) for row in with_words(page["Values"])])
        following = page["Next"]


def result_line(row: Document) -> list[Any]:
    subject = row["Subject"] or {}
    player = subject.get("Name") or row["Player"]
    told = (row["Operation"], row["Told"], row["Verdict"], row["Why"], row["Entry"])
    return [row["Row"], player, subject.get("Id"), *told]


def csv_lines(rows: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([map(harmless, row) for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def batch_page(_: str, sent: Submission | None, batch_id: str) -> Response:
    batch = access.visible_batch(batch_id)
    shown = access.current_record(batch)
    wanted = {name: plain(request.args.get(name, "")) for name in ("verdict", "player")}
    rows, error = found_rows(batch, wanted)
    kinds = batch.get("Summary", [])
    chosen = batch.get("Undo") or {}
    ids = [*(kind["Object"] for kind in kinds), chosen.get("Item")]
    names = objects.names_of([id_ for id_ in ids if id_])
    told = [kind_told(kind, names) for kind in kinds]
    target = Target(path_to("batches", batch_id), batch_id, record=shown)
    return render(
        "batches/batch.html",
        status_of(error) if error else None,
        sent=sent,
        page="batches",
        batch=shown,
        title=batch["Name"] or (told[0] if told else NAMELESS),
        told=told,
        chosen=filters_told(chosen, names),
        bar=bar(shown),
        is_open=batch["State"] in OPEN,
        tabs=[(name, tab_count(shown, name)) for name in TABS],
        wanted=wanted,
        rows=with_words(rows["Values"]),
        next=rows["Next"],
        error=error,
        forms=forms_on([*FORMS, GO_ON], target, sent),
    )


def found_rows(
    batch: Document, wanted: dict[str, str]
) -> tuple[Document, QuartermasterError | None]:
    """Return a page of rows, and why there is none if a filter is refused."""
    values = {**wanted, "after": request.args.get("after", "")}
    try:
        args = load(RowListArgs(), {name: text for name, text in values.items() if text})
        return access.rows_page(batch, args, PAGE_SIZE), None
    except QuartermasterError as error:
        return {"Values": [], "Next": None}, error


def with_words(rows: list[Document]) -> list[Document]:
    """Return rows with what a table says of them; of an undo, what it undoes if it may be seen."""
    found = visible_entries([row["Arguments"]["Id"] for row in rows if "Id" in row["Arguments"]])
    ids = ids_in_rows(rows) | entry_ids_in(found.values())
    names = objects.names_of(ids) if ids else {}
    undone = {
        id_: {**entry, "Id": id_, "Lines": lines(reverse_of(entry), names)}
        for id_, entry in found.items()
    }
    return [
        {
            **row,
            "Undone": undone.get(row["Arguments"].get("Id", "")),
            "Told": row_told(row, names) if is_told(row) else row["Operation"] or "",
            "Why": named(row["Why"] or row["Warning"] or "", names),
        }
        for row in rows
    ]


def tab_count(batch: Document, tab: str) -> int:
    count: int = batch[tab.capitalize()] if tab else batch["Rows"]
    return count


register(Place("/batches/<batch_id>", ("batches",), {"": FORMS}, batch_page))
