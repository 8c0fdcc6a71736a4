"""The pages of players: the list, and tabs for items, spells, variables, history and notes."""

from __future__ import annotations

from functools import partial

from flask import Response, current_app

from app.console.forms.declared import AS_TYPED, BY_NAME, Field, Form, Group, about_items
from app.console.forms.places import Place
from app.console.forms.submissions import query_text, submitted
from app.console.frame.lists import ListPage, columns, window_of
from app.console.frame.subjects import PLAYERS, marks_text
from app.console.game.actions import actions_part
from app.console.game.views import MESSAGE, SEND_LETTER, action_forms
from app.console.history.tables import names_in
from app.console.players import slots
from app.console.players.slots import preview_lines
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.operations import Operation
from app.core.permissions import Permission
from app.core.texts import name_of
from app.core.types import Document
from app.game.actions.asking import find_player
from app.game.player_events.access import restore_item
from app.http.path_converters import path_guid
from app.players import spells
from app.players.character import DELETE, RENAME
from app.players.domain import DELETED_AT, FIELDS, with_maps
from app.players.items.domain import slot_records
from app.players.items.operations import GIVE, GIVE_BACK, TAKE
from app.players.items.store import bags
from app.players.spells import FORGET, TEACH
from app.players.store import players
from app.players.variables import domain as variables
from app.players.variables.operations import SET_VARIABLE
from app.users.notes import NOTE_ON_PLAYER

ITEM = Field("itemid", "Item", BY_NAME)
HELD_ITEM = Field("itemid", "Item", "Click a slot to choose its item.")
QUANTITY = Field("quantity", "Quantity", value=1)
# An event of the game, and the number of an item in it.
LOST = (
    Field("event", "Event", type="hidden"),
    Field("item", "Item of the event", value=0, type="hidden"),
)
OVERFLOW = Field("bankoverflow", "Put the rest into the bank")
NAME = Field("Name", "New name", html=AS_TYPED)
SPELL = Field("spellid", "Spell", BY_NAME)
VARIABLE = Field("variableid", "Variable", BY_NAME)
VALUE = Field("value", "Value", "A whole number, true or false.")


def note_form(operation: Operation) -> Form:
    hint = "For colleagues: players do not see it."
    text = Field("Text", "Note", hint, type="area", html={"rows": 4})
    return Form(operation, "Write a note", "Save", (text,), path="notes", asks_reason=False)


item_form = partial(Form, preview=preview_lines, about=about_items)
FORMS = {
    "items": (
        item_form(GIVE, "Give an item", "Give", (ITEM, Group("two", (QUANTITY, OVERFLOW)))),
        item_form(TAKE, "Take an item", "Take", (HELD_ITEM, QUANTITY)),
        MESSAGE,
        SEND_LETTER,
        *action_forms("players", find_player),
        Form(RENAME, "Rename…", "Rename", (NAME,), replaces="Name"),
        Form(
            DELETE,
            "Delete…",
            "Delete {name}",
            name="delete",
            about="Somebody who is online has to leave the game first: it would save them again.",
            confirm=(
                "This deletes all items, spells and variables, too. You can undo it while the "
                "change is in history."
            ),
        ),
    ),
    "spells": (
        Form(TEACH, "Teach a spell", "Teach", (SPELL,)),
        Form(FORGET, "Forget a spell", "Forget", (SPELL,)),
    ),
    "variables": (
        Form(
            SET_VARIABLE,
            "Set a variable",
            "Set",
            (VARIABLE, VALUE),
            path="variables",
            replaces="Variables.{variable_id}",
        ),
    ),
    "history": (
        # The rows of the table have its buttons; the form itself appears if it is refused.
        Form(
            GIVE_BACK,
            "Give back",
            "Give back",
            (*LOST, OVERFLOW),
            act=restore_item,
            is_offered=lambda _: False,
        ),
    ),
    "notes": (note_form(NOTE_ON_PLAYER),),
}
# The most slots of a bag on a page: a page with thousands of slots is useless.
MOST_SLOTS = 200
NEEDS = (Permission.PLAYERS_READ,)
COLUMNS = columns(
    "Name Id Level ClassName MapName Online LastOnline CreationDate", Marks=marks_text
)
ListPage(
    "/players", NEEDS, PLAYERS.find, COLUMNS, PLAYERS.filters, "players/list.html", PLAYERS.about
)
ListPage(
    "/players/online",
    NEEDS,
    lambda wanted, size: players.walk_online(window_of(wanted, size)),
    COLUMNS,
    template="players/online.html",
    cards=PLAYERS.cards,
)


def player_page(tab: str, key: Lookup) -> Response:
    try:
        record = with_maps(players.get(key, *MAPS.get(tab, ())))
    except NotFound as error:
        return PLAYERS.gone(key.id or players.get_id_ever(key), error, describe_deleted)
    (player,) = PLAYERS.cards([record])
    labels = {name: field.label for name, field in FIELDS.items() if field.label is not None}
    # Forms begin with these values, too.
    facts = {name: record[name] for name in labels if isinstance(record.get(name), str | int)}
    shown: Document = {"tabs": FORMS, "labels": labels, "facts": facts, **facts}
    if tab == "items":
        shown |= items_content(record, player["Id"])
    elif tab == "spells":
        known = spells.known_spells(record["Spells"])
        shown |= {"spells": named(known, "SpellId"), "size": current_app.config["SPELLS_SIZE"]}
    elif tab == "variables":
        kept = named(variables.variable_records(record["Variables"]), "VariableId")
        shown["variables"] = sorted(kept, key=lambda variable: variable["Name"].casefold())
    return PLAYERS.tab(tab, player, FORMS[tab], shown)


def describe_deleted(_: str, entries: list[Document]) -> Document | None:
    """Return the last name of a deleted player, and the deletion, which can be undone."""
    if not entries:
        return None
    name = entries[0]["Subject"]["Name"]
    deletions = (e for e in entries if any(c["Path"] == DELETED_AT for c in e["Changes"]))
    return {"name": name, "deletion": None if name is None else next(deletions, None)}


def items_content(held: Document, id_: str) -> Document:
    sizes, sent = current_app.config, submitted()
    inventory = slot_records(held["Inventory"], sizes["INVENTORY_SIZE"])
    bank = slot_records(held["Bank"], sizes["BANK_SIZE"])
    chosen, bag_id = query_text("item"), query_text("bag")
    contents = bags.get(path_guid("bag", bag_id))["Slots"] if bag_id else []
    preview = sent.preview if sent else None
    names = names_in(inventory, bank, contents, chosen, preview)
    return {
        "inventory": slots.grid(inventory, names, slots.changes_of(preview, "Inventory")),
        "bank": slots.grid(bank, names, slots.changes_of(preview, "Bank")).without_empty(),
        "bag": bag_id and slots.grid(contents, names).within(MOST_SLOTS),
        # Chosen by a click on its slot.
        "itemid": names.get(chosen, chosen),
        **actions_part(id_),
    }


def named(records: list[Document], id_field: str) -> list[Document]:
    """Return spells or variables with their names."""
    names = names_in(records)
    return [{**record, "Name": name_of(record[id_field], names)} for record in records]


# The maps of a player that a tab shows.
MAPS = {"items": ("Inventory", "Bank"), "spells": ("Spells",), "variables": ("Variables",)}
Place(
    "/players/<player:key>",
    FORMS,
    player_page,
    PLAYERS.target,
    needs=NEEDS,
    tab_needs={"history": (Permission.HISTORY_READ,)},
)
