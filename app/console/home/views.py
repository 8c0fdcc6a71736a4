"""The first page, and the search for players and users."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission, SignedIn
from app.console.forms.object_names import plain, suggestions
from app.console.frame.icons import item_icon
from app.console.frame.lists import (
    MOST_COUNTED,
    deleted_cards,
    former_cards,
    player_card,
    total_text,
    user_card,
    with_marks,
)
from app.console.frame.pages import blp, page, render, required
from app.console.game.actions import coming_restart, game_stopped
from app.console.health.views import day_plots
from app.console.history.tables import last_changes
from app.console.home.recently_viewed import recent
from app.console.stores import players, users
from app.errors import NotFound
from app.naming import NAME_LENGTH, SEARCH_LENGTH, Lookup, name_key
from app.objects.domain import parse_type
from app.paging import Page, Window
from app.players.store import Players
from app.types import Document
from app.users.store import Users

MOST_FOUND = 10
WINDOW = Window(0, MOST_FOUND, MOST_FOUND)
LAST_CHANGES = 8
ICONS_OF = {"spell": "spell", "playervariable": "quest", "map": "map"}


class Found(NamedTuple):
    """The players and users that a search found, and the totals."""

    players: list[Document]
    player_count: int
    users: list[Document]
    user_count: int
    # A hint about the searched text.
    hint: str = ""

    def total_text(self, kind: str) -> str:
        return total_text(self.player_count if kind == "players" else self.user_count, "searched")


@blp.get("")
@required(SignedIn.ANYBODY)
def home() -> Response:
    sees_players = guard.caller().may(Permission.PLAYERS_READ)
    return render(
        "home/home.html",
        page="home",
        game_stopped=game_stopped() if sees_players else None,
        restart=coming_restart() if sees_players else None,
        recent=recent() if sees_players else [],
        entries=last_changes(LAST_CHANGES),
        plots=day_plots() if sees_players else [],
    )


@blp.get("/search")
@required(Permission.PLAYERS_READ)
def search() -> Response:
    text = plain(request.args.get("q", ""))
    return render("home/search.html", page="home", found=find(text), text=text, recent=recent())


@blp.get("/suggest")
@required(Permission.PLAYERS_READ)
def suggest() -> Response:
    """Return the results of a search as the options of a list."""
    found = find(plain(request.args.get("q", "")))
    return page("home/suggest.html", found=found, objects={})


@blp.get("/suggest/player")
@required(Permission.PLAYERS_READ)
def suggest_players() -> Response:
    """Return the names of players that contain a text, as the options of a list."""
    text = plain(request.args.get("q", ""))
    cards: list[Document] = []
    if len(name_key(text)) >= SEARCH_LENGTH:
        cards = cards_of(search_names(players, text), Page(0, []), former_of=text).players
    named = {}
    for card in cards:
        former = f" (formerly {card['FormerName']})" if card["FormerName"] else ""
        named[card["Id"]] = (f"{card['Name']}{former}", "players", card["Name"])
    return page("home/suggest.html", found=None, objects=named)


@blp.get("/suggest/<type_name>")
@required(Permission.PLAYERS_READ)
def suggest_objects(type_name: str) -> Response:
    """Return catalogue objects whose name contains a text, as the options of a list."""
    type_ = parse_type(type_name)
    suggested = suggestions(type_, request.args.get("q", ""))
    icon = item_icon if type_ == "item" else lambda _: ICONS_OF.get(type_, "box")
    names = list(suggested.values())
    # A name that several objects share would be ambiguous.
    typed = {id_: name if names.count(name) == 1 else id_ for id_, name in suggested.items()}
    named = {id_: (name, icon(name), typed[id_]) for id_, name in suggested.items()}
    return page("home/suggest.html", found=None, objects=named)


def find(text: str) -> Found:
    """Return the players and users that match a text by id, name or email address."""
    if not text:
        return Found([], 0, [], 0, "Type a name, an id or an email address.")
    if len(text) > NAME_LENGTH:
        return Found([], 0, [], 0, f"A name has {NAME_LENGTH} characters at most.")
    sees_users = guard.caller().may(Permission.USERS_READ)
    key = Lookup.parse(text)
    if key.id or len(name_key(text)) < SEARCH_LENGTH:
        hint = "" if key.id else f"Type {SEARCH_LENGTH} letters or more to find parts of names."
        nobody = Page(0, [])
        found = cards_of(
            exact(players, key), exact(users, key) if sees_users else nobody, hint=hint
        )
        return with_deleted(found, text if key.id else "")
    named = search_names(players, text)
    if not sees_users:
        return with_deleted(cards_of(named, Page(0, []), former_of=text), text)
    if "@" in text:
        by_address = list(users.by_address(text, MOST_FOUND))
        return cards_of(named, Page(len(by_address), by_address))
    accounts = search_names(users, text)
    return with_deleted(cards_of(named, accounts, former_of=text), text)


def search_names(store: Players | Users, text: str) -> Page:
    return store.list(WINDOW, name_key(text), most=MOST_COUNTED)


def with_deleted(found: Found, text: str) -> Found:
    """Return results with the deleted players that match, after the others."""
    known = {card["Id"] for card in found.players}
    deleted = [card for card in deleted_cards(text) if card["Id"] not in known]
    listed = [*found.players, *with_marks(deleted, "UserId")]
    return found._replace(players=listed, player_count=found.player_count + len(deleted))


def cards_of(characters: Page, accounts: Page, hint: str = "", former_of: str = "") -> Found:
    """Return the cards of results; with former_of, also of those with such a former name."""
    text = name_key(former_of)
    shown_players = [player_card(player) for player in characters.values]
    shown_users = [user_card(user) for user in accounts.values]
    former_players = former_cards(players, player_card, shown_players, text)
    sees_users = guard.caller().may(Permission.USERS_READ)
    former_users = former_cards(users, user_card, shown_users, text) if sees_users else []
    return Found(
        with_marks([*shown_players, *former_players], "UserId"),
        characters.total + len(former_players),
        with_marks([*shown_users, *former_users], "_id"),
        accounts.total + len(former_users),
        hint,
    )


def exact(store: Players | Users, key: Lookup) -> Page:
    """Return a page with the exact match, or an empty one."""
    try:
        return Page(1, [store.get(key)])
    except NotFound:
        return Page(0, [])
