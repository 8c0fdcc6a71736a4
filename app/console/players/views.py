"""The pages of players: the list, and of each one items, spells, variables, history and notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, current_app, request

from app.auth import guard
from app.auth.roles import Role
from app.changes import Applied
from app.console.forms.curl import api_path, curl
from app.console.forms.forms import (
    Form,
    attempt,
    form_status,
    require_unchanged,
)
from app.console.forms.schemas import VariableChoice
from app.console.frame.cards import player_card, user_card
from app.console.frame.deleted_pages import gone_player_page
from app.console.frame.lists import former_cards, list_window, page_number, with_penalties
from app.console.frame.pages import (
    PAGE_SIZE,
    blp,
    changes_part,
    done,
    path_to,
    render,
    required,
)
from app.console.game.action_cards import actions_part
from app.console.history import sentences
from app.console.home.recently_viewed import remember
from app.console.players import slots
from app.errors import NotFound, QuartermasterError
from app.execution import execute
from app.execution import preview as preview_change
from app.history.access import page as history_page
from app.http.context import current
from app.http.cursors import Cursors
from app.http.path_converters import path_guid
from app.items.domain import served
from app.items.operations import GIVE, TAKE
from app.items.store import Bags, Catalogue
from app.naming import Lookup
from app.notes import domain as notes
from app.notes.operations import NOTE_ON_PLAYER
from app.notes.schemas import NoteArgs
from app.objects.store import KnownObjects, Objects
from app.operations import Operation
from app.paging import Window
from app.players.store import Players
from app.spells import domain as spells
from app.spells.operations import FORGET, TEACH
from app.types import Document
from app.users.store import Users
from app.variables import domain as variables
from app.variables.operations import SET_VARIABLE
from app.variables.schemas import SetVariableArgs

SORTS = {
    "name": ("name", True),
    "level": ("level", False),
    "seen": ("lastonline", False),
}
TABS = ("items", "spells", "variables", "history", "notes")
LAST_CHANGES = 6
# Of a bag; a page with thousands of slots is of no use.
MOST_SLOTS = 200

bags = current(Bags)
catalogue = current(Catalogue)
cursors = current(Cursors)
known_objects = current(KnownObjects)
objects = current(Objects)
players = current(Players)
users = current(Users)


@blp.get("/players")
@required()
def list_players() -> Response:
    search, sort, window = list_window(SORTS)
    found = players.list(window, search, *SORTS[sort])
    listed = [player_card(player) for player in found.values]
    return render(
        "players/list.html",
        page="players",
        players=with_penalties(listed, "UserId"),
        former=former_cards(players, player_card, listed, search, window),
        total=found.total,
        search=request.args.get("search", ""),
        sort=sort,
        next=cursors.write(found.next),
    )


@blp.get("/players/online")
@required()
def list_online_players() -> Response:
    page = page_number()
    found = players.list_online(Window(page, PAGE_SIZE, PAGE_SIZE))
    return render(
        "players/online.html",
        page="players",
        players=with_penalties(map(player_card, found.values), "UserId"),
        total=found.total,
        next=page + 1 if (page + 1) * PAGE_SIZE < found.total else None,
    )


@blp.get("/players/<player:key>")
@required()
def show_player(key: Lookup) -> Response:
    return player_page(key, "items")


@blp.get("/players/<player:key>/<any(spells, variables, history, notes):tab>")
@required()
def show_player_tab(key: Lookup, tab: str) -> Response:
    return player_page(key, tab)


@blp.post("/players/<player:key>/give")
@required()
def give_item(key: Lookup) -> Response:
    return changed(key, "items", GIVE)


@blp.post("/players/<player:key>/take")
@required()
def take_item(key: Lookup) -> Response:
    return changed(key, "items", TAKE)


@blp.post("/players/<player:key>/teach")
@required()
def teach_spell(key: Lookup) -> Response:
    return changed(key, "spells", TEACH)


@blp.post("/players/<player:key>/forget")
@required()
def forget_spell(key: Lookup) -> Response:
    return changed(key, "spells", FORGET)


@blp.post("/players/<player:key>/variables")
@required()
def set_variable(key: Lookup) -> Response:
    form = Form.posted("set-variable")

    def act() -> Applied:
        variable = form.load(VariableChoice(), variable="playervariable")["variable"]
        meant = {"variable_id": variable, **form.load(SetVariableArgs())}
        filters = {"item": variable}
        entries = history_page(filters, PAGE_SIZE, ("player",), players.get_id(key)).values
        require_unchanged(form, entries, guard.caller().id)
        return execute(SET_VARIABLE, players, key, meant)

    return carried_out(key, "variables", form, act)


@blp.post("/players/<player:key>/notes")
@required()
def write_player_note(key: Lookup) -> Response:
    form = Form.posted("note")
    return carried_out(
        key, "notes", form, lambda: execute(NOTE_ON_PLAYER, players, key, form.load(NoteArgs()))
    )


def changed(key: Lookup, tab: str, operation: Operation) -> Response:
    """Carry out a change of a player, or show what it would do."""
    form = Form.posted(operation.name)

    def act() -> Any:
        form.args = form.load(operation.arguments, **operation.typed_objects)
        make = preview_change if form.is_preview else execute
        return make(operation, players, key, form.args)

    return carried_out(key, tab, form, act)


def carried_out(key: Lookup, tab: str, form: Form, act: Callable[[], Any]) -> Response:
    """Carry out a form, and lead to its page, or show that again with why it was refused."""
    outcome = attempt(form, act)
    if isinstance(outcome, Applied):
        id_ = outcome.entry["Subject"]["Id"] if outcome.entry else key
        return done(outcome, path_to("players", id_, *([tab] if tab != "items" else [])))
    return player_page(key, tab, form, outcome)


def player_page(
    key: Lookup, tab: str, form: Form | None = None, preview: Document | None = None
) -> Response:
    try:
        (player,) = with_penalties([player_card(players.get(key))], "UserId")
    except NotFound as error:
        return gone_player_page(key, tab, form, error)
    id_ = player["Id"]
    size, after = LAST_CHANGES, ""
    if tab == "history":
        size, after = PAGE_SIZE, request.args.get("after", "")
    content = CONTENTS[tab](Lookup.parse(id_), form, preview) if tab in CONTENTS else {}
    response = render(
        f"players/{tab}.html",
        form_status(form),
        page="players",
        tab=tab,
        tabs=TABS,
        player=player,
        owner=owner_of(player),
        form=form,
        **changes_part("player", id_, size, form, after),
        **content,
    )
    remember(response, "players", id_)
    return response


def owner_of(player: Document) -> Document | None:
    """Return the account that plays a player, to those who may see accounts."""
    user_id = player["UserId"]
    if Role.USERS_QUERY not in guard.caller().roles or not isinstance(user_id, str):
        return None
    owner = users.get_many([user_id], "Name").get(user_id)
    return user_card(owner) if owner else None


def items_content(key: Lookup, form: Form | None, preview: Document | None) -> dict[str, Any]:
    held = players.read(key, "Inventory", "Bank")
    sizes = current_app.config
    inventory = served(held["Inventory"], sizes["INVENTORY_SIZE"])
    bank = served(held["Bank"], sizes["BANK_SIZE"])
    bag = opened_bag()
    contents = bag["Slots"] if bag else []
    ids = slots.item_ids([*inventory, *bank, *contents])
    chosen = form.args.get("itemid") if form else request.args.get("item", "")
    names = objects.names_of([*ids, *filter(None, [chosen])])
    return {
        "inventory": slots.grid(inventory, names, slots.changes_of(preview, "Inventory")),
        "bank": slots.grid(bank, names, slots.changes_of(preview, "Bank")).without_empty(),
        "bag": bag and {**bag, "Grid": slots.grid(contents, names).within(MOST_SLOTS)},
        "preview": preview,
        "steps": slots.steps(preview) if preview else [],
        "chosen": names.get(chosen or "", chosen or ""),
        "curls": {
            **{name: item_curl(key, name, form) for name in ("give", "take")},
            "rename": rename_curl(key, form),
            "delete": delete_curl(key, form),
        },
        **actions_part("player", str(key), form),
    }


def opened_bag() -> Document | None:
    """Return the bag that the path names, with a fault if there is none."""
    bag_id = request.args.get("bag", "")
    if not bag_id:
        return None
    try:
        return {**bags.get(path_guid("bag", bag_id)), "Fault": ""}
    except QuartermasterError as error:
        return {"Id": bag_id, "SlotCount": 0, "Slots": [], "Fault": str(error)}


def item_curl(key: Lookup, name: str, form: Form | None) -> str:
    posted = form if form and form.name == name else None
    body: dict[str, Any] = {"itemid": "ITEM-ID", "quantity": 1}
    body |= posted.args if posted else {}
    return change_curl(posted, body, "players", str(key), "items", name)


def rename_curl(key: Lookup, form: Form | None) -> str:
    posted = form if form and form.name == "rename" else None
    body = {"Name": posted.value("Name") if posted else ""}
    return change_curl(posted, body, "players", str(key), "name")


def delete_curl(key: Lookup, form: Form | None) -> str:
    posted = form if form and form.name == "delete" else None
    return change_curl(posted, None, "players", str(key), method="DELETE")


def change_curl(
    form: Form | None, body: dict[str, Any] | None, *path: str, method: str = "POST"
) -> str:
    base = request.host_url.rstrip("/")
    key = form.key if form else "A-NEW-KEY"
    reason = form.value("reason") if form else ""
    return curl(base, method, api_path(*path), body, key, reason)


def spells_content(key: Lookup, form: Form | None, _: Any) -> dict[str, Any]:
    known = spells.served(players.read(key, "Spells")["Spells"])
    names = objects.names_of([spell["SpellId"] for spell in known])
    return {
        "spells": [
            {**spell, "Name": sentences.name_of(spell["SpellId"], names)} for spell in known
        ],
        "size": current_app.config["SPELLS_SIZE"],
        "curls": {name: spell_curl(key, name, form) for name in ("teach", "forget")},
    }


def spell_curl(key: Lookup, name: str, form: Form | None) -> str:
    posted = form if form and form.name == name else None
    body = {"spellid": "SPELL-ID", **(posted.args if posted else {})}
    return change_curl(posted, body, "players", str(key), "spells", name)


def variables_content(key: Lookup, form: Form | None, _: Any) -> dict[str, Any]:
    kept = variables.served(players.read(key, "Variables")["Variables"])
    names = objects.names_of([variable["VariableId"] for variable in kept])
    told = [
        {**variable, "Name": sentences.name_of(variable["VariableId"], names)} for variable in kept
    ]
    path = ("players", str(key), "variables", "VARIABLE-ID")
    return {
        "variables": sorted(told, key=lambda variable: variable["Name"].casefold()),
        "curl": change_curl(form, {"value": form.value("value") if form else "VALUE"}, *path),
    }


def notes_content(key: Lookup, form: Form | None, _: Any) -> dict[str, Any]:
    body = {"Text": form.value("Text") if form else "..."}
    return {
        "notes": notes.served(players.read(key, "Notes")["Notes"]),
        "curl": change_curl(form, body, "players", str(key), "notes"),
    }


CONTENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "items": items_content,
    "spells": spells_content,
    "variables": variables_content,
    "notes": notes_content,
}
