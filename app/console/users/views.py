"""The pages of users: the list, and tabs for account, history, notes and sign-ins."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from flask import Response, request
from markupsafe import Markup

from app.auth import guard
from app.console.forms.declared import NOT_COMPLETED, NOT_UNDONE, Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.schemas import NewPassword
from app.console.forms.submissions import Submission, query_text
from app.console.frame.lists import Columns, ListPage, columns, window_of
from app.console.frame.pages import HEADERS, PAGE_SIZE, blp, done, path_to, required, see_other
from app.console.frame.subjects import PLAYERS, USERS, marks_text
from app.console.game.actions import actions_part
from app.console.game.views import action_forms
from app.console.keys.views import FORMS as KEY_FORMS
from app.console.keys.views import find_key, keys_part
from app.console.players.views import note_form
from app.console.session import sessions as session
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup, parse_guid
from app.core.penalties import BAN, MUTE, Penalty
from app.core.permissions import Permission, role_names
from app.core.types import Document
from app.game.actions.asking import find_user
from app.http import tracing
from app.http.cursors import cursors
from app.http.intents import reading_intent
from app.http.json import CONTENT_TYPE
from app.http.masking import MASK
from app.http.uploads import Pieces, download
from app.players.store import players
from app.privacy import personal_data
from app.privacy.domain import ErasureUnderWay, public_erasure
from app.privacy.operations import ERASE_USER, EXPORT_PERSONAL_DATA, finish
from app.privacy.store import erasures
from app.users import accounts, moderation
from app.users.domain import POWER_FLAGS, shown_code
from app.users.moderation import IMPOSE, LIFT, may_punish
from app.users.notes import NOTE_ON_USER
from app.users.oauth.sign_ins import REVOKE_TOKENS, end_sign_in, list_sign_ins
from app.users.operations import CHANGE_EMAIL, CHANGE_PASSWORD, MAIL_RESET_CODE
from app.users.schemas import ManageEmailArgs
from app.users.second_factor.domain import has_factor
from app.users.second_factor.management import RESET_FACTOR, RESET_SIGN_IN
from app.users.store import RECORD, users

MANAGE = (Permission.USERS_MANAGE,)
NEW_PASSWORD = {"autocomplete": "new-password", "minlength": 8}
PASSWORD_FIELDS = (
    Field("new", "New password", "8 characters or more.", type="password", html=NEW_PASSWORD),
    Field("again", "Repeat the password", type="password", html=NEW_PASSWORD),
)

ABOUT_MAIL = Markup(
    "Sends <bdi>{}</bdi> a code at <bdi>{}</bdi> that works once. A mail cannot be recalled."
)
GOES = Markup(
    "<b>Deleted:</b> the account, its characters ({}) with everything they own, bags, notes, "
    "sign-ins and keys."
)
STAYS = Markup(
    "<b>Kept:</b> history, with ids and without names, because changes of items must stay "
    "traceable; and the ids, so that a restored backup does not bring the person back."
)


def penalty_forms(penalty: Penalty, *fields: Field, about: str = "") -> tuple[Form, Form]:
    verb = IMPOSE[penalty].name
    form = partial(Form, card="Moderation", replaces="")
    lift = form(
        LIFT[penalty],
        f"Un{verb}",
        f"Un{verb}",
        template="users/penalty.html",
        layout="penalty",
        is_quiet=True,
        is_offered=lambda target: target.record[penalty.flag],
    )
    impose = form(
        IMPOSE[penalty],
        f"{verb.capitalize()}…",
        f"{verb.capitalize()} {{name}}",
        (Field("duration", "Days", value=7), *fields),
        about=about,
        is_offered=lambda target: target.record["may_punish"] and not target.record[penalty.flag],
    )
    return lift, impose


def is_settable(target: Target) -> bool:
    """Tell whether others than its holder may set how an account signs in."""
    return not role_names(target.record)


def is_other(target: Target) -> bool:
    return target.id != guard.caller().id


# They set how somebody else signs in.
credential_form = partial(
    Form,
    needs=MANAGE,
    confirm=NOT_UNDONE,
    replaces="",
    is_offered=is_settable,
    is_secret=True,
    is_sensitive=accounts.is_of_staff,
)


def after_erasure(applied: Applied, _: Submission, key: Lookup) -> Response:
    # The log line of this request is written after the erasure, so it must not contain the name.
    tracing.note(path=request.path.replace(key.text, MASK))
    with suppress(ErasureUnderWay):
        finish(applied.answer)
    return see_other(path_to("users", applied.answer, "history"))


def after_reset(applied: Applied, _: Submission, key: Lookup) -> Response:
    if applied.answer["MailSent"]:
        return done(applied, path_to("users", key))
    return see_other(path_to("users", key, done="factor-reset"))


END_SIGN_IN = Form(
    None,
    "End",
    "End",
    path="sign-ins/<sign_in_id>/end",
    act=end_sign_in,
    api="DELETE /api/oauth/sign-ins/<key>/SIGN-IN-ID",
    notice="ended",
)
FORMS = {
    "account": (
        *penalty_forms(
            BAN,
            Field("ip", "Also ban this person's IP addresses"),
            about="All sign-ins of this account end at once.",
        ),
        *penalty_forms(MUTE),
        *action_forms("users", find_user),
        Form(
            MAIL_RESET_CODE,
            "Mail a reset code…",
            "Mail {name} a code",
            name="mail-code",
            card="Password",
            about=lambda target: [ABOUT_MAIL.format(target.name, target.record["Email"])],
            is_sensitive=accounts.is_of_staff,
        ),
        credential_form(
            CHANGE_PASSWORD,
            "Set a new password…",
            "Set the password",
            PASSWORD_FIELDS,
            name="password",
            card="Password",
            view="manage_password",
            schema=NewPassword(),
            # A password manager must not save it for the signed-in user.
            template="users/password_fields.html",
        ),
        Form(
            RESET_FACTOR,
            "Reset the second factor…",
            "Reset the second factor",
            name="second-factor",
            card="Password",
            about="For somebody who has lost it: the password alone signs in again. A mail tells "
            "them.",
            is_offered=lambda target: (
                target.record["has_factor"] and is_settable(target) and is_other(target)
            ),
            confirm=NOT_UNDONE,
            is_sensitive=True,
            lead=after_reset,
        ),
        Form(
            RESET_SIGN_IN,
            "Reset the sign-in…",
            "Ask for the reset",
            (Field("Email", "New email address", "Only if the former is lost.", type="email"),),
            card="Password",
            needs=RESET_FACTOR.permissions,
            api="POST /api/v1/approvals",
            body=lambda sent: {
                "Operation": RESET_SIGN_IN.name,
                "Subject": sent.target.id,
                "Arguments": {"Email": sent.value("Email")},
                "Reason": sent.value("reason", "WHY"),
            },
            about="For somebody of staff who has lost a phone or an address. Another colleague has "
            "to approve it. Then the second factor is removed, and all sign-ins end. A mail tells "
            "the person.",
            is_offered=lambda target: (
                not is_settable(target) and is_other(target) and guard.caller().rights.roles
            ),
            is_sensitive=True,
            is_request=True,
        ),
        credential_form(
            CHANGE_EMAIL,
            "Change the email address…",
            "Change the email address",
            (Field("new", "New email address", type="email", html=NOT_COMPLETED),),
            name="email",
            card="Email",
            view="manage_email",
            schema=ManageEmailArgs(),
        ),
        Form(
            ERASE_USER,
            "Erase this person…",
            "Erase {name}",
            card="Personal data",
            about=lambda target: [GOES.format(len(target.record["characters"])), STAYS],
            is_offered=is_other,
            confirm="What was erased cannot be brought back.",
            # The API also requires the name, and checks it.
            confirm_field="Confirm",
            lead=after_erasure,
            is_sensitive=True,
        ),
    ),
    "history": (),
    "notes": (note_form(NOTE_ON_USER),),
    "sign-ins": (
        Form(
            REVOKE_TOKENS,
            "Sign out everywhere",
            "Sign {name} out",
            name="sign-out",
            about="All tokens and sessions of this account end at once.",
            confirm=NOT_UNDONE,
            is_sensitive=accounts.is_of_staff,
        ),
        END_SIGN_IN,
    ),
}


TABS = ("account", "history", "notes", "keys", "sign-ins")
READS = (*RECORD, *moderation.READS, "CreationDate", "SecondFactor")

NEEDS = (Permission.USERS_READ,)


def user_columns() -> Columns:
    """Return the columns of the list; a file of addresses is an export of personal data."""
    email = " Email" if guard.caller().may(Permission.PRIVACY_EXPORT) else ""
    return columns(
        f"Name{email} Id", Marks=marks_text, Roles=lambda user: ", ".join(user["RoleNames"])
    )


ListPage("/users", NEEDS, USERS.find, user_columns, USERS.filters, "users/list.html", USERS.about)


def list_punished(state: str, penalty: Penalty) -> None:
    """Declare the list of the users with a penalty in force."""
    ListPage(
        f"/users/{state}",
        NEEDS,
        lambda wanted, size: users.list_punished(penalty, window_of(wanted, size)),
        columns(f"Name {penalty.until} {penalty.by} {penalty.reason} Id", Marks=marks_text),
        template="users/punished.html",
        about=lambda _: {"penalty": penalty, "state": state},
        cards=USERS.cards,
    )


list_punished("banned", BAN)
list_punished("muted", MUTE)


def user_page(tab: str, key: Lookup, made: Applied | None = None, **_: Any) -> Response:
    try:
        (user,) = USERS.cards([users.get(key, *READS)])
    except NotFound as error:
        return USERS.gone(key.id, error, describe_erased)
    id_ = user["Id"]
    facts: Document = {
        "tabs": TABS,
        "may_punish": may_punish(user),
        # Whoever sees the code of a colleague, on an open screen, could sign in as that person.
        "code": None
        if user["RoleNames"] or not guard.is_peer(user)
        else shown_code(user, users.now()),
        "has_factor": has_factor(user),
    }
    if tab == "keys":
        facts |= keys_part(user, path_to("users", id_, "keys"), made)
    elif tab == "account":
        characters = PLAYERS.cards(players.list_of_user(id_))
        powers = [name for name in POWER_FLAGS if user["Power"].get(name)]
        facts |= {"characters": characters, "powers": powers, **actions_part(id_)}
    elif tab == "sign-ins":
        facts |= sign_ins_part(Lookup.parse(id_))
    return USERS.tab(tab, user, FORMS.get(tab, ()), facts)


def sign_ins_part(key: Lookup) -> Document:
    """Return a page of the sign-ins of an account, with the one of this request, if it is there."""
    found = list_sign_ins(key, PAGE_SIZE, query_text("after"))
    present = session.current_session()
    return {
        "sign_ins": found.values,
        "next_sign_ins": cursors.write(found.next),
        "present": present and present.chain,
    }


def describe_erased(id_: str, entries: list[Document]) -> Document | None:
    """Return the record of an erasure, if any; None if there are no entries of history either."""
    record = erasures.find(id_)
    return {"erasure": record and public_erasure(record)} if record or entries else None


Place(
    "/users/<lookup:key>",
    FORMS,
    user_page,
    USERS.target,
    needs=NEEDS,
    tab_needs={"history": (Permission.HISTORY_READ,), "sign-ins": (Permission.USERS_MANAGE,)},
)
Place(
    "/users/<lookup:key>/keys",
    KEY_FORMS,
    partial(user_page, "keys"),
    find_key,
    needs=(*NEEDS, *MANAGE),
)


@blp.get("/users/<lookup:key>/personal-data")
@required(*EXPORT_PERSONAL_DATA.permissions)
def download_personal_data(key: Lookup) -> Response:
    # The file name must not reveal whose data it is.
    id_ = parse_guid(str(users.get_id(key))) or "user"
    # Flask routes HEAD to GET views.
    if request.method == "HEAD" or request.headers.get("Sec-Fetch-Site") == "cross-site":
        # History tells who has read it, so a link elsewhere leads to the page of the user only.
        return see_other(path_to("users", key))
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="personal-data-{id_}.json"'}

    def begin() -> Pieces:
        meant = reading_intent(EXPORT_PERSONAL_DATA, "console")
        return personal_data.write(key, meant)[1], headers

    return download(begin, guard.caller().id, content_type=CONTENT_TYPE)
