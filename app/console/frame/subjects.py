"""Players and users: their cards on lists, the tabs of their pages, and pages of those gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flask import Response

from app.auth import guard
from app.console.forms.declared import Field, Form, Target
from app.console.forms.submissions import forms_on, query_text
from app.console.frame.lists import Listed, search_text, window_of
from app.console.frame.pages import PAGE_SIZE, path_to, render
from app.console.history.tables import changes_of, timeline
from app.console.session.sessions import cookie, set_cookie
from app.core.errors import NotFound
from app.core.naming import SEARCH_LENGTH, Lookup
from app.core.paging import Page
from app.core.penalties import BAN, MUTE
from app.core.permissions import Permission, all_role_names
from app.core.texts import count_text
from app.core.types import Document
from app.history.access import sees_users
from app.http.cursors import cursors
from app.players.store import players
from app.storage.schema.explain_validator import readable
from app.storage.schema.shapes import INTEGER, MOMENT_OR_NULL, TEXT, object_shape
from app.users.moderation import penalties_in_force
from app.users.notes import visible_notes
from app.users.store import users

# The most players and users with a former name, and deleted players, that a search lists.
MOST_FORMER = 10
LAST_CHANGES = 6
RECENT_COOKIE = "quartermaster-recent"
# What pages show of every player.
CARD = object_shape(
    {
        **dict.fromkeys(("Name", "ClassName", "MapName", "UserId"), TEXT),
        **dict.fromkeys(("Level", "X", "Y", "PlayTimeSeconds"), INTEGER),
        **dict.fromkeys(("LastOnline", "CreationDate"), MOMENT_OR_NULL),
    }
)


def player_card(record: Document) -> Document:
    """Return the card of a player, of which a game may have stored anything."""
    card = readable(CARD, record)
    name = card["Name"] or str(card["Id"])
    return {**card, "Name": name, "Online": bool(card.get("Online"))}


def user_card(user: Document) -> Document:
    """Return the card of an account, of which the store has repaired what a game damaged."""
    id_ = user["_id"]
    names = {"Name": user["Name"] or str(id_), "RoleNames": all_role_names(user)}
    return {**user, **names, "Id": id_, "UserId": id_}


class Kind(NamedTuple):
    """Players or users, as lists, searches and their own pages show them."""

    # The kind of documents in history.
    name: str
    store: Any
    card: Callable[[Document], Document]
    # The orders that a page offers: fields, with a minus if they descend, and their labels.
    orders: Mapping[str, str]

    @property
    def filters(self) -> tuple[Field, ...]:
        order = Field("sort", "Order", type="select", value="name", options=lambda: self.orders)
        return (Field("search", "Name"), order)

    def cards(self, records: Iterable[Document]) -> list[Document]:
        """Return cards with penalties, notes, and words for what to notice.

        Penalties are shown only to callers who may see the account. A record has the former name by
        which a search found it, and the time of its deletion, if any.
        """
        unknown = {"FormerName": None, "DeletedAt": None}
        shown = [{**unknown, **self.card(record)} for record in records]
        ids = [card["UserId"] for card in shown] if sees_users() else []
        accounts = users.get_many(ids, "Name", *BAN, *MUTE)
        noted = self.store.get_many([card["Id"] for card in shown], "Notes")
        for card in shown:
            account = accounts.get(card["UserId"])
            card |= {"Account": account, **penalties_in_force(account or {}, users.now())}
            card["Notes"] = visible_notes(noted.get(card["Id"], {}).get("Notes"))
            words = {"deleted": "DeletedAt", "banned": BAN.flag, "muted": MUTE.flag}
            card["Marks"] = [(word, "bad") for word, field in words.items() if card[field]]
            if count := len(card["Notes"]):
                card["Marks"].append((count_text(count, "note"), ""))
        return shown

    def find(self, wanted: Document, size: int) -> Page:
        window, order = window_of(wanted, size), wanted["sort"]
        ascends, field = not order.startswith("-"), order.removeprefix("-")
        found: Page = self.store.list(window, search_text(wanted), field, ascends)
        return found._replace(values=self.cards(found.values))

    def former(self, search: str, listed: list[Document]) -> list[Document]:
        """Return cards of those whose former name begins with a text, if not already listed."""
        names = {shown["Name"] for shown in listed}
        found = self.store.find_by_former_name(search, MOST_FORMER)
        cards = self.cards({**record, "FormerName": name} for record, name in found)
        return [card for card in cards if card["Name"] not in names]

    def about(self, found: Listed) -> Document:
        """Return what the page of a list shows beside it: those with other names."""
        search, former, deleted = search_text(found.wanted), [], []
        if search and not query_text("after"):
            former = self.former(search, found.values)
            deleted = deleted_cards(search) if self is PLAYERS else []
        return {"former": former, "deleted": deleted}

    def target(self, key: Lookup, **_: Any) -> Target:
        card = self.card(self.store.get(key))
        return Target("", card["Id"], card["Name"])

    def tab(self, tab: str, card: Document, declared: Sequence[Form], shown: Document) -> Response:
        """Return a tab of the page of one of them, and note in a cookie that it was viewed.

        Its forms are declared, or among what it shows; so are the initial values of fields.
        """
        part, id_ = f"{self.name}s", card["Id"]
        if tab == "history":
            page = timeline(self.name, id_, PAGE_SIZE, query_text("after"))
            changes: Document = {"timeline": page.values}
            changes["next"] = cursors.write(page.next)
        else:
            changes = changes_of(self.name, id_, LAST_CHANGES)
        record, entries = {**card, **shown}, changes.get("entries")
        target = Target(path_to(part, id_), id_, card["Name"], record, entries, shown)
        context: Document = {
            "tab": tab,
            "id": id_,
            self.name: card,
            "notes": card["Notes"],
            "forms": forms_on(declared, target),
            "card_titles": [*dict.fromkeys(form.card_title for form in declared)],
        }
        # These tabs are alike for players and users.
        folder = "frame" if tab in ("history", "notes") else part
        template = f"{folder}/{tab.replace('-', '_')}.html"
        response = render(template, **{**context, **changes, **shown})
        paths = [*dict.fromkeys([f"{part}/{id_}", *visited()])]
        # Bound to the account, because several people may share a browser.
        value = ".".join([guard.caller().id, *paths[:8]])
        set_cookie(response, RECENT_COOKIE, value, samesite="Strict", max_age=30 * 24 * 3600)
        return response

    def gone(
        self, id_: str | None, error: NotFound, describe: Callable[..., Document | None]
    ) -> Response:
        """Return the page of one that was deleted or erased; raise the error if there was none."""
        if id_ is None or not guard.caller().may(Permission.HISTORY_READ):
            raise error
        changes = changes_of(self.name, id_, PAGE_SIZE, query_text("after"))
        described = describe(id_, changes["entries"])
        if described is None:
            raise error
        # Nothing can be undone of somebody who no longer exists, but the deletion.
        for entry in changes["entries"]:
            entry["CanUndo"] = entry["CanUndo"] and entry is described.get("deletion")
        return render(f"{self.name}s/gone.html", id=id_, **described, **changes)


PLAYERS = Kind(
    "player",
    players,
    player_card,
    {"name": "By name", "-level": "Highest level first", "-lastonline": "Last seen first"},
)
USERS = Kind("user", users, user_card, {"name": "By name", "email": "By address"})


def deleted_cards(text: str) -> list[Document]:
    """Return cards of deleted players by id or the beginning of a name, for readers of history."""
    if len(text) < SEARCH_LENGTH or not guard.caller().may(Permission.HISTORY_READ):
        return []
    found = players.find_deleted(Lookup.parse(text), MOST_FORMER)
    return PLAYERS.cards(
        {**kept["Player"], "Id": kept["_id"], "DeletedAt": kept["DeletedAt"]} for kept in found
    )


def marks_text(record: Document) -> str:
    return ", ".join(word for word, _ in record["Marks"])


def visited() -> list[str]:
    owner, *paths = cookie(RECENT_COOKIE).split(".")
    return paths if owner == guard.caller().id else []


def recent() -> dict[str, str]:
    """Return the names of whom the caller has viewed, by path, without deleted ones."""
    paths = visited()
    names: dict[str, str] = {}
    kinds = [PLAYERS, USERS] if sees_users() else [PLAYERS]
    for kind in kinds:
        found = kind.store.get_many([path.partition("/")[2] for path in paths], "Name")
        names |= {f"{kind.name}s/{id_}": str(one.get("Name")) for id_, one in found.items()}
    return {path: names[path] for path in paths if path in names}
