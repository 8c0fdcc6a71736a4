"""What the game was asked, as pages of players, users and the chat show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flask import request

from app.console.forms.curl import api_path, as_number, curl
from app.console.forms.forms import Form
from app.console.game.action_sentences import card, map_ids
from app.errors import QuartermasterError
from app.game.actions.access import visible_action
from app.game.actions.domain import served
from app.game.actions.store import ActionFilters, Actions
from app.http.context import current
from app.objects.store import Objects
from app.types import Document

# How a path says that the form before it has asked the game for something.
MARK = "action:"
LAST_ACTIONS = 5

actions = current(Actions)
objects = current(Objects)


def cards(found: Iterable[Document]) -> list[Document]:
    """Return actions as pages show them, with the names of maps."""
    now = actions.now()
    records = [served(action, now) for action in found]
    ids = map_ids(records)
    names = objects.names_of(ids) if ids else {}
    return [card(record, names, now) for record in records]


def find_marked(mark: str) -> Document | None:
    """Return the action that a path tells of, if the caller may see it."""
    try:
        (action,) = cards([visible_action(mark.removeprefix(MARK))])
    except QuartermasterError:
        return None
    return action


def actions_part(kind: str, id_: str, form: Form | None) -> dict[str, Any]:
    """Return what the page of a player or a user shows of the game."""
    last = actions.list(ActionFilters(id_), LAST_ACTIONS, b"").values
    return {
        "asked": cards(last),
        "game_looks": actions.is_game_looking(),
        "action_curls": action_curls(kind, id_, form),
    }


def action_curls(kind: str, id_: str, form: Form | None) -> dict[str, str]:
    """Return the curl lines of the forms on the page of a player or a user."""
    path = (f"{kind}s", id_, "admin")
    to, body = warp_body(posted(form, "warp"))
    lines = {
        "kick": action_curl(posted(form, "kick"), None, *path, "kick"),
        "kill": action_curl(posted(form, "kill"), None, *path, "kill"),
        "warp": action_curl(posted(form, "warp"), body, *path, to),
    }
    message = posted(form, "message")
    # What nobody has typed must do nothing.
    said = {"Message": message.value("Message") if message else ""}
    return {**lines, "message": action_curl(message, said, "chat", "direct", id_)}


def posted(form: Form | None, name: str) -> Form | None:
    return form if form and form.name == name else None


def warp_body(form: Form | None) -> tuple[str, dict[str, Any]]:
    """Return the last part of the path and the body that ask for a warp."""
    if form is None:
        return "warpto", {"mapid": "MAP-ID"}
    body = {"mapid": form.args.get("mapid") or form.value("mapid") or "MAP-ID"}
    place = {axis: as_number(form.value(axis)) for axis in ("x", "y") if form.value(axis)}
    return ("warptoloc" if place else "warpto"), {**body, **place}


def action_curl(form: Form | None, body: Mapping[str, Any] | None, *path: str) -> str:
    base = request.host_url.rstrip("/")
    key = form.key if form else "A-NEW-KEY"
    reason = form.value("reason") if form else ""
    return curl(base, "POST", api_path(*path), body, key, reason)
