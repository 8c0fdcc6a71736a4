"""The pages of players: the list, and tabs for items, spells, variables, history and notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, current_app, request

from app.auth.permissions import Permission
from app.batches.domain import MOST_PLAYERS
from app.console.forms.declared import Target
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission
from app.console.frame.csv_files import columns, csv_list, marks_text
from app.console.frame.lists import (
    MOST_COUNTED,
    deleted_cards,
    former_cards,
    list_window,
    player_card,
    total_text,
    user_card,
    with_marks,
)
from app.console.frame.pages import PAGE_SIZE, blp, path_to, render, required
from app.console.frame.subjects import changes_on_tab, gone_page, offer_no_undo, subject_page
from app.console.game.actions import actions_part
from app.console.players import slots
from app.console.players.forms import FORMS
from app.console.stores import bags, cursors, objects, players
from app.errors import NotFound, QuartermasterError
from app.http.path_converters import path_guid
from app.items.domain import slot_records
from app.naming import Lookup
from app.notes import domain as notes
from app.paging import Window
from app.players.domain import DELETED_AT
from app.spells import domain as spells
from app.texts import name_of
from app.types import Document, decimal
from app.variables import domain as variables

SORTS = {
    "name": ("name", True),
    "level": ("level", False),
    "seen": ("lastonline", False),
}
LABELS = {"name": "By name", "level": "Highest level first", "seen": "Last seen first"}
# The most slots of a bag on a page: a page with thousands of slots is useless.
MOST_SLOTS = 200
LONGEST_PAGE_NUMBER = 6


@blp.get("/players")
@required(Permission.PLAYERS_READ)
def list_players() -> Response:
    search, sort, window = list_window(SORTS)
    # The list offers a batch for all whom a search has found, so it counts as many as that takes.
    found = players.list(window, search, *SORTS[sort], most=MOST_PLAYERS)
    listed = [player_card(player) for player in found.values]
    former = [] if window.after else former_cards(players, player_card, listed, search)
    return render(
        "players/list.html",
        page="players",
        players=with_marks(listed, "UserId"),
        former=with_marks(former, "UserId"),
        deleted=with_marks([] if window.after else deleted_cards(search or ""), "UserId"),
        total=found.total,
        total_text=total_text(found.total, search, MOST_PLAYERS),
        search=request.args.get("search", ""),
        sorts=LABELS,
        sort=sort,
        next=cursors.write(found.next),
    )


@blp.get("/players/online")
@required(Permission.PLAYERS_READ)
def list_online_players() -> Response:
    """List the players who are online, by page numbers: this list has no cursor."""
    text = request.args.get("page", "")
    page = (decimal(text) if len(text) <= LONGEST_PAGE_NUMBER else None) or 0
    found = players.list_online(Window(page, PAGE_SIZE, PAGE_SIZE))
    return render(
        "players/online.html",
        page="players",
        players=with_marks(map(player_card, found.values), "UserId"),
        total=found.total,
        next=page + 1 if (page + 1) * PAGE_SIZE < found.total else None,
    )


def read_players(after: str, size: int) -> tuple[list[Document], str | None]:
    search, sort, window = list_window(SORTS, after, size)
    found = players.list(window, search, *SORTS[sort], most=MOST_COUNTED)
    return with_marks(map(player_card, found.values), "UserId"), cursors.write(found.next)


def read_online_players(after: str, size: int) -> tuple[list[Document], str | None]:
    """Return players by page numbers; those who come and go meanwhile may be missing."""
    page = int(after or 0)
    found = players.list_online(Window(page, size, size))
    following = str(page + 1) if (page + 1) * size < found.total else None
    return with_marks(map(player_card, found.values), "UserId"), following


COLUMNS = columns(
    "Name Id Level ClassName MapName Online LastOnline CreationDate", Marks=marks_text
)
csv_list("/players", (Permission.PLAYERS_READ,), read_players, COLUMNS)
csv_list("/players/online", (Permission.PLAYERS_READ,), read_online_players, COLUMNS)


def player_page(tab: str, sent: Submission | None, key: Lookup) -> Response:
    try:
        record, maps = players.get_with_maps(key, *MAPS.get(tab, ()))
    except NotFound as error:
        id_ = key.id or players.get_id_ever(key)
        return gone_page("player", id_, tab, sent, error, describe_deleted)
    (player,) = with_marks([player_card(record)], "UserId")
    id_, account = player["Id"], player["Account"]
    changes = changes_on_tab("player", id_, tab)
    owner = user_card(account) if account else None
    shown = {"player": player, "owner": owner, "tabs": FORMS, **changes}
    content = CONTENTS[tab](maps, id_, sent) if tab in CONTENTS else {}
    values = {"itemid": content.get("chosen", "")}
    entries = changes["entries"]
    target = Target(path_to("players", id_), id_, player["Name"], player, entries, values)
    return subject_page(tab, sent, target, FORMS[tab], page="players", **shown, **content)


def describe_deleted(_: str, entries: list[Document]) -> Document | None:
    """Return the last name of a deleted player, and the deletion, which can be undone."""
    if not entries:
        return None
    name = entries[0]["Subject"]["Name"]
    deletions = [e for e in entries if any(c["Path"] == DELETED_AT for c in e["Changes"])]
    deletion = next(iter(deletions), None)
    offer_no_undo(entries, but=deletion if name is not None else None)
    return {"name": name, "deletion": deletion}


def items_content(held: Document, id_: str, sent: Submission | None) -> dict[str, Any]:
    sizes = current_app.config
    inventory = slot_records(held["Inventory"], sizes["INVENTORY_SIZE"])
    bank = slot_records(held["Bank"], sizes["BANK_SIZE"])
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
        **actions_part(id_),
    }


def opened_bag() -> Document | None:
    """Return the bag in the query, with a fault if it does not exist."""
    bag_id = request.args.get("bag", "")
    if not bag_id:
        return None
    try:
        return {**bags.get(path_guid("bag", bag_id)), "Fault": ""}
    except QuartermasterError as error:
        return {"Id": bag_id, "SlotCount": 0, "Slots": [], "Fault": str(error)}


def named(records: list[Document], id_field: str) -> list[Document]:
    """Return spells or variables with their names."""
    names = objects.names_of([record[id_field] for record in records])
    return [{**record, "Name": name_of(record[id_field], names)} for record in records]


def spells_content(held: Document, *_: Any) -> dict[str, Any]:
    known = spells.known_spells(held["Spells"])
    return {"spells": named(known, "SpellId"), "size": current_app.config["SPELLS_SIZE"]}


def variables_content(held: Document, *_: Any) -> dict[str, Any]:
    kept = named(variables.variable_records(held["Variables"]), "VariableId")
    return {"variables": sorted(kept, key=lambda variable: variable["Name"].casefold())}


def notes_content(held: Document, *_: Any) -> dict[str, Any]:
    return {"notes": notes.visible_notes(held["Notes"])}


def find_player(key: Lookup) -> Found:
    card = player_card(players.get(key))
    return Found(card["Id"], card["Name"])


# The maps of a player that a tab shows.
MAPS = {
    "items": ("Inventory", "Bank"),
    "spells": ("Spells",),
    "variables": ("Variables",),
    "notes": ("Notes",),
}
CONTENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "items": items_content,
    "spells": spells_content,
    "variables": variables_content,
    "notes": notes_content,
}

PATH = "/players/<player:key>"
register(
    Place(
        PATH,
        ("players",),
        FORMS,
        player_page,
        find_player,
        "player",
        needs=(Permission.PLAYERS_READ,),
        tab_needs={"history": (Permission.HISTORY_READ,)},
    )
)
