"""The pages of the catalogue: the objects of each type, and one object with all its fields."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.auth import guard
from app.changes import Applied
from app.console.forms.curl import api_path, curl
from app.console.forms.forms import (
    Form,
    attempt,
    form_status,
    plain,
    require_unchanged,
)
from app.console.frame.icons import item_icon
from app.console.frame.pages import PAGE_SIZE, blp, changes_part, done, path_to, render, required
from app.execution import execute
from app.history.access import page as history_page
from app.http.context import current
from app.http.cursors import Cursors
from app.http.path_converters import path_guid
from app.naming import SEARCH_LENGTH, name_key
from app.objects.domain import TYPES, parse_type
from app.objects.store import ObjectKey, Objects
from app.paging import Window
from app.types import Document
from app.variables.operations import SET_GLOBAL_VARIABLE
from app.variables.schemas import SetVariableArgs
from app.variables.server import domain as server_variables

# The types that people look for most come first.
ORDER = ("item", "spell", "class", "map", "npc", "quest", "playervariable", "servervariable")
LABELS = {
    "playervariable": "Player variables",
    "servervariable": "Global variables",
    "class": "Classes",
    "crafts": "Crafts",
    "crafttables": "Craft tables",
    "npc": "NPCs",
}
SHOWN_FIELDS = 4
LAST_CHANGES = 10

cursors = current(Cursors)
objects = current(Objects)


def label(type_: str) -> str:
    return LABELS.get(type_, f"{type_.capitalize()}s")


@blp.get("/catalogue")
@required()
def show_catalogue() -> Response:
    return type_page("item")


@blp.get("/catalogue/<type_name>")
@required()
def show_type(type_name: str) -> Response:
    return type_page(parse_type(type_name))


@blp.get("/catalogue/<type_name>/<object_id>")
@required()
def show_object(type_name: str, object_id: str) -> Response:
    return object_page(parse_type(type_name), path_guid("id", object_id))


@blp.post("/catalogue/servervariable/<object_id>/value")
@required()
def set_global_variable(object_id: str) -> Response:
    form = Form.posted("value")
    id_ = path_guid("id", object_id)

    def act() -> Applied:
        args = form.load(SetVariableArgs())
        entries = history_page({}, PAGE_SIZE, ("object",), id_).values
        require_unchanged(form, entries, guard.caller().id)
        key = ObjectKey(server_variables.TYPE, id_)
        return execute(SET_GLOBAL_VARIABLE, objects, key, {"variable_id": id_, **args})

    outcome = attempt(form, act)
    if isinstance(outcome, Applied):
        return done(outcome, path_to("catalogue", server_variables.TYPE, id_))
    return object_page(server_variables.TYPE, id_, form)


def type_page(type_: str) -> Response:
    search = plain(request.args.get("search", ""))
    text = name_key(search) if len(name_key(search)) >= SEARCH_LENGTH else None
    after = cursors.read(request.args.get("after", ""))
    found = objects.walk(type_, Window(0, PAGE_SIZE, PAGE_SIZE, after), text)
    ordered = (*ORDER, *(other for other in TYPES if other not in ORDER))
    return render(
        "catalogue/list.html",
        page="catalogue",
        type=type_,
        types=[(other, label(other)) for other in ordered],
        title=label(type_),
        objects=[shown(record) for record in found.values],
        search=search,
        next=cursors.write(found.next),
    )


def object_page(type_: str, id_: str, form: Form | None = None) -> Response:
    record = {"Name": "", **objects.get(type_, id_)}
    is_variable = type_ == server_variables.TYPE
    base = request.host_url.rstrip("/")
    path = api_path("variables", "global", id_)
    return render(
        "catalogue/object.html",
        form_status(form),
        page="catalogue",
        type=type_,
        title=label(type_),
        record=record,
        facts=facts(record),
        value=server_variables.value_of(record) if is_variable else None,
        is_variable=is_variable,
        form=form,
        **changes_part("object", id_, LAST_CHANGES, form),
        curl=curl(base, "POST", path, {"value": "VALUE"}, "A-NEW-KEY"),
    )


def shown(record: Document) -> Document:
    """Return an object as the list shows it: with a few facts, and an item with its icon."""
    symbol = item_icon(str(record.get("Name"))) if record["Type"] == "item" else ""
    named = {"Id": record["Id"], "Name": record.get("Name")}
    return {**named, "Symbol": symbol, "Facts": facts(record)[:SHOWN_FIELDS]}


def facts(record: Document) -> list[tuple[str, Any]]:
    """Return the fields of an object beyond its id, its type and its name."""
    return [(k, v) for k, v in record.items() if k not in ("Id", "Type", "Name")]
