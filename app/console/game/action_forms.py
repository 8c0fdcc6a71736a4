"""The forms that ask the game to do something to a player, or to whoever plays with an account."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response

from app.console.forms.forms import Form, attempt
from app.console.frame.cards import player_card, user_card
from app.console.frame.pages import asked, blp, path_to, required
from app.console.players.views import player_page
from app.console.users.views import query, user_page
from app.errors import Invalid
from app.game.actions.asking import Answer, ask, player_subject, say, user_subject, warp
from app.game.actions.schemas import ChatArgs, WarpArgs, WarpToPlaceArgs
from app.http.context import current
from app.naming import Lookup, name_key
from app.players.store import Players
from app.types import Document
from app.users.store import Users

players = current(Players)
users = current(Users)


@blp.post("/players/<player:key>/<any(kick, kill):verb>")
@required()
def act_on_player(key: Lookup, verb: str) -> Response:
    return done_to_player(key, verb, lambda form: ask(verb, confirmed_player(form, key)))


@blp.post("/players/<player:key>/warp")
@required()
def warp_player(key: Lookup) -> Response:
    return done_to_player(key, "warp", lambda form: warped(form, confirmed_player(form, key)))


@blp.post("/players/<player:key>/message")
@required()
def message_player(key: Lookup) -> Response:
    return done_to_player(
        key, "message", lambda form: say(player_subject(key), form.load(ChatArgs()))
    )


@blp.post("/users/<lookup:key>/<any(kick, kill):verb>")
@query
def act_on_user(key: Lookup, verb: str) -> Response:
    return done_to_user(key, verb, lambda form: ask(verb, confirmed_user(form, key)))


@blp.post("/users/<lookup:key>/warp")
@query
def warp_user(key: Lookup) -> Response:
    return done_to_user(key, "warp", lambda form: warped(form, confirmed_user(form, key)))


def done_to_player(key: Lookup, name: str, act: Callable[[Form], Answer]) -> Response:
    form = Form.posted(name)
    answer = attempt(form, lambda: act(form))
    if answer is None:
        return player_page(key, "items", form)
    return asked(answer, path_to("players", answer.action["Subject"]["Id"]))


def done_to_user(key: Lookup, name: str, act: Callable[[Form], Answer]) -> Response:
    form = Form.posted(name)
    answer = attempt(form, lambda: act(form))
    if answer is None:
        return user_page(key, "account", form)
    return asked(answer, path_to("users", answer.action["Subject"]["Id"]))


def warped(form: Form, subject: Document) -> Answer:
    """Ask for a warp: to a place on a map where one was typed, otherwise to the map."""
    has_place = form.value("x") or form.value("y")
    schema = WarpToPlaceArgs() if has_place else WarpArgs()
    form.args = form.load(schema, mapid="map")
    return warp(subject, form.args)


def confirmed_player(form: Form, key: Lookup) -> Document:
    require_typed(form, player_card(players.get(key))["Name"])
    return player_subject(key)


def confirmed_user(form: Form, key: Lookup) -> Document:
    require_typed(form, user_card(users.get(key, "Name"))["Name"])
    return user_subject(key)


def require_typed(form: Form, name: str) -> None:
    """Refuse an action, which cannot be undone, unless somebody has typed whom it is about."""
    if name_key(form.value("confirm").strip()) != name_key(name.strip()):
        fault = f"Type {name} here: this cannot be undone."
        raise Invalid(fault, {"confirm": [fault]})
