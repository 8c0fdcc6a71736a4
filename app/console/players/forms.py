"""The forms on the pages of a player."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from app.changes import Applied
from app.console.forms.declared import AS_TYPED, BY_NAME, Field, Form, Group, Target
from app.console.forms.schemas import VariableForm
from app.console.forms.submissions import Submission
from app.console.game.action_forms import KICK, KILL, MESSAGE, WARP
from app.console.players.slots import preview_lines
from app.execution import execute
from app.http.context import current
from app.http.intents import keyed_intent
from app.items.operations import GIVE, TAKE
from app.naming import Lookup
from app.notes.operations import NOTE_ON_PLAYER
from app.operations import Operation
from app.players.deletion.store import Deletions
from app.players.operations import DELETE, RENAME
from app.players.store import Players
from app.spells.operations import FORGET, TEACH
from app.variables.operations import SET_VARIABLE

deletions = current(Deletions)
players = current(Players)

QUANTITY = Field("quantity", "Quantity", value=1)
VALUE = Field("value", "Value", "A whole number, or true or false.")


def rename_player(sent: Submission, key: Lookup) -> Applied:
    return execute(RENAME, players, key, {"Name": sent.args["Name"].strip()})


def about_deletion(target: Target) -> Iterable[str]:
    if target.record["Online"]:
        yield Markup(
            "<bdi>{}</bdi> is online, and is not deleted before leaving the game, which would "
            "store it again."
        ).format(target.name)


def item_form(operation: Operation, verb: str, *fields: Field | Group) -> Form:
    return Form(operation, f"{verb} an item", verb, fields, preview=preview_lines)


def note_form(operation: Operation) -> Form:
    hint = "For colleagues: players do not see it."
    text = Field("Text", "Note", hint, type="area", html={"rows": 4})
    return Form(operation, "Write a note", "Write", (text,), path="notes", asks_reason=False)


FORMS = {
    "items": (
        item_form(
            GIVE,
            "Give",
            Field("itemid", "Item", BY_NAME),
            Group("two", (QUANTITY, Field("bankoverflow", "the rest to the bank"))),
        ),
        item_form(
            TAKE,
            "Take",
            Field("itemid", "Item", "Click on a slot to choose what lies there."),
            QUANTITY,
        ),
        *(MESSAGE, WARP, KICK, KILL),
        Form(
            RENAME,
            "Rename…",
            "Rename",
            (Field("Name", "New name", noun="The name", html=AS_TYPED),),
            act=rename_player,
            replaces="Name",
        ),
        Form(
            DELETE,
            "Delete…",
            "Delete {name}",
            name="delete",
            act=lambda _, key: deletions.delete(key, keyed_intent(DELETE, {})),
            about=about_deletion,
            confirm="With all that it owns and knows. Undo brings it back, for as long as history "
            "is kept.",
            next_tab="history",
        ),
    ),
    "spells": (
        Form(TEACH, "Teach a spell", "Teach", (Field("spellid", "Spell", BY_NAME),)),
        Form(FORGET, "Forget a spell", "Forget", (Field("spellid", "Spell"),)),
    ),
    "variables": (
        Form(
            SET_VARIABLE,
            "Set a variable",
            "Set",
            (Field("variable", "Variable", BY_NAME), VALUE),
            path="variables",
            schema=VariableForm(),
            replaces="Variables.{variable_id}",
        ),
    ),
    "history": (),
    "notes": (note_form(NOTE_ON_PLAYER),),
}
