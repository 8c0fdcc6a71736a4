"""The pages of batches: the list, a batch with its rows and forms, and the page of a new one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

from flask import Response, current_app, request

from app.auth import guard
from app.batches import access, planning
from app.batches.domain import (
    MOST_PLAYERS,
    OPEN,
    VERDICTS,
    Made,
    Row,
    kind_sentence,
    public_batch,
    result_cells,
    result_columns,
    title_of,
)
from app.batches.rows import CSV, CsvRows, JsonRows, RowSource, parse_row
from app.batches.schemas import LONGEST_NAME, ChosenChangesArgs, RowListArgs
from app.console.batches.forms import FORMS as BATCH_FORMS
from app.console.batches.forms import PARTIAL, RESUME
from app.console.forms.curl import curl
from app.console.forms.declared import Field, Form, Group, Target
from app.console.forms.limits import about_batches
from app.console.forms.object_names import lines_of, plain
from app.console.forms.places import Place, attempt, register
from app.console.forms.schemas import BatchForPlayers, BatchOperation, list_operations
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import BYTE_ORDER_MARK, ROWS_AT_ONCE, ListPage, columns, csv_file
from app.console.frame.pages import blp, path_to, render, required, see_other
from app.console.frame.times import as_utc
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
from app.console.history.views import UNDO_ALL, UNDO_FILTERS, api_filters
from app.console.players.forms import FORMS as PLAYER_FORMS
from app.console.stores import objects, players
from app.core.errors import Forbidden, Invalid
from app.core.naming import Lookup
from app.core.operations import batch_operations, object_arguments
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.history.access import visible_entries
from app.http.parser import load
from app.http.path_converters import path_guid
from app.http.uploads import form_file, is_form_with_file
from app.storage.bulk import batches as in_chunks

ROW_ARGUMENTS = RowListArgs()
VERDICT_TABS = ("", *VERDICTS, "replanned")
# The sources of a batch, with the labels of their tabs.
KINDS = {"players": "Players", "file": "A file", "changes": "Undo changes"}
API = "POST /api/v1/batches"


def find_batches(wanted: Document, size: int) -> CursorPage:
    page = access.list_batches(size, wanted.get("after", ""))
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


ListPage(
    "/batches",
    (Permission.PLAYERS_READ,),
    find_batches,
    columns("At Title Rows Ready Done Refused Replanned By Reason Id", State=state_word),
    template="batches/list.html",
    about=lambda _: {"curl": curl(request.host_url.rstrip("/"), "GET", "/api/v1/batches")},
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
        result_columns(),
        lambda after: rows_with_words(batch, {**args, "after": after}, ROWS_AT_ONCE),
        partial(result_cells, id_),
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
    offered = [form for form in (*BATCH_FORMS, RESUME) if form.name != RESUME.name or not why_not]
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
        {"": BATCH_FORMS},
        batch_page,
        needs=(Permission.PLAYERS_READ,),
    )
)


class TypedRows:
    """The rows that a form lists, possibly none, and the other fields of the batch."""

    def __init__(self, head: Document, rows: Iterable[Document]) -> None:
        self.head = head
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        for number, values in enumerate(self._rows, 1):
            yield parse_row(number, values)


@blp.get("/batches/new")
@required(Permission.BATCHES_PLAN)
def show_new_batch() -> Response:
    return new_batch_page()


@blp.post("/batches")
@required(Permission.BATCHES_PLAN)
def plan_batch() -> Response:
    """Plan a batch from a list, a file or history. Not declared: three forms share this path."""
    form = PLAN_FORMS[posted_kind()]
    sent = Submission.posted(form)
    made = attempt(sent, lambda: form.act(sent) if form.act else None)
    if made is None:
        return new_batch_page(sent)
    return see_other(path_to("batches", made.batch["_id"]))


def posted_kind() -> str:
    if is_form_with_file():
        return "file"
    kind = request.args.get("kind", "")
    return kind if kind in PLAN_FORMS and may_plan(kind) else next(iter(PLAN_FORMS))


def plan_players(sent: Submission) -> Made:
    """Plan one operation for all players of a list."""
    lines, row = lines_of(sent.load(BatchForPlayers())["players"]), typed_row(sent)
    rows = ({"Player": line, **row} for line in distinct(lines))
    return plan_rows(sent, TypedRows({"Rows": None}, rows), repr((lines, row)))


def plan_found(sent: Submission) -> Made:
    """Plan one operation for all players whom a search finds now."""
    head = {"Players": chosen_players(sent.value), "Row": typed_row(sent)}
    return plan_rows(sent, TypedRows(head, []), repr(head))


def typed_row(sent: Submission) -> Document:
    """Return the row of each player; the typed values are its arguments."""
    operation = batch_operations()[sent.load(BatchOperation())["operation"]]
    sent.args = operation.history_arguments(sent.load(operation.arguments))
    return {"Operation": operation.name, **sent.args}


def chosen_players(value: Callable[[str], str]) -> Document:
    chosen = {"Search": value("Search"), "Online": bool(value("Online"))}
    return {name: given for name, given in chosen.items() if given}


def distinct(lines: list[str]) -> Iterator[str]:
    """Yield one line per player: a pasted list may name a player twice, by name and by id."""
    seen: set[str | None] = set()
    for chunk in in_chunks(lines):
        keys = [Lookup.parse(line) for line in chunk]
        found = players.identify_many(keys)
        for line, key in zip(chunk, keys, strict=True):
            who = found[key].id if key in found else key.id or key.name_key
            if who not in seen:
                seen.add(who)
                yield line


def plan_file(sent: Submission) -> Made:
    content = form_file() if is_form_with_file() else None
    start = content.file.read(64).removeprefix(BYTE_ORDER_MARK).lstrip() if content else b""
    if content is None or not start:
        raise Invalid("Choose a file.", {"file": ["Choose a file that is not empty."]})
    content.file.seek(0)
    is_json = start.startswith((b"{", b"["))
    source = JsonRows(content.file, "The file") if is_json else CsvRows(content.file)
    return plan_rows(sent, source, content.digest)


def plan_changes(sent: Submission) -> Made:
    """Plan the undo of changes in history."""
    typed = typed_filters(sent)
    if not typed:
        raise Invalid("Fill in at least one field to choose the changes.")
    values = api_filters(typed) | ({"Partial": True} if sent.is_checked("Partial") else {})
    load(ChosenChangesArgs(), values)
    return plan_rows(sent, TypedRows({"Undo": values}, []), repr(values))


def typed_filters(sent: Submission) -> dict[str, str]:
    """Return the filters of changes that were filled in, with times in UTC."""
    typed = {one.name: plain(sent.value(one.name)) for one in PLAN_FILTERS}
    utc = {name: as_utc(typed[name]) for name in ("From", "To")}
    return {name: text for name, text in {**typed, **utc}.items() if text}


def plan_rows(sent: Submission, source: RowSource, content: str) -> Made:
    name = sent.value("Name").strip()
    digest = hashlib.sha256(f"{sent.name} {name} {content}".encode()).hexdigest()
    return planning.plan(source, digest, name)


def new_batch_page(sent: Submission | None = None) -> Response:
    kind = sent.name if sent else posted_kind()
    read = sent.value if sent else lambda name: plain(request.args.get(name.lower(), ""))
    values = {one.name: read(one.name) for one in (*PLAN_FILTERS, *FOUND_BY)}
    target = Target(path_to("batches", kind=kind), values=values)
    return render(
        "batches/new.html",
        sent=sent,
        kind=kind,
        kinds={name: label for name, label in KINDS.items() if may_plan(name)},
        operations=batch_operations(),
        most_bytes=current_app.config["BATCH_CONTENT_LENGTH"],
        forms=forms_on([PLAN_FORMS[kind]], target, sent),
    )


def may_plan(kind: str) -> bool:
    return kind != "changes" or guard.caller().may(Permission.HISTORY_READ, *UNDO_ALL)


def batch_body(sent: Submission) -> Document:
    """Return the body for the API, with the row of one player."""
    if sent.name == "changes":
        return {"Name": sent.value("Name"), "Undo": typed_filters(sent) or {"By": "NAME"}}
    row = {"Operation": sent.value("operation", "give"), **sent.args}
    if sent.name == "found":
        chosen = chosen_players(lambda name: sent.value(name, sent.target.values.get(name, "")))
        return {"Name": sent.value("Name"), "Players": chosen, "Row": row}
    return {"Name": sent.value("Name"), "Rows": [{"Player": "PLAYER", **row}]}


def about_found(target: Target) -> Iterable[str]:
    search, online = target.values["Search"], target.values["Online"]
    named = f" whose name contains “{search}”" if search else ""
    yield f"For all players{' online now' if online else ''}{named}, at most {MOST_PLAYERS:,}."
    yield from (PLANS, *about_batches())


def argument_fields() -> tuple[Field, ...]:
    """Return the fields of all operations on a list of players, as in the forms of a player."""
    forms = {form.name: form for forms in PLAYER_FORMS.values() for form in forms}
    named: dict[str, Field] = {}
    for name in list_operations():
        for one in forms[name].by_name.values():
            with_others = named[one.name].only_with if one.name in named else ()
            named.setdefault(one.name, one)
            named[one.name] = replace(named[one.name], only_with=(*with_others, name))
    return tuple(named.values())


PLANS = "A plan changes nothing. It shows which rows could be carried out."
EVERY_FIELD = "All changes that match every field you fill in. The newest is undone first."
PATIENCE = f"{PLANS} A large plan takes up to a minute."
HTML = {"maxlength": LONGEST_NAME, "autocomplete": "off"}
FOUND = "Helps colleagues find the batch. Without a name, it is called after what it does."
NAME = Field("Name", "Name of the batch", FOUND, noun="The name", is_required=False, html=HTML)
OPERATION = Field(
    "operation",
    "What to do",
    value="give",
    type="radio",
    noun="What is done",
    options=list_operations,
)
PLAYERS = Field(
    "players",
    "Players",
    "Names or ids, one on each line. Duplicates count once.",
    type="area",
    noun="The list of players",
    html={"rows": 10, "maxlength": 500000},
)
# Set by the list of players, which leads to this form.
FOUND_BY = (Field("Search", "Search", type="hidden"), Field("Online", "Online", type="hidden"))
# The names of the filters in the API.
PLAN_FILTERS = tuple(
    replace(
        one, name=one.name.capitalize(), is_required=False, html=HTML if one.type == "text" else {}
    )
    for one in UNDO_FILTERS
)
WHAT_TO_DO = Group("halves", (OPERATION, *argument_fields()), "What to do for each player")
FOR_PLAYERS = Form(
    None,
    "One change for many players",
    "Plan",
    (WHAT_TO_DO, PLAYERS, NAME),
    name="players",
    path="",
    act=plan_players,
    api=API,
    body=batch_body,
    about=lambda _: [PLANS, *about_batches()],
    layout="plan",
    takes_key=True,
)
FOR_FOUND = replace(
    FOR_PLAYERS,
    title="One change for these players",
    fields=(WHAT_TO_DO, *FOUND_BY, NAME),
    name="found",
    act=plan_found,
    about=about_found,
)
FROM_FILE = replace(
    FOR_PLAYERS,
    title="Rows from a file",
    fields=(replace(NAME, hint=f"{FOUND} A JSON file may contain the name."),),
    name="file",
    act=plan_file,
    api=lambda sent: f"{API}?{urlencode({'name': sent.value('Name') or 'NAME'})}",
    file=(CSV, "batch.csv"),
    about=lambda _: [PATIENCE, *about_batches()],
)
UNDO_CHANGES = replace(
    FOR_PLAYERS,
    title="Undo changes from history",
    fields=(Group("halves", PLAN_FILTERS), PARTIAL, NAME),
    name="changes",
    act=plan_changes,
    about=lambda _: [EVERY_FIELD, PATIENCE, *about_batches()],
)
PLAN_FORMS = {form.name: form for form in (FOR_PLAYERS, FOR_FOUND, FROM_FILE, UNDO_CHANGES)}
