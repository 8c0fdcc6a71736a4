"""The pages of users: the list, and of each one account, history, notes and sign-ins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.roles import Role, roles_of
from app.console.forms.declared import Target
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.cards import player_card, user_card
from app.console.frame.deleted_pages import erased_user_page
from app.console.frame.lists import former_cards, list_window, with_penalties
from app.console.frame.pages import PAGE_SIZE, blp, path_to, render, required
from app.console.game.action_cards import actions_part
from app.console.history.tables import changes_part
from app.console.home.recently_viewed import remember
from app.console.users.forms import FORMS
from app.errors import NotFound
from app.http.context import current
from app.http.cursors import Cursors
from app.moderation import domain as moderation
from app.naming import Lookup
from app.notes import domain as notes
from app.oauth.sign_ins import list_sign_ins
from app.players.store import Players
from app.privacy.domain import ERASED_AT
from app.types import Document
from app.users.domain import POWER_FLAGS, valid_code
from app.users.store import RECORD, Users

SORTS = {"name": ("name", True), "email": ("email", True)}
TABS = ("account", "history", "notes", "keys", "sign-ins")
READS = (*RECORD, *moderation.READS, "CreationDate", "Notes", ERASED_AT)
SIGN_INS = 25
LAST_CHANGES = 6

cursors = current(Cursors)
players = current(Players)
users = current(Users)

# What a tab shows of an account, of which the changes are known, besides what all of them do.
Content = Callable[[Document, Document], dict[str, Any]]


@blp.get("/users")
@required(Role.USERS_QUERY)
def list_users() -> Response:
    search, sort, window = list_window(SORTS)
    found = users.list(window, search, *SORTS[sort])
    listed = [user_card(user) for user in found.values]
    return render(
        "users/list.html",
        page="users",
        users=[
            {**user, "Roles": roles_of(user["Power"])} for user in with_penalties(listed, "_id")
        ],
        former=former_cards(users, user_card, listed, search, window),
        total=found.total,
        search=request.args.get("search", ""),
        sort=sort,
        next=cursors.write(found.next),
    )


def user_page(
    tab: str, sent: Submission | None, key: Lookup, content: Content | None = None, **_: Any
) -> Response:
    """Show a tab about a user; its content may come from another module."""
    try:
        user = user_card(users.get(key, *READS))
    except NotFound as error:
        return erased_user_page(key.id, tab, sent, error)
    id_ = user["_id"]
    if isinstance(user.get(ERASED_AT), datetime):
        return erased_user_page(id_, tab, sent, NotFound("user", key))
    size, after = LAST_CHANGES, ""
    if tab == "history":
        size, after = PAGE_SIZE, request.args.get("after", "")
    changes = changes_part("user", id_, size, sent, after)
    shown = {**account_part(user), **changes, **CONTENTS.get(tab, no_content)(user)}
    target = Target(
        path_to("users", id_),
        id_,
        user["Name"],
        {**user, **shown["penalties"], **shown},
        changes["seen"],
        changes["newer"],
    )
    shown["forms"] = forms_on(FORMS.get(tab, ()), target, sent)
    if content:
        shown |= content(user, changes)
    response = render(
        f"users/{tab.replace('-', '_')}.html", sent=sent, page="users", tab=tab, tabs=TABS, **shown
    )
    remember(response, "users", id_)
    return response


def account_part(user: Document) -> dict[str, Any]:
    """Return what all tabs show of an account."""
    now = users.now()
    roles = roles_of(user["Power"])
    return {
        "user": user,
        "roles": roles,
        # As the rule has it: only peers ban an account that manages users.
        "may_punish": Role.USERS_MANAGE in guard.caller().roles or Role.USERS_MANAGE not in roles,
        "powers": [name for name in POWER_FLAGS if user["Power"].get(name)],
        "penalties": moderation.served(user, now),
        "code": valid_code(user, now),
    }


def account_content(user: Document) -> dict[str, Any]:
    characters = [player_card(player) for player in players.list_of_user(user["_id"])]
    return {"characters": characters, **actions_part(user["_id"])}


def notes_content(user: Document) -> dict[str, Any]:
    return {"notes": notes.served(user.get("Notes"))}


def sign_ins_content(user: Document) -> dict[str, Any]:
    after = request.args.get("after", "")
    page = list_sign_ins(Lookup.parse(user["_id"]), SIGN_INS, after)
    return {
        "sign_ins": page.values,
        "next_sign_ins": cursors.write(page.next),
        "present": None,
    }


def no_content(_: Document) -> dict[str, Any]:
    return {}


CONTENTS: dict[str, Callable[[Document], dict[str, Any]]] = {
    "account": account_content,
    "notes": notes_content,
    "sign-ins": sign_ins_content,
}


def find_user(key: Lookup, **_: Any) -> Found:
    card = user_card(users.get(key, "Name"))
    return Found(card["_id"], card["Name"])


register(
    Place(
        "/users/<lookup:key>",
        ("users",),
        FORMS,
        user_page,
        find_user,
        "user",
        users,
        roles=(Role.USERS_QUERY,),
        higher_tabs=("sign-ins",),
    )
)
