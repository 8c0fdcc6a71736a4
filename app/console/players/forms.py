"""The forms on the pages of a player."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from app.console.forms.declared import AS_TYPED, BY_NAME, Field, Form, Group, Target
from app.console.forms.limits import about_items
from app.console.game.views import MESSAGE, SEND_LETTER, action_forms
from app.console.players.slots import preview_lines
from app.core.operations import Operation
from app.game.actions.asking import player_subject
from app.game.player_events.access import restore_item
from app.players.items.operations import GIVE, GIVE_BACK, TAKE
from app.players.operations import DELETE, RENAME
from app.players.spells.operations import FORGET, TEACH
from app.players.variables.operations import SET_VARIABLE
from app.users.notes.operations import NOTE_ON_PLAYER

ITEM = Field("itemid", "Item", BY_NAME)
ITEM_HELD = Field("itemid", "Item", "Click a slot to choose its item.")
QUANTITY = Field("quantity", "Quantity", value=1)
OVERFLOW = Field("bankoverflow", "Put the rest into the bank")
SPELL = Field("spellid", "Spell", BY_NAME)
VARIABLE = Field("variableid", "Variable", BY_NAME)
EVENT = Field("event", "Event", type="hidden")
EVENT_ITEM = Field("item", "Item of the event", value=0, type="hidden")
VALUE = Field("value", "Value", "A whole number, true or false.")
NEW_NAME = Field("Name", "New name", html=AS_TYPED)


def about_deletion(target: Target) -> Iterable[str]:
    if target.record["Online"]:
        yield Markup(
            "<bdi>{}</bdi> is online and cannot be deleted until they leave the game: the game "
            "would save them again."
        ).format(target.name)


def note_form(operation: Operation) -> Form:
    hint = "For colleagues: players do not see it."
    text = Field("Text", "Note", hint, type="area", html={"rows": 4})
    return Form(operation, "Write a note", "Save", (text,), path="notes", asks_reason=False)


FORMS = {
    "items": (
        Form(
            GIVE,
            "Give an item",
            "Give",
            (ITEM, Group("two", (QUANTITY, OVERFLOW))),
            preview=preview_lines,
            about=about_items,
        ),
        Form(
            TAKE,
            "Take an item",
            "Take",
            (ITEM_HELD, QUANTITY),
            preview=preview_lines,
            about=about_items,
        ),
        *(MESSAGE, SEND_LETTER, *action_forms("players", player_subject)),
        Form(
            RENAME,
            "Rename…",
            "Rename",
            (NEW_NAME,),
            replaces="Name",
        ),
        Form(
            DELETE,
            "Delete…",
            "Delete {name}",
            name="delete",
            about=about_deletion,
            confirm=(
                "This deletes all items, spells and variables, too. You can undo it while the "
                "change is in history."
            ),
            next_tab="history",
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
            (EVENT, EVENT_ITEM, OVERFLOW),
            act=restore_item,
            is_offered=lambda _: False,
        ),
    ),
    "notes": (note_form(NOTE_ON_PLAYER),),
}
