"""Lists on pages: players and users as cards, with searches and filters in the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from flask import request

from app.auth import guard
from app.auth.permissions import Permission
from app.console.forms.declared import Field
from app.console.forms.object_names import plain
from app.console.frame.pages import PAGE_SIZE
from app.console.stores import cursors, players, users
from app.errors import QuartermasterError
from app.http.errors import status_of
from app.moderation.domain import penalties_in_force
from app.moderation.penalties import BAN, MUTE
from app.naming import SEARCH_LENGTH, Lookup, name_key
from app.notes.domain import visible_notes
from app.paging import Window
from app.players.store import Players
from app.types import Document, whole
from app.users.store import Users

# The most players and users with a former name, and deleted players, that a search lists.
MOST_FORMER = 10
# A search counts no further: nobody reads so many names.
MOST_COUNTED = 1000


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int:
    return whole(value) or 0


def moment_of(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None


# The fields of a player on pages. A game writes players, too: fields may be missing or wrong.
PLAYER_FIELDS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("Name", "ClassName", "MapName"), text_of),
    **dict.fromkeys(("Level", "X", "Y", "PlayTimeSeconds"), number_of),
    **dict.fromkeys(("LastOnline", "CreationDate"), moment_of),
    "Online": bool,
}


def player_card(record: Mapping[str, Any], former_name: str | None = None) -> Document:
    """Return the card of a player, with the former name by which a search found it, if any."""
    card = {name: read(record.get(name)) for name, read in PLAYER_FIELDS.items()}
    ids = {"Id": record["Id"], "UserId": text_of(record.get("UserId")), "FormerName": former_name}
    return {**card, **ids, "Name": card["Name"] or str(record["Id"]), "DeletedAt": None}


def user_card(user: Mapping[str, Any], former_name: str | None = None) -> Document:
    """Return the card of an account, with the fields that rules need."""
    power, reset = user.get("Power"), user.get("Reset")
    code = reset if isinstance(reset, dict) and isinstance(reset.get("Code"), str) else {}
    return {
        **user,
        "Name": text_of(user.get("Name")) or str(user["_id"]),
        "Email": text_of(user.get("Email")),
        "Power": power if isinstance(power, dict) else {},
        "Reset": code if isinstance(code.get("ExpiresAt"), datetime) else None,
        "CreationDate": moment_of(user.get("CreationDate")),
        "FormerName": former_name,
        "DeletedAt": None,
    }


def list_window(
    sorts: Mapping[str, Any], after: str | None = None, size: int = PAGE_SIZE
) -> tuple[str | None, str, Window]:
    """Return the search text, the order and the page in the query; after is another cursor.

    Ignores a text that is too short to search for, and an unknown order.
    """
    text = name_key(plain(request.args.get("search", "")))
    sort = request.args.get("sort", "")
    position = cursors.read(request.args.get("after", "") if after is None else after)
    order = sort if sort in sorts else next(iter(sorts))
    return (
        text if len(text) >= SEARCH_LENGTH else None,
        order,
        Window(0, size, size, position),
    )


def total_text(total: int, search: str | None, most: int = MOST_COUNTED) -> str:
    """Return a total for a page; a search counts only up to a bound."""
    return f"more than {most:,}" if search and total > most else f"{total:,}"


def former_cards(
    store: Players | Users,
    card: Callable[..., Document],
    listed: list[Document],
    search: str | None,
) -> list[Document]:
    """Return cards of those whose former name begins with a text, if not already listed."""
    if not search:
        return []
    names = {shown["Name"] for shown in listed}
    cards = [card(record, name) for record, name in store.find_by_former_name(search, MOST_FORMER)]
    return [shown for shown in cards if shown["Name"] not in names]


def deleted_cards(text: str) -> list[Document]:
    """Return cards of deleted players by id or the beginning of a name, for readers of history."""
    if len(text) < SEARCH_LENGTH or not guard.caller().may(Permission.HISTORY_READ):
        return []
    found = players.find_deleted(Lookup.parse(text), MOST_FORMER)
    return [
        {**player_card({**kept["Player"], "Id": kept["_id"]}), "DeletedAt": kept["DeletedAt"]}
        for kept in found
    ]


def with_marks(cards: Iterable[Document], user_id: str) -> list[Document]:
    """Return cards with what staff should notice; of accounts, if the caller may see them."""
    shown = list(cards)
    sees_users = guard.caller().may(Permission.USERS_READ)
    ids = {card[user_id] for card in shown if isinstance(card[user_id], str)} if sees_users else []
    accounts = users.get_many(list(ids), "Name", *BAN, *MUTE, "Notes")
    id_, noted = "_id", accounts
    if user_id == "UserId":
        id_, noted = "Id", players.get_many([card["Id"] for card in shown], "Notes")
    now = users.now()
    return [
        {
            **card,
            "Account": accounts.get(card[user_id]),
            **marks_of(card, accounts.get(card[user_id]), noted.get(card[id_]), now),
        }
        for card in shown
    ]


def marks_of(
    card: Document, account: Document | None, noted: Document | None, now: datetime
) -> Document:
    """Return the penalties of an account, the number of notes, and words for what to notice."""
    penalties = penalties_in_force(account or {}, now)
    count = len(visible_notes((noted or {}).get("Notes")))
    words = {
        "deleted": ("bad", card["DeletedAt"]),
        "banned": ("bad", penalties[BAN.flag]),
        "muted": ("bad", penalties[MUTE.flag]),
        f"{count} note{'' if count == 1 else 's'}": ("", count),
    }
    marks = [(word, colour) for word, (colour, is_on) in words.items() if is_on]
    return {"Penalties": penalties, "NoteCount": count, "Marks": marks}


class Filtered(NamedTuple):
    """A page of a list with filters, or why a filter was refused."""

    filters: tuple[Field, ...]
    wanted: dict[str, str]
    values: Any = ()
    next: str | None = None
    error: QuartermasterError | None = None

    @property
    def status(self) -> int | None:
        return status_of(self.error) if self.error else None

    @property
    def used(self) -> int:
        return sum(map(bool, self.wanted.values()))


def wanted_filters(filters: tuple[Field, ...]) -> dict[str, str]:
    """Return the filters in the query."""
    return {one.name: plain(request.args.get(one.name, "")) for one in filters}


def filtered_reader(
    filters: tuple[Field, ...], search: Callable[..., Any], with_texts: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return the function that reads a list with filters for a file."""

    def read(after: str, size: int) -> Any:
        typed = {**wanted_filters(filters), "after": after}
        found, following = search({name: text for name, text in typed.items() if text}, size)
        return with_texts(found), following

    return read


def filter_page(
    filters: tuple[Field, ...], search: Callable[[Document], tuple[Any, str | None]]
) -> Filtered:
    """Return the page of a list that the filters in the query select.

    search is called with the filters in use; it returns records and the cursor of the next page.
    """
    wanted = wanted_filters(filters)
    sees_users = guard.caller().may(Permission.USERS_READ)
    shown = tuple(one for one in filters if one.name != "user" or sees_users)
    typed = {**wanted, "after": request.args.get("after", "")}
    try:
        values, following = search({name: text for name, text in typed.items() if text})
    except QuartermasterError as error:
        return Filtered(shown, wanted, error=error)
    return Filtered(shown, wanted, values, following)
