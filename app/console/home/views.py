"""The first page, and the search for players and users."""

from __future__ import annotations

from flask import Response

from app.catalogue.domain import parse_type
from app.console.forms.submissions import query_text, suggestions
from app.console.frame.pages import blp, page, render, required
from app.console.frame.subjects import PLAYERS, USERS, Kind, deleted_cards, recent
from app.console.game.actions import coming_restart, game_stopped
from app.console.health.views import levels_plot, online_plot, samples_of_day
from app.console.history.tables import last_changes
from app.console.players.slots import item_icon
from app.core.errors import NotFound
from app.core.naming import SEARCH_LENGTH, Lookup, name_key
from app.core.paging import Page
from app.core.permissions import Permission, SignedIn
from app.core.types import Document
from app.history.access import sees_users
from app.users.store import users

MOST_FOUND = 10
ICONS_OF = {"spell": "spell", "playervariable": "quest", "map": "map"}


@blp.get("")
@required(SignedIn.ANYBODY)
def home() -> Response:
    taken = samples_of_day()
    return render(
        "home/home.html",
        game_stopped=game_stopped(),
        restart=coming_restart(),
        recent=recent(),
        entries=last_changes(),
        plots=[online_plot(taken), levels_plot(taken)],
    )


@blp.get("/search")
@required(Permission.PLAYERS_READ)
def search() -> Response:
    text = query_text("q")
    return render("home/search.html", found=find(text), text=text)


@blp.get("/suggest")
@required(Permission.PLAYERS_READ)
def suggest() -> Response:
    """Return the results of a search as the options of a list."""
    found = find(query_text("q"))
    return page("home/suggest.html", found=found, options=())


@blp.get("/suggest/<type_name>")
@required(Permission.PLAYERS_READ)
def suggest_names(type_name: str) -> Response:
    """Return players or catalogue objects whose name contains a text, as the options of a list."""
    text, options = query_text("q"), []
    if type_name == "player":
        for card in find_in(PLAYERS, text).values:
            former = f" (formerly {card['FormerName']})" if card["FormerName"] else ""
            options.append((f"{card['Name']}{former}", "players", card["Name"]))
    else:
        type_ = parse_type(type_name)
        suggested = suggestions(type_, text)
        names = list(suggested.values())
        for id_, name in suggested.items():
            icon = item_icon(name) if type_ == "item" else ICONS_OF.get(type_, "box")
            # A name that several objects share would be ambiguous.
            options.append((name, icon, name if names.count(name) == 1 else id_))
    return page("home/suggest.html", found=None, options=options)


def find(text: str) -> Document:
    """Return the players and users that match a text by id, name or email address, and a hint."""
    found, accounts, deleted = find_in(PLAYERS, text), Page(0, []), deleted_cards(text)
    if sees_users():
        by_address = USERS.cards(users.by_address(text, MOST_FOUND)) if "@" in text else []
        accounts = Page(len(by_address), by_address) if by_address else find_in(USERS, text)
    listed = Page(found.total + len(deleted), [*found.values, *deleted])
    hint, key = "", Lookup.parse(text)
    if key.name_key is not None and len(key.name_key) < SEARCH_LENGTH:
        hint = f"Type {SEARCH_LENGTH} letters or more to find parts of names."
    return {"players": listed, "users": accounts, "hint": hint}


def find_in(kind: Kind, text: str) -> Page:
    """Return those whose name contains a text, or did, or whose id or name a short text is."""
    key = Lookup.parse(text)
    if key.id or len(name_key(text)) < SEARCH_LENGTH:
        try:
            return Page(1, kind.cards([kind.store.get(key)]))
        except NotFound:
            return Page(0, [])
    found = kind.find({"search": text, "sort": "name"}, MOST_FOUND)
    former = kind.former(name_key(text), found.values)
    return Page(found.total + len(former), [*found.values, *former])
