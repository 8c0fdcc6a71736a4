"""The pages of players: the list, and of each one items, spells, variables, history and notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, current_app, request

from app.auth import guard
from app.auth.roles import Role
from app.console.forms.declared import Target
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.cards import player_card, user_card
from app.console.frame.deleted_pages import deleted_player_page
from app.console.frame.lists import former_cards, list_window, page_number, with_penalties
from app.console.frame.pages import PAGE_SIZE, blp, path_to, render, required
from app.console.game.action_cards import actions_part
from app.console.history import sentences
from app.console.history.tables import changes_part
from app.console.home.recently_viewed import remember
from app.console.players import slots
from app.console.players.forms import FORMS
from app.errors import NotFound, QuartermasterError
from app.http.context import current
from app.http.cursors import Cursors
from app.http.path_converters import path_guid
from app.items.domain import served
from app.items.store import Bags
from app.naming import Lookup
from app.notes import domain as notes
from app.objects.store import Objects
from app.paging import Window
from app.players.store import Players
from app.spells import domain as spells
from app.types import Document
from app.users.store import Users
from app.variables import domain as variables

SORTS = {
    "name": ("name", True),
    "level": ("level", False),
    "seen": ("lastonline", False),
}
LAST_CHANGES = 6
# Of a bag; a page with thousands of slots is of no use.
MOST_SLOTS = 200

bags = current(Bags)
cursors = current(Cursors)
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


def player_page(tab: str, sent: Submission | None, key: Lookup) -> Response:
    try:
        (player,) = with_penalties([player_card(players.get(key))], "UserId")
    except NotFound as error:
        return deleted_player_page(key, tab, sent, error)
    id_ = player["Id"]
    size, after = LAST_CHANGES, ""
    if tab == "history":
        size, after = PAGE_SIZE, request.args.get("after", "")
    changes = changes_part("player", id_, size, sent, after)
    content = CONTENTS[tab](Lookup.parse(id_), sent) if tab in CONTENTS else {}
    values = {"itemid": content.get("chosen", "")}
    history = changes["seen"], changes["newer"]
    target = Target(path_to("players", id_), id_, player["Name"], player, *history, values)
    response = render(
        f"players/{tab}.html",
        sent=sent,
        page="players",
        tab=tab,
        tabs=FORMS,
        player=player,
        owner=owner_of(player),
        forms=forms_on(FORMS[tab], target, sent),
        **changes,
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


def items_content(key: Lookup, sent: Submission | None) -> dict[str, Any]:
    held = players.read(key, "Inventory", "Bank")
    sizes = current_app.config
    inventory = served(held["Inventory"], sizes["INVENTORY_SIZE"])
    bank = served(held["Bank"], sizes["BANK_SIZE"])
    bag = opened_bag()
    contents = bag["Slots"] if bag else []
    chosen = request.args.get("item", "")
    given = sent.args.get("itemid") if sent else None
    ids = slots.item_ids([*inventory, *bank, *contents])
    names = objects.names_of([*ids, *filter(None, [chosen, given])])
    preview = sent.preview if sent else None
    return {
        "inventory": slots.grid(inventory, names, slots.changes_of(preview, "Inventory")),
        "bank": slots.grid(bank, names, slots.changes_of(preview, "Bank")).without_empty(),
        "bag": bag and {**bag, "Grid": slots.grid(contents, names).within(MOST_SLOTS)},
        "chosen": names.get(chosen, chosen),
        **actions_part(str(key)),
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


def spells_content(key: Lookup, _: Any) -> dict[str, Any]:
    known = spells.served(players.read(key, "Spells")["Spells"])
    names = objects.names_of([spell["SpellId"] for spell in known])
    return {
        "spells": [
            {**spell, "Name": sentences.name_of(spell["SpellId"], names)} for spell in known
        ],
        "size": current_app.config["SPELLS_SIZE"],
    }


def variables_content(key: Lookup, _: Any) -> dict[str, Any]:
    kept = variables.served(players.read(key, "Variables")["Variables"])
    names = objects.names_of([variable["VariableId"] for variable in kept])
    named = [
        {**variable, "Name": sentences.name_of(variable["VariableId"], names)} for variable in kept
    ]
    return {"variables": sorted(named, key=lambda variable: variable["Name"].casefold())}


def notes_content(key: Lookup, _: Any) -> dict[str, Any]:
    return {"notes": notes.served(players.read(key, "Notes")["Notes"])}


def find_player(key: Lookup) -> Found:
    card = player_card(players.get(key))
    return Found(card["Id"], card["Name"])


CONTENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "items": items_content,
    "spells": spells_content,
    "variables": variables_content,
    "notes": notes_content,
}

register(
    Place(
        "/players/<player:key>",
        ("players",),
        FORMS,
        player_page,
        find_player,
        "player",
        players,
    )
)
