"""The pages of batches: the list, a batch with its rows and forms, and the page of a new one."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import Response, current_app

from app.approvals.kinds import RUN_BATCH
from app.auth import guard
from app.auth.spending import NeedsApproval, OverLimit
from app.batches import access, planning
from app.batches.domain import MOST_PLAYERS, OPEN, VERDICTS, kind_sentence, public_batch, title_of
from app.batches.rows import CSV, csv_body, json_body
from app.batches.schemas import LONGEST_NAME, ChosenChangesArgs, RowListArgs
from app.console.forms.declared import Field, Form, Group, Target, about_batches
from app.console.forms.places import Place
from app.console.forms.schemas import BatchForPlayers, list_operations
from app.console.forms.submissions import (
    Submission,
    forms_on,
    lines_of,
    plain,
    query_text,
    submitted,
)
from app.console.frame.lists import BYTE_ORDER_MARK, Columns, ListPage, columns
from app.console.frame.pages import path_to, render, see_other
from app.console.frame.times import as_utc
from app.console.game.views import get_curl
from app.console.history.sentences import filter_texts, lines, reverse_of, row_sentence, with_names
from app.console.history.tables import names_in
from app.console.history.views import UNDO_ALL, UNDO_FILTERS, api_filters
from app.console.players.views import FORMS as PLAYER_FORMS
from app.core.changes import Applied
from app.core.errors import Forbidden, Invalid
from app.core.naming import Lookup
from app.core.operations import batch_operations
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document, value_at
from app.history.access import visible_entries
from app.history.schemas import UndoBatchArgs
from app.http.parser import load
from app.http.uploads import form_file, is_form_with_file

# The sources of a batch, with the labels of their tabs.
SOURCES = {"players": "Players", "file": "A file", "changes": "Undo changes"}
NEEDS = (Permission.PLAYERS_READ,)


def with_titles(found: Sequence[Document]) -> list[Document]:
    """Return public batches with their titles, and what pages tell about their rows."""
    names = names_in(found)
    return [
        {
            **public_batch(batch),
            "Title": title_of(batch, names),
            "Plan": [kind_sentence(kind, names) for kind in batch.get("Summary", ())],
            "Chosen": filter_texts(batch.get("Undo") or {}, names),
        }
        for batch in found
    ]


ListPage(
    "/batches",
    NEEDS,
    access.list_batches,
    columns("At Title State Rows Ready Done Refused Replanned By Reason Id"),
    template="batches/list.html",
    about=lambda _: {"curl": get_curl("batches")},
    cards=with_titles,
)


def batch_page(batch_id: str) -> Response:
    batch = access.visible_batch(batch_id)
    (shown,) = with_titles([batch])
    found = ROWS.find(batch_id=batch_id)
    why_not = ""
    try:
        access.require_permissions(guard.caller(), batch)
    except Forbidden as error:
        why_not = str(error)
    offered = FORMS if why_not else (*FORMS, RESUME)
    target = Target(path_to("batches", batch_id), batch_id, record=shown)
    return render(
        "batches/batch.html",
        found.status,
        batch=shown,
        is_open=batch["State"] in OPEN,
        tabs=[(tab, shown[tab.capitalize() or "Rows"]) for tab in ("", *VERDICTS, "replanned")],
        found=found,
        # Why the caller may not run it; empty if they may, or can ask for it.
        why_not=why_not,
        forms=forms_on(offered, target),
    )


def result_columns() -> Columns:
    """Return the columns of the file: the last are the arguments of all operations of rows."""
    names = ["Row Player PlayerId Operation What Verdict Why Entry Batch"]
    for one in batch_operations().values():
        names += one.history_arguments(one.arguments.fields)
    return columns(" ".join(names), PlayerId="Subject.Id")


def find_rows(wanted: Document, size: int, batch_id: str) -> CursorPage:
    """Return rows with their texts; an undo describes its entry if the caller may see it."""
    batch = access.visible_batch(batch_id)
    page = access.list_rows(batch, wanted, size)
    rows = page.values
    found = visible_entries([row["Arguments"].get("Id", "") for row in rows])
    names = names_in(found, rows)
    values = []
    for row in rows:
        undone = found.get(row["Arguments"].get("Id", ""))
        texts = {
            "Player": value_at(row, "Subject.Name") or row["Player"],
            "Batch": batch["_id"],
            "What": row_sentence(row, names),
            "Why": with_names(row["Why"] or row["Warning"] or "", names),
            "Undone": undone
            and {**undone, "Id": undone["_id"], "Lines": lines(reverse_of(undone), names)},
        }
        values.append({**row["Arguments"], **row, **texts})
    return page._replace(values=values)


# The rows with their verdicts; the file is their result.
ROWS = ListPage(
    "/batches/<batch_id>",
    NEEDS,
    find_rows,
    result_columns,
    (Field("verdict", "Verdict", type="hidden"), Field("player", "Player", suggest="player")),
    schema=RowListArgs(),
)


def in_state(*states: str) -> Callable[[Target], bool]:
    return lambda target: target.record["State"] in states


def about_run(target: Target) -> Iterable[str]:
    try:
        access.require_run(guard.caller(), access.visible_batch(target.id))
    except (OverLimit, NeedsApproval) as refusal:
        yield str(refusal)
    yield (
        "The service finishes it even if you leave this page. You can pause it at any time, and "
        "undo it when it is done."
    )


def show_state(batch: Document, _: Submission, batch_id: str) -> Response:
    return see_other(path_to("batches", batch_id, done=f"batch-{batch['State']}"))


def show_plan(made: Applied, *_: Any, **__: Any) -> Response:
    return see_other(path_to("batches", made.answer["_id"]))


PARTIAL = Field("Partial", "Take what is left, if players no longer have everything", type="check")
API = "POST /api/v1/batches"
batch_form = partial(Form, None, api=lambda sent: f"{API}/<key>/{sent.form.name}")
run_form = partial(batch_form, needs=(Permission.BATCHES_RUN,), asks_reason=False, lead=show_state)
plan_form = partial(batch_form, lead=show_plan)
RUN = run_form(
    "Run…",
    "Run",
    act=access.start,
    # Asks what is to be done, in as many sentences as there are kinds of rows.
    template="batches/run_question.html",
    layout="run",
    about=about_run,
    is_offered=in_state("planned"),
    asks=RUN_BATCH,
)
RESUME = replace(RUN, title="Resume", button="Resume", is_offered=in_state("paused"))
PAUSE = run_form(
    "Pause",
    "Pause",
    act=access.pause,
    about="The service finishes it even if you leave this page.",
    is_offered=in_state("running"),
)
CANCEL = run_form(
    "Cancel…",
    "Cancel the batch",
    act=access.cancel,
    about="Rows that are ready will not be carried out. What was done stays. A cancelled batch "
    "cannot be resumed.",
    is_danger=True,
    is_offered=in_state(*OPEN),
)
has_ended = in_state("done", "cancelled")
UNDO = plan_form(
    "Undo…",
    "Plan the undo",
    (PARTIAL,),
    schema=UndoBatchArgs(),
    act=lambda batch_id, args: planning.plan_undo(batch_id, args["Partial"]),
    about="Plans a batch that undoes what was done, the last row first. Nothing changes until you "
    "run it.",
    is_offered=lambda target: target.record["Done"] and has_ended(target),
    needs=(Permission.BATCHES_PLAN, Permission.UNDO_OWN),
)
RETRY = plan_form(
    "Try again",
    "Try the rest again",
    name="retry",
    act=planning.plan_retry,
    about="Plans a batch with the rows that are not done. Nothing changes until you run it.",
    is_quiet=True,
    is_offered=lambda to: to.record["Rows"] > to.record["Done"] and has_ended(to),
    needs=(Permission.BATCHES_PLAN,),
    asks_reason=False,
)
FORMS = (RUN, PAUSE, CANCEL, UNDO, RETRY)
Place("/batches/<batch_id>", {"": FORMS}, batch_page, needs=NEEDS)


def new_batch_page(source: str) -> Response:
    sent = submitted()
    read = sent.value if sent else lambda name: query_text(name.lower())
    values = {one.name: read(one.name) for one in (*PLAN_FILTERS, *FOUND_BY)}
    return render(
        "batches/new.html",
        source=source,
        sources=SOURCES,
        operations=batch_operations(),
        most_bytes=current_app.config["BATCH_CONTENT_LENGTH"],
        forms=forms_on(PLAN_FORMS[source], Target(path_to("batches", "new"), values=values)),
    )


def plan_change() -> Applied:
    """Plan one operation for all players of a list, or of a search."""
    sent: Any = submitted()
    # Those of a search are not listed.
    chosen = sent.load(BatchForPlayers(partial=["players"] if sent.name == "found" else None))
    operation = batch_operations()[chosen["operation"]]
    sent.args = operation.history_arguments(sent.load(operation.arguments))
    listed = map(Lookup.parse, lines_of(chosen.get("players", "")))
    named = {key.id or key.name_key: key.text for key in listed}
    return plan_body(batch_body(sent, named.values()))


def plan_undo() -> Applied:
    sent: Any = submitted()
    chosen = api_filters(typed_filters(sent))
    if not chosen:
        raise Invalid("Fill in at least one field to choose the changes.")
    load(ChosenChangesArgs(), chosen)
    body = batch_body(sent)
    body["Undo"] |= chosen
    return plan_body(body)


def plan_body(body: Document) -> Applied:
    text = orjson.dumps(body)
    read = partial(json_body, io.BytesIO(text), "The list")
    return planning.plan(read, hashlib.sha256(text).hexdigest())


def plan_file() -> Applied:
    sent: Any = submitted()
    content = form_file() if is_form_with_file() else None
    start = content and content.file.read(64).removeprefix(BYTE_ORDER_MARK).lstrip()
    if not content or not start:
        raise Invalid("Choose a file.", {"file": ["Choose a file that is not empty."]})
    content.file.seek(0)
    is_json = start.startswith((b"{", b"["))
    read = partial(json_body, called="The file") if is_json else csv_body
    name = sent.value("Name").strip()
    return planning.plan(partial(read, content.file), f"{content.digest} {name}", name)


def batch_body(sent: Submission, named: Iterable[str] = ("PLAYER",)) -> Document:
    """Return the body for the API: for the players with these names, unless they are searched."""
    body = {"Name": sent.value("Name").strip()}
    if sent.name == "changes":
        undo: Document = typed_filters(sent) or {"By": "NAME"}
        if sent.is_checked("Partial"):
            undo["Partial"] = True
        return {**body, "Undo": undo}
    row = {"Operation": sent.value("operation", "give"), **sent.args}
    if sent.name == "found":
        search, online = map(sent.shown_value, FOUND_BY)
        chosen = {"Search": search, "Online": bool(online)}
        given = {name: value for name, value in chosen.items() if value}
        return {**body, "Players": given, "Row": row}
    return {**body, "Rows": [{"Player": name, **row} for name in named]}


def typed_filters(sent: Submission) -> dict[str, str]:
    """Return the filters of changes that were filled in, with times in UTC."""
    found = {}
    for one in PLAN_FILTERS:
        if text := plain(sent.value(one.name)):
            found[one.name] = as_utc(text) if one.type == "datetime-local" else text
    return found


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
            first = named.get(one.name, one)
            named[one.name] = replace(first, only_with=(*first.only_with, name))
    return tuple(named.values())


PLANS = "A plan changes nothing. It shows which rows could be carried out."
EVERY_FIELD = "All changes that match every field you fill in. The newest is undone first."
PATIENCE = f"{PLANS} A large plan takes up to a minute."
HTML = {"maxlength": LONGEST_NAME, "autocomplete": "off"}
FOUND = "Helps colleagues find the batch. Without a name, it is called after what it does."
NAME = Field("Name", "Name of the batch", FOUND, is_required=False, html=HTML)
OPERATION = Field("operation", "What to do", value="give", type="radio", options=list_operations)
PLAYERS = Field(
    "players",
    "Players",
    "Names or ids, one on each line. The same name or id counts once.",
    type="area",
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
FOR_PLAYERS = plan_form(
    "One change for many players",
    "Plan",
    (WHAT_TO_DO, PLAYERS, NAME),
    name="players",
    act=plan_change,
    api=API,
    body=batch_body,
    about=lambda _: [PLANS, *about_batches()],
    layout="plan",
)
FOR_FOUND = replace(
    FOR_PLAYERS,
    title="One change for these players",
    fields=(WHAT_TO_DO, *FOUND_BY, NAME),
    name="found",
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
    act=plan_undo,
    about=lambda _: [EVERY_FIELD, PATIENCE, *about_batches()],
)
PLAN_FORMS = {form.name: [form] for form in (FOR_PLAYERS, FOR_FOUND, FROM_FILE, UNDO_CHANGES)}
Place(
    "/batches/new",
    PLAN_FORMS,
    new_batch_page,
    needs=(Permission.BATCHES_PLAN,),
    tab_needs={"changes": (Permission.HISTORY_READ, *UNDO_ALL)},
)
