"""The forms that give a player another name, or delete it."""

from __future__ import annotations

from flask import Response

from app.auth import guard
from app.changes import Applied
from app.console.forms.forms import Form, attempt, require_unchanged
from app.console.frame.cards import player_card
from app.console.frame.deleted_pages import paths_of
from app.console.frame.pages import PAGE_SIZE, blp, done, path_to, required
from app.console.players.views import carried_out, player_page
from app.errors import Invalid, NotFound
from app.execution import execute
from app.history.access import page as history_page
from app.http.context import current
from app.http.intents import keyed_intent
from app.naming import Lookup, name_key
from app.players.deletion.store import Deletions
from app.players.operations import DELETE, RENAME
from app.players.schemas import RenameArgs
from app.players.store import Players
from app.types import Document

deletions = current(Deletions)
players = current(Players)


@blp.post("/players/<player:key>/rename")
@required()
def rename_player(key: Lookup) -> Response:
    form = Form.posted("rename")

    def act() -> Applied:
        name = form.load(RenameArgs())["Name"].strip()
        require_unchanged(form, changes_of(key, "Name"), guard.caller().id)
        return execute(RENAME, players, key, {"Name": name})

    return carried_out(key, "items", form, act)


@blp.post("/players/<player:key>/delete")
@required()
def delete_player(key: Lookup) -> Response:
    form = Form.posted("delete")

    def act() -> Applied:
        require_confirmed(form, key)
        return deletions.delete(key, keyed_intent(DELETE, {}))

    deleted = attempt(form, act)
    if deleted is None:
        return player_page(key, "items", form)
    return done(deleted, path_to("players", deleted.answer["Id"], "history"))


def require_confirmed(form: Form, key: Lookup) -> None:
    """Refuse to delete a player unless somebody has typed which one."""
    try:
        name = player_card(players.get(key))["Name"]
    except NotFound:
        return  # This form may have deleted it: whoever sends it again is told so.
    if name_key(form.value("confirm").strip()) != name_key(name.strip()):
        fault = f"Type {name} here to delete this player."
        raise Invalid(fault, {"confirm": [fault]})


def changes_of(key: Lookup, field: str) -> list[Document]:
    """Return the last entries of a player that changed a field."""
    entries = history_page({}, PAGE_SIZE, ("player",), players.get_id(key)).values
    return [entry for entry in entries if field in paths_of(entry)]
