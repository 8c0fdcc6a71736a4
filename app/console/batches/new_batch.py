"""The page of a new batch: for a list of players, from a file, or from changes of history."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import urlencode

from flask import Response, current_app, request

from app.batches import access
from app.batches.domain import Row
from app.batches.rows import CSV, CsvRows, JsonRows, RowSource, parse_row
from app.batches.schemas import LONGEST_NAME, ChosenChangesArgs
from app.console.forms.declared import BY_NAME, Field, Form, Target
from app.console.forms.object_names import plain
from app.console.forms.places import attempt
from app.console.forms.schemas import BatchForPlayers, list_operations
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import blp, path_to, render, required, see_other
from app.console.frame.times import as_utc
from app.console.history.views import object_id
from app.console.keys.forms import lines_of
from app.errors import Invalid
from app.http.context import current
from app.http.parser import load
from app.http.uploads import form_file, is_form_with_file
from app.naming import Lookup
from app.operations import batch_operations, operation_names
from app.players.store import Players
from app.storage.bulk import batches as in_chunks
from app.types import Document

# What a batch can be planned from, and how the tabs of the page call it.
KINDS = {"players": "Players", "file": "A file", "changes": "Undo changes"}
FILTERS = ("By", "Key", "Operation", "Item", "From", "To")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

players = current(Players)


class TypedRows:
    """The rows of a list of names, or none: what a form says of a batch."""

    def __init__(self, head: Document, rows: Iterable[Document]) -> None:
        self.head = head
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        for number, values in enumerate(self._rows, 1):
            yield parse_row(number, values)


@blp.get("/batches/new")
@required()
def show_new_batch() -> Response:
    return new_batch_page()


@blp.post("/batches")
@required()
def plan_batch() -> Response:
    """Plan a batch from a list, a file or history. By hand: three forms share this path."""
    sent = Submission.posted(FORMS[posted_kind()])
    made = attempt(sent, lambda: PLANNERS[sent.name](sent))
    if made is None:
        return new_batch_page(sent)
    return see_other(path_to("batches", made.batch["_id"]))


def posted_kind() -> str:
    if is_form_with_file():
        return "file"
    kind = request.args.get("kind", "")
    return kind if kind in KINDS else next(iter(KINDS))


def plan_players(sent: Submission) -> access.Made:
    """Plan that the same is done to all players of a list."""
    wanted = sent.load(BatchForPlayers())
    operation = wanted["operation"]
    arguments = typed_arguments(sent, operation)
    lines = lines_of(wanted["players"])
    rows = ({"Player": line, "Operation": operation, **arguments} for line in distinct(lines))
    return planned(sent, TypedRows({"Rows": None}, rows), repr((lines, operation, arguments)))


def distinct(lines: list[str]) -> Iterator[str]:
    """Yield the first line of each player: it was pasted, and may be there by name and by id."""
    seen: set[str | None] = set()
    for chunk in in_chunks(lines):
        keys = [Lookup.parse(line) for line in chunk]
        found = players.identify_many(keys)
        for line, key in zip(chunk, keys, strict=True):
            who = found[key].id if key in found else key.id or key.name_key
            if who not in seen:
                seen.add(who)
                yield line


def typed_arguments(sent: Submission, operation: str) -> Document:
    """Return what was typed as the arguments of each row."""
    declared = batch_operations()[operation]
    sent.args = declared.history_arguments(sent.load(declared.arguments))
    return sent.args


def plan_file(sent: Submission) -> access.Made:
    content = form_file() if is_form_with_file() else None
    start = content.file.read(64).removeprefix(BYTE_ORDER_MARK).lstrip() if content else b""
    if content is None or not start:
        raise Invalid("Choose a file.", {"file": ["Choose a file, and one that is not empty."]})
    content.file.seek(0)
    is_json = start.startswith((b"{", b"["))
    source = JsonRows(content.file, "The file") if is_json else CsvRows(content.file)
    return planned(sent, source, content.digest)


def plan_changes(sent: Submission) -> access.Made:
    """Plan that changes of history are undone."""
    values = typed_filters(sent)
    if not values:
        raise Invalid("Say which changes: fill in one of the fields at least.")
    if "Item" in values:
        values["Item"] = object_id(values["Item"], "Item")
    load(ChosenChangesArgs(), values)
    return planned(sent, TypedRows({"Undo": values}, []), repr(values))


def typed_filters(sent: Submission) -> dict[str, str]:
    """Return the filters of changes that were filled in; times name UTC, as the API asks for."""
    typed = {name: plain(sent.value(name)) for name in FILTERS}
    utc = {name: as_utc(typed[name]) for name in ("From", "To")}
    return {name: text for name, text in {**typed, **utc}.items() if text}


def planned(sent: Submission, source: RowSource, content: str) -> access.Made:
    name = sent.value("Name").strip()
    digest = hashlib.sha256(f"{sent.name} {name} {content}".encode()).hexdigest()
    return access.plan(source, digest, name)


def new_batch_page(sent: Submission | None = None) -> Response:
    kind = sent.name if sent else posted_kind()
    values = {name: plain(request.args.get(name.lower(), "")) for name in FILTERS}
    target = Target(path_to("batches", kind=kind), values=values)
    return render(
        "batches/new.html",
        sent=sent,
        page="batches",
        kind=kind,
        kinds=KINDS,
        operation=sent.value("operation", "give") if sent else "give",
        operations=list_operations(),
        changes=operation_names(),
        most_bytes=current_app.config["BATCH_CONTENT_LENGTH"],
        forms=forms_on([FORMS[kind]], target, sent),
    )


def players_body(sent: Submission) -> Document:
    row = {"Player": "PLAYER", "Operation": sent.value("operation", "give"), **sent.args}
    return {"Name": sent.value("Name"), "Rows": [row]}


def changes_body(sent: Submission) -> Document:
    return {"Name": sent.value("Name"), "Undo": typed_filters(sent) or {"By": "NAME"}}


def file_api(sent: Submission) -> str:
    return f"POST /api/v1/batches?{urlencode({'name': sent.value('Name') or 'NAME'})}"


PLANS = "A plan changes nothing: it shows for each row whether it could be carried out."
EVERY_FIELD = "All changes to which every field fits that you fill in. The newest is undone first."
LIST = {"rows": 10, "maxlength": 500000}
PATIENCE = f"{PLANS} A large one takes up to a minute."
HTML = {"maxlength": LONGEST_NAME, "autocomplete": "off"}
FOUND = "By this, colleagues find it."
NAME = Field("Name", "Name of the batch", FOUND, noun="The name", is_required=False, html=HTML)
PLAYERS = "Names or ids, one on each line. One that is there twice counts once."
FOR_PLAYERS = Form(
    None,
    "The same for many players",
    "Plan",
    (
        Field("operation", "What to do", noun="What is done"),
        Field("itemid", "Item", BY_NAME, object_type="item"),
        Field("quantity", "Quantity for each", value=1, type="number", noun="The quantity"),
        Field("bankoverflow", "What does not fit goes to the bank", type="check"),
        Field("spellid", "Spell", BY_NAME, object_type="spell"),
        Field("variableid", "Variable", BY_NAME, object_type="playervariable"),
        Field("value", "Value"),
        Field("players", "Players", PLAYERS, type="area", noun="The list of players", html=LIST),
        NAME,
    ),
    name="players",
    path="",
    api="POST /api/v1/batches",
    body=players_body,
    about=PLANS,
    # What is done is a choice, which decides on the other fields.
    template="batches/player_fields.html",
    layout="plan",
    takes_key=True,
)
FROM_FILE = Form(
    None,
    "Rows from a file",
    "Plan",
    (replace(NAME, hint=f"{FOUND} A JSON file may hold one itself."),),
    name="file",
    path="",
    api=file_api,
    file=(CSV, "batch.csv"),
    about=PATIENCE,
    layout="plan",
    takes_key=True,
)
UNDO_CHANGES = Form(
    None,
    "Undo changes of history",
    "Plan",
    (
        Field("By", "Changed by", is_required=False, html=HTML),
        Field("Key", "With the key", is_required=False, html=HTML),
        Field("Item", "Item, spell or variable", suggest="item", is_required=False),
        Field("Operation", "What was done", noun="What was done", is_required=False),
        Field("From", "From", noun="The time", type="datetime-local", is_required=False),
        Field("To", "Before", noun="The time", type="datetime-local", is_required=False),
        NAME,
    ),
    name="changes",
    path="",
    api="POST /api/v1/batches",
    body=changes_body,
    about=lambda _: [EVERY_FIELD, PATIENCE],
    # One of the filters is a list to choose from.
    template="batches/change_fields.html",
    layout="plan",
    takes_key=True,
)
FORMS = {form.name: form for form in (FOR_PLAYERS, FROM_FILE, UNDO_CHANGES)}
PLANNERS = {"players": plan_players, "file": plan_file, "changes": plan_changes}
