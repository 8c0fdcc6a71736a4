"""The page of a new batch: for a list of players, from a file, or from changes of history."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlencode

from flask import Response, current_app, request

from app.batches import access
from app.batches.domain import Row
from app.batches.rows import CSV, CsvRows, JsonRows, RowSource, parse_row
from app.batches.schemas import LONGEST_NAME, ChosenChangesArgs
from app.console.forms.curl import api_path, curl
from app.console.forms.forms import Form, attempt, form_status, plain, posted_upload
from app.console.forms.schemas import BatchForPlayers
from app.console.frame.pages import blp, path_to, render, required, see_other
from app.console.frame.times import as_utc
from app.console.history.views import object_id
from app.console.keys.views import lines_of
from app.errors import Invalid
from app.http.context import current
from app.http.parser import load
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
    form = Form.posted(posted_kind())
    made = attempt(form, lambda: PLANS[form.name](form))
    if made is None:
        return new_batch_page(form)
    return see_other(path_to("batches", made.batch["_id"]))


def posted_kind() -> str:
    if posted_upload():
        return "file"
    kind = request.args.get("kind", "")
    return kind if kind in KINDS else next(iter(KINDS))


def plan_players(form: Form) -> access.Made:
    """Plan that the same is done to all players of a list."""
    wanted = form.load(BatchForPlayers())
    operation = wanted["operation"]
    arguments = typed_arguments(form, operation)
    lines = lines_of(wanted["players"])
    rows = ({"Player": line, "Operation": operation, **arguments} for line in distinct(lines))
    return planned(form, TypedRows({"Rows": None}, rows), repr((lines, operation, arguments)))


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


def typed_arguments(form: Form, operation: str) -> Document:
    """Return what was typed as the arguments of each row."""
    declared = batch_operations()[operation]
    loaded = form.load(declared.arguments, **declared.typed_objects)
    form.args = declared.history_arguments(loaded)
    return form.args


def plan_file(form: Form) -> access.Made:
    upload = posted_upload()
    if upload is None:
        raise Invalid("Choose a file.", {"file": ["Choose a file."]})
    with upload.file() as content:
        start = content.file.read(64).removeprefix(BYTE_ORDER_MARK).lstrip()
        if not start:
            raise Invalid("Choose a file.", {"file": ["Choose a file, and one that is not empty."]})
        content.file.seek(0)
        is_json = start.startswith((b"{", b"["))
        source = JsonRows(content.file, "The file") if is_json else CsvRows(content.file)
        return planned(form, source, content.digest)


def plan_changes(form: Form) -> access.Made:
    """Plan that changes of history are undone."""
    values = typed_filters(form)
    if not values:
        raise Invalid("Say which changes: fill in one of the fields at least.")
    if "Item" in values:
        values["Item"] = object_id(values["Item"], "Item")
    load(ChosenChangesArgs(), values)
    return planned(form, TypedRows({"Undo": values}, []), repr(values))


def typed_filters(form: Form) -> dict[str, str]:
    """Return the filters of changes that were filled in; times name UTC, as the API asks for."""
    typed = {name: plain(form.value(name)) for name in FILTERS}
    utc = {name: as_utc(typed[name]) for name in ("From", "To")}
    return {name: text for name, text in {**typed, **utc}.items() if text}


def planned(form: Form, source: RowSource, content: str) -> access.Made:
    name = form.value("Name").strip()
    digest = hashlib.sha256(f"{form.name} {name} {content}".encode()).hexdigest()
    return access.plan(source, digest, name)


PLANS: dict[str, Callable[[Form], access.Made]] = {
    "players": plan_players,
    "file": plan_file,
    "changes": plan_changes,
}


def new_batch_page(form: Form | None = None) -> Response:
    kind = form.name if form else posted_kind()
    return render(
        "batches/new.html",
        form_status(form),
        page="batches",
        form=form,
        kind=kind,
        kinds=KINDS,
        given={name: plain(request.args.get(name.lower(), "")) for name in FILTERS},
        operation=form.value("operation", "give") if form else "give",
        changes=operation_names(),
        longest_name=LONGEST_NAME,
        most_bytes=current_app.config["BATCH_CONTENT_LENGTH"],
        curl=plan_curl(form, kind),
    )


def plan_curl(form: Form | None, kind: str) -> str:
    shown = form or Form(kind)
    name = shown.value("Name")
    if kind == "file":
        key, reason = shown_key(form), shown.value("reason")
        path = f"{api_path('batches')}?{urlencode({'name': name or 'NAME'})}"
        return curl(base(), "POST", path, None, key, reason, (CSV, "batch.csv"))
    if kind == "changes":
        return batch_curl(form, {"Name": name, "Undo": typed_filters(shown) or {"By": "NAME"}})
    row = {"Player": "PLAYER", "Operation": shown.value("operation", "give"), **shown.args}
    return batch_curl(form, {"Name": name, "Rows": [row]})


def batch_curl(form: Form | None, body: Document | None, *path: str) -> str:
    """Return the curl line of a form that plans a batch."""
    reason = form.value("reason") if form else ""
    return curl(base(), "POST", api_path("batches", *path), body, shown_key(form), reason)


def shown_key(form: Form | None) -> str:
    return form.key if form else "A-NEW-KEY"


def base() -> str:
    return request.host_url.rstrip("/")
