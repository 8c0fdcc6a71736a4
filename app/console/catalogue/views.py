"""The pages of the catalogue: the objects of each type, and one object with all its fields."""

from __future__ import annotations

from collections.abc import Iterable

from flask import Response

from app.auth.execution import execute
from app.catalogue.domain import TYPES, parse_type
from app.catalogue.store import ObjectKey, objects
from app.console.forms.declared import Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.submissions import forms_on
from app.console.frame.lists import Listed, ListPage, columns, search_text, window_of
from app.console.frame.pages import blp, path_to, render, required
from app.console.history.tables import changes_of
from app.console.players.slots import item_icon
from app.console.players.views import VALUE
from app.core.paging import Page
from app.core.permissions import Permission
from app.core.texts import whole_text
from app.core.types import Document
from app.players.variables.domain import GLOBAL, global_value
from app.players.variables.operations import SET_GLOBAL_VARIABLE

# The most requested types come first.
ORDER = ("item", "spell", "class", "map", "npc", "quest", "playervariable", "servervariable")
LABELS = {
    "playervariable": "Player variables",
    "servervariable": "Global variables",
    "uservariable": "User variables",
    "guildvariable": "Guild variables",
    "class": "Classes",
    "crafts": "Crafts",
    "crafttables": "Craft tables",
    "npc": "NPCs",
}
LAST_CHANGES = 10
NEEDS = (Permission.PLAYERS_READ,)


def label(type_: str) -> str:
    return LABELS.get(type_, f"{type_.capitalize()}s")


def find_objects(wanted: Document, size: int, type_name: str) -> Page:
    return objects.walk(parse_type(type_name), window_of(wanted, size), search_text(wanted))


def cards(records: Iterable[Document]) -> list[Document]:
    """Return objects with the fields beyond their ids, types and names."""
    shown = []
    for record in records:
        facts = [(k, v) for k, v in record.items() if k not in ("Id", "Type", "Name")]
        shown.append({"Name": "", **record, "Facts": facts})
    return shown


def about_type(_: Listed, type_name: str) -> Document:
    type_ = parse_type(type_name)
    types = [(other, label(other)) for other in dict.fromkeys((*ORDER, *TYPES))]
    return {"type": type_, "types": types, "title": label(type_), "item_icon": item_icon}


CATALOGUE = ListPage(
    "/catalogue/<type_name>",
    NEEDS,
    find_objects,
    columns(
        "Name Type Id",
        Fields=lambda record: "; ".join(f"{k}: {whole_text(v)}" for k, v in record["Facts"]),
    ),
    (Field("search", "Name"),),
    "catalogue/list.html",
    about_type,
    cards=cards,
)


@blp.get("/catalogue")
@required(*NEEDS)
def show_catalogue() -> Response:
    return CATALOGUE.show(type_name="item")


def object_page(object_id: str, type_name: str = GLOBAL) -> Response:
    type_ = parse_type(type_name)
    (record,) = cards([objects.get(type_, object_id)])
    changes = changes_of("object", object_id, LAST_CHANGES)
    is_variable = type_ == GLOBAL
    values = {"value": whole_text(global_value(record))} if is_variable else {}
    path = path_to("catalogue", type_, object_id)
    target = Target(path, object_id, entries=changes["entries"], values=values)
    return render(
        "catalogue/object.html",
        type=type_,
        title=label(type_),
        record=record,
        forms=forms_on([SET_VALUE] if is_variable else [], target),
        **changes,
    )


SET_VALUE = Form(
    SET_GLOBAL_VARIABLE,
    "Set the value",
    "Set",
    (VALUE,),
    name="value",
    act=lambda id_, args: execute(SET_GLOBAL_VARIABLE, ObjectKey(GLOBAL, id_), args),
    path_arguments={"variableid": "object_id"},
    replaces="",
)
Place("/catalogue/<type_name>/<object_id>", {"": []}, object_page, needs=NEEDS)
Place(
    f"/catalogue/{GLOBAL}/<object_id>",
    {"": [SET_VALUE]},
    object_page,
    lambda object_id: Target("", object_id),
    needs=NEEDS,
)
