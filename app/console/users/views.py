"""The pages of users: the list, and tabs for account, history, notes and sign-ins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from flask import Response, request

from app.auth import guard
from app.console.forms.declared import Target
from app.console.forms.places import Found, Place
from app.console.frame.lists import Columns, ListPage, columns, window_of
from app.console.frame.pages import HEADERS, PAGE_SIZE, blp, path_to, required, see_other
from app.console.frame.subjects import (
    PLAYERS,
    USERS,
    changes_on_tab,
    gone_page,
    marks_of,
    marks_text,
    offer_no_undo,
    subject_page,
    user_card,
)
from app.console.game.actions import actions_part
from app.console.stores import cursors, erasures, personal_data, players, users
from app.console.users.forms import FORMS
from app.core.errors import NotFound
from app.core.naming import Lookup, parse_guid
from app.core.paging import Page
from app.core.penalties import BAN, MUTE, Penalty
from app.core.permissions import Permission
from app.core.types import Document
from app.http.intents import reading_intent
from app.http.json import CONTENT_TYPE
from app.http.uploads import Pieces, download
from app.privacy.domain import public_erasure
from app.privacy.operations import EXPORT_PERSONAL_DATA
from app.users.domain import POWER_FLAGS, shown_code
from app.users.moderation import domain as moderation
from app.users.moderation.enforcement import may_punish
from app.users.notes import domain as notes
from app.users.oauth.sign_ins import list_sign_ins
from app.users.second_factor.domain import has_factor
from app.users.store import RECORD

TABS = ("account", "history", "notes", "keys", "sign-ins")
READS = (*RECORD, *moderation.READS, "CreationDate", "Notes", "SecondFactor")

# Returns the content of a tab from an account and its entries.
Content = Callable[[Document, list[Document]], dict[str, Any]]


NEEDS = (Permission.USERS_READ,)


def user_columns() -> Columns:
    """Return the columns of the list; a file of addresses is an export of personal data."""
    email = " Email" if guard.caller().may(Permission.PRIVACY_EXPORT) else ""
    roles = {"Roles": lambda user: ", ".join(user["RoleNames"])}
    return columns(f"Name{email}", Id=itemgetter("_id"), Marks=marks_text, **roles)


ListPage(
    "/users",
    NEEDS,
    USERS.find,
    user_columns,
    USERS.filters,
    "users/list.html",
    USERS.about,
)


def find_punished(penalty: Penalty, wanted: Document, size: int) -> Page:
    found = users.list_punished(penalty, window_of(wanted, size))
    cards = USERS.cards(found.values)
    return found._replace(values=[{**card, **card["Penalties"]} for card in cards])


for state, penalty in (("banned", BAN), ("muted", MUTE)):
    shown: dict[str, Any] = {"penalty": penalty, "state": state}
    ListPage(
        f"/users/{state}",
        NEEDS,
        partial(find_punished, penalty),
        columns(
            f"Name {penalty.until} {penalty.by} {penalty.reason}",
            Id=itemgetter("_id"),
            Marks=marks_text,
        ),
        template="users/punished.html",
        about=lambda _, shown=shown: shown,
    )


def user_page(tab: str, key: Lookup, content: Content | None = None, **_: Any) -> Response:
    """Show a tab about a user; its content may come from another module."""
    try:
        user = user_card(users.get(key, *READS))
    except NotFound as error:
        return gone_page("user", key.id, tab, error, describe_erased)
    id_ = user["_id"]
    changes = changes_on_tab("user", id_, tab)
    facts = account_facts(user)
    if content:
        facts |= content(user, changes["entries"])
    elif tab == "account":
        characters = PLAYERS.cards(players.list_of_user(id_))
        facts |= {"characters": characters, **actions_part(id_)}
    elif tab == "notes":
        facts["notes"] = notes.visible_notes(user.get("Notes"))
    elif tab == "sign-ins":
        page = list_sign_ins(Lookup.parse(id_), PAGE_SIZE, request.args.get("after", ""))
        following = cursors.write(page.next)
        facts |= {"sign_ins": page.values, "next_sign_ins": following, "present": None}
    record = {**user, **facts["penalties"], **facts}
    target = Target(path_to("users", id_), id_, user["Name"], record, changes["entries"])
    shown = {"tabs": TABS, **changes, **facts}
    return subject_page(tab, target, FORMS.get(tab, ()), **shown)


def describe_erased(id_: str, entries: list[Document]) -> Document | None:
    """Return the record of an erasure, if any; None if there are no entries of history either."""
    record = erasures.find(id_)
    offer_no_undo(entries)
    return {"erasure": record and public_erasure(record)} if record or entries else None


def account_facts(user: Document) -> dict[str, Any]:
    """Return the facts about an account that all tabs show."""
    now = users.now()
    marks = marks_of(user, user, user, now)
    return {
        "user": user,
        "marks": marks,
        "roles": user["RoleNames"],
        "may_punish": may_punish(guard.caller(), user),
        "powers": [name for name in POWER_FLAGS if user["Power"].get(name)],
        "penalties": marks["Penalties"],
        # Whoever sees the code of a colleague, on an open screen, could sign in as that person.
        "code": None if user["RoleNames"] or not guard.is_peer(user) else shown_code(user, now),
        "has_factor": has_factor(user),
    }


def find_user(key: Lookup, **_: Any) -> Found:
    card = user_card(users.get(key, "Name"))
    return Found(card["_id"], card["Name"])


Place(
    "/users/<lookup:key>",
    FORMS,
    user_page,
    find_user,
    "user",
    needs=NEEDS,
    tab_needs={"history": (Permission.HISTORY_READ,), "sign-ins": (Permission.USERS_MANAGE,)},
)


@blp.get("/users/<lookup:key>/personal-data")
@required(*EXPORT_PERSONAL_DATA.permissions)
def download_personal_data(key: Lookup) -> Response:
    """Stream all personal data of a user as a file."""
    # The file name must not reveal whose data it is.
    id_ = parse_guid(str(users.get(key, "_id")["_id"])) or "user"
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        # History tells who has read it, so a link elsewhere leads to the page of the user only.
        return see_other(path_to("users", key))
    disposition = f'attachment; filename="personal-data-{id_}.json"'

    def begin() -> Pieces:
        is_read = request.method != "HEAD"  # Flask routes HEAD to GET views
        meant = reading_intent(EXPORT_PERSONAL_DATA, "console")
        pieces = personal_data.write(key, meant)[1] if is_read else iter(())
        return pieces, {**HEADERS, "Content-Disposition": disposition}

    return download(begin, guard.caller().id, content_type=CONTENT_TYPE)
