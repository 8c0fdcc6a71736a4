"""The pages of users: the list, and of each one account, history, notes and sign-ins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, current_app, request

from app.auth import guard
from app.auth.roles import Role, roles_of
from app.changes import Applied
from app.console.forms.curl import api_path, as_number, curl
from app.console.forms.forms import (
    Form,
    attempt,
    form_status,
    require_unchanged,
)
from app.console.forms.schemas import NewPassword
from app.console.frame.cards import player_card, user_card
from app.console.frame.deleted_pages import gone_user_page
from app.console.frame.lists import former_cards, list_window, with_penalties
from app.console.frame.pages import (
    PAGE_SIZE,
    blp,
    changes_part,
    done,
    path_to,
    render,
    required,
    see_other,
)
from app.console.game.action_cards import actions_part
from app.console.home.recently_viewed import remember
from app.errors import Invalid, NotFound
from app.execution import execute
from app.history.access import page as history_page
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import intent
from app.http.path_converters import path_guid
from app.moderation import domain as moderation
from app.moderation.enforcement import impose_on, lift_from
from app.moderation.penalties import BAN, MUTE
from app.moderation.schemas import PenaltyArgs
from app.naming import Lookup, name_key
from app.notes import domain as notes
from app.notes.operations import NOTE_ON_USER
from app.notes.schemas import NoteArgs
from app.oauth.sign_ins import end_all, end_sign_in, list_sign_ins
from app.players.store import Players
from app.privacy.domain import ERASED_AT
from app.types import Document
from app.users import accounts
from app.users.domain import POWER_FLAGS, require_email, valid_code
from app.users.operations import CHANGE_EMAIL, CHANGE_PASSWORD, MAIL_RESET_CODE
from app.users.schemas import ManageEmailArgs
from app.users.store import RECORD, Users

SORTS = {"name": ("name", True), "email": ("email", True)}
TABS = ("account", "history", "notes", "keys", "sign-ins")
READS = (*RECORD, *moderation.READS, "CreationDate", "Notes", ERASED_AT)
PENALTIES = {"ban": BAN, "mute": MUTE}
SIGN_INS = 25
LAST_CHANGES = 6
# The forms that replace what is set, as others may have done meanwhile.
SETS = ("ban", "unban", "mute", "unmute", "email", "password")

cursors = current(Cursors)
players = current(Players)
users = current(Users)

# What a tab shows of an account besides what all of them do.
Content = Callable[[Document], dict[str, Any]]

query = required(Role.USERS_QUERY)
manage = required(Role.USERS_QUERY, Role.USERS_MANAGE)


@blp.get("/users")
@query
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


@blp.get("/users/<lookup:key>")
@query
def show_user(key: Lookup) -> Response:
    return user_page(key, "account")


@blp.get("/users/<lookup:key>/<any(history, notes):tab>")
@query
def show_user_tab(key: Lookup, tab: str) -> Response:
    return user_page(key, tab)


@blp.get("/users/<lookup:key>/sign-ins")
@manage
def show_user_sign_ins(key: Lookup) -> Response:
    return user_page(key, "sign-ins")


@blp.post("/users/<lookup:key>/<any(ban, mute):verb>")
@query
def impose_penalty(key: Lookup, verb: str) -> Response:
    form = Form.posted(verb)
    return carried_out(
        key,
        "account",
        form,
        lambda: impose_on(key, PENALTIES[verb], form.load(PenaltyArgs())),
    )


@blp.post("/users/<lookup:key>/un<any(ban, mute):verb>")
@query
def lift_penalty(key: Lookup, verb: str) -> Response:
    form = Form.posted(f"un{verb}")
    return carried_out(key, "account", form, lambda: lift_from(key, PENALTIES[verb]))


@blp.post("/users/<lookup:key>/mail-code")
@query
def mail_code(key: Lookup) -> Response:
    form = Form.posted("mail-code")
    seconds = current_app.config["RESET_CODE_SECONDS"]
    return carried_out(
        key,
        "account",
        form,
        lambda: accounts.mail_reset_code(key, seconds, intent(MAIL_RESET_CODE)),
    )


@blp.post("/users/<lookup:key>/email")
@manage
def change_email(key: Lookup) -> Response:
    form = Form.posted("email")

    def act() -> Applied:
        new = form.load(ManageEmailArgs())["new"]
        require_email(new, "new")
        require_name(form, key)
        return users.change_email(key, new, intent(CHANGE_EMAIL))

    return carried_out(key, "account", form, act)


@blp.post("/users/<lookup:key>/password")
@manage
def change_password(key: Lookup) -> Response:
    form = Form.posted("password")

    def act() -> Applied:
        new = form.load(NewPassword())["new"]
        require_name(form, key)
        # Clients send the SHA-256 of a password; it is stored as an argon2 hash of that.
        sha256 = hashlib.sha256(new.encode()).hexdigest()
        return accounts.set_password(key, sha256, intent(CHANGE_PASSWORD))

    return carried_out(key, "account", form, act)


@blp.post("/users/<lookup:key>/notes")
@query
def write_user_note(key: Lookup) -> Response:
    form = Form.posted("note")
    return carried_out(
        key, "notes", form, lambda: execute(NOTE_ON_USER, users, key, form.load(NoteArgs()))
    )


@blp.post("/users/<lookup:key>/sign-out")
@manage
def sign_user_out(key: Lookup) -> Response:
    form = Form.posted("sign-out")

    def act() -> Applied:
        require_name(form, key)
        return end_all(key)[1]

    return carried_out(key, "sign-ins", form, act)


@blp.post("/users/<lookup:key>/sign-ins/<sign_in_id>/end")
@manage
def end_user_sign_in(key: Lookup, sign_in_id: str) -> Response:
    form = Form.posted("end")
    chain = path_guid("id", sign_in_id)
    ended = attempt(form, lambda: end_sign_in(key, chain))
    if ended is None:
        return user_page(key, "sign-ins", form)
    return see_other(path_to("users", ended["_id"], "sign-ins", done="ended"))


def require_name(form: Form, key: Lookup) -> None:
    """Refuse a change that cannot be undone unless somebody has typed whom it is about."""
    name = user_card(users.get(key, "Name"))["Name"]
    if name_key(form.value("confirm").strip()) != name_key(name):
        fault = f"Type {name} here: this cannot be undone."
        raise Invalid(fault, {"confirm": [fault]})


def carried_out(key: Lookup, tab: str, form: Form, act: Callable[[], Any]) -> Response:
    """Carry out a form, and lead to its page, or show that again with why it was refused."""
    outcome = attempt(form, lambda: unless_changed(key, form, act))
    if isinstance(outcome, Applied):
        id_ = outcome.entry["Subject"]["Id"] if outcome.entry else key
        return done(outcome, path_to("users", id_, *([tab] if tab != "account" else [])))
    return user_page(key, tab, form)


def unless_changed(key: Lookup, form: Form, act: Callable[[], Any]) -> Any:
    """Carry out a form, unless somebody else has changed the account since it was shown."""
    if form.name in SETS:
        entries = history_page({}, PAGE_SIZE, ("user",), users.get(key, "_id")["_id"]).values
        require_unchanged(form, entries, guard.caller().id)
    return act()


def user_page(
    key: Lookup, tab: str, form: Form | None = None, content: Content | None = None
) -> Response:
    try:
        user = user_card(users.get(key, *READS))
    except NotFound as error:
        return gone_user_page(key.id, tab, form, error)
    id_ = user["_id"]
    if isinstance(user.get(ERASED_AT), datetime):
        return gone_user_page(id_, tab, form, NotFound("user", key))
    size, after = LAST_CHANGES, ""
    if tab == "history":
        size, after = PAGE_SIZE, request.args.get("after", "")
    now = users.now()
    caller_manages = Role.USERS_MANAGE in guard.caller().roles
    response = render(
        f"users/{tab.replace('-', '_')}.html",
        form_status(form),
        page="users",
        tab=tab,
        tabs=TABS,
        user=user,
        roles=roles_of(user["Power"]),
        # As the rule has it: an account that manages users is banned by its peers alone.
        may_punish=caller_manages or Role.USERS_MANAGE not in roles_of(user["Power"]),
        powers=[name for name in POWER_FLAGS if user["Power"].get(name)],
        penalties=moderation.served(user, now),
        code=valid_code(user, now),
        form=form,
        curl_for=lambda *args: account_curl(id_, form, *args),
        penalty_body=lambda name: penalty_body(form if form and form.name == name else None),
        **changes_part("user", id_, size, form, after),
        **(content(user) if content else content_of(tab, user, form)),
    )
    remember(response, "users", id_)
    return response


def content_of(tab: str, user: Document, form: Form | None) -> dict[str, Any]:
    if tab == "account":
        characters = [player_card(p) for p in players.list_of_user(user["_id"])]
        return {"characters": characters, **actions_part("user", user["_id"], form)}
    if tab == "notes":
        return {"notes": notes.served(user.get("Notes"))}
    if tab == "sign-ins":
        after = request.args.get("after", "")
        page = list_sign_ins(Lookup.parse(user["_id"]), SIGN_INS, after)
        return {"sign_ins": page.values, "next_sign_ins": cursors.write(page.next)}
    return {}


def penalty_body(form: Form | None) -> Document:
    """Return the body of a ban or a mute, as far as it was typed."""
    if form is None:
        return {"duration": "DAYS", "reason": "..."}
    duration = as_number(form.value("duration"))
    address = {"ip": True} if form.is_checked("ip") else {}
    return {"duration": duration, "reason": form.value("reason"), **address}


def account_curl(user_id: str, form: Form | None, method: str, path: str, body: Any = None) -> str:
    """Return the curl line of a form about an account; path is a part of the API's path."""
    base = request.host_url.rstrip("/")
    reason = form.value("reason") if form else ""
    if path.startswith("/"):
        return curl(base, method, path, body, reason=reason)
    return curl(base, method, api_path("users", user_id, *path.split("/")), body, reason=reason)
