"""The forms on the pages of a user."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from flask import Response, request
from markupsafe import Markup

from app.auth import guard
from app.console.forms.declared import NOT_UNDONE, Field, Form, Target
from app.console.forms.schemas import NewPassword
from app.console.forms.submissions import Submission
from app.console.frame.pages import done, path_to, see_other
from app.console.game.views import action_forms
from app.console.players.forms import note_form
from app.core.changes import Applied
from app.core.naming import Lookup
from app.core.penalties import BAN, MUTE, Penalty
from app.core.permissions import Permission, role_names
from app.game.actions.asking import user_subject
from app.http import tracing
from app.http.masking import MASK
from app.privacy.domain import ErasureUnderWay
from app.privacy.operations import ERASE_USER, finish
from app.users import accounts
from app.users.moderation.operations import IMPOSE, LIFT
from app.users.notes.operations import NOTE_ON_USER
from app.users.oauth.sign_ins import REVOKE_TOKENS, end_sign_in
from app.users.operations import CHANGE_EMAIL, CHANGE_PASSWORD, MAIL_RESET_CODE
from app.users.schemas import ManageEmailArgs
from app.users.second_factor.operations import RESET_FACTOR, RESET_SIGN_IN

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


def penalty_forms(penalty: Penalty, verb: str, flag: str) -> tuple[Form, Form]:
    """Return the forms that lift and that impose a penalty."""
    lift = Form(
        LIFT[penalty],
        f"Un{verb}",
        f"Un{verb}",
        view=f"un{verb}_user",
        card="Moderation",
        template="users/penalty.html",
        layout="penalty",
        is_quiet=True,
        is_offered=lambda target: bool(target.record[flag]),
        replaces="",
    )
    impose = Form(
        IMPOSE[penalty],
        f"{verb.capitalize()}…",
        f"{verb.capitalize()} {{name}}",
        (Field("duration", "Days", value=7),),
        view=f"{verb}_user",
        card="Moderation",
        is_offered=lambda target: target.record["may_punish"] and not target.record[flag],
        replaces="",
    )
    return lift, impose


def is_settable(target: Target) -> bool:
    """Tell whether others than its holder may set how an account signs in."""
    return not role_names(target.record)


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


UNBAN, BAN_USER = penalty_forms(BAN, "ban", "IsBanned")
ADDRESSES = Field("ip", "Also ban this person's IP addresses")
BAN_USER = replace(
    BAN_USER,
    about="All sign-ins of this account end at once.",
    fields=(*BAN_USER.fields, ADDRESSES),
)
PASSWORD = Form(
    CHANGE_PASSWORD,
    "Set a new password…",
    "Set the password",
    PASSWORD_FIELDS,
    name="password",
    card="Password",
    needs=MANAGE,
    view="manage_password",
    schema=NewPassword(),
    # A password manager must not save it for the signed-in user.
    template="users/password_fields.html",
    confirm=NOT_UNDONE,
    replaces="",
    is_offered=is_settable,
    is_secret=True,
    is_sensitive=accounts.is_of_staff,
)
EMAIL = Form(
    CHANGE_EMAIL,
    "Change the email address…",
    "Change the email address",
    (Field("new", "New email address", type="email", html={"autocomplete": "off"}),),
    name="email",
    card="Email",
    needs=MANAGE,
    view="manage_email",
    schema=ManageEmailArgs(),
    confirm=NOT_UNDONE,
    replaces="",
    is_offered=is_settable,
    is_secret=True,
    is_sensitive=accounts.is_of_staff,
)
ERASE = Form(
    ERASE_USER,
    "Erase this person…",
    "Erase {name}",
    card="Personal data",
    about=lambda target: [GOES.format(len(target.record["characters"])), STAYS],
    schema=ERASE_USER.arguments,
    is_offered=lambda target: target.id != guard.caller().id,
    confirm="What was erased cannot be brought back.",
    # The API also requires the name, and checks it.
    confirm_field="Confirm",
    lead=after_erasure,
    is_sensitive=True,
)
MAIL_CODE = Form(
    MAIL_RESET_CODE,
    "Mail a reset code…",
    "Mail {name} a code",
    name="mail-code",
    card="Password",
    about=lambda target: [ABOUT_MAIL.format(target.name, target.record["Email"])],
    is_sensitive=accounts.is_of_staff,
)
RESET = Form(
    RESET_FACTOR,
    "Reset the second factor…",
    "Reset the second factor",
    name="second-factor",
    card="Password",
    about="For somebody who has lost it: the password alone signs in again. A mail tells them.",
    is_offered=lambda target: (
        target.record["has_factor"] and is_settable(target) and target.id != guard.caller().id
    ),
    confirm=NOT_UNDONE,
    is_sensitive=True,
    lead=after_reset,
)
SIGN_IN = Form(
    RESET_SIGN_IN,
    "Reset the sign-in…",
    "Ask for the reset",
    (Field("Email", "New email address", "Only if the former is lost.", type="email"),),
    card="Password",
    needs=RESET_FACTOR.permissions,
    api="POST /api/v1/approvals",
    body=lambda sent: {
        **{"Operation": RESET_SIGN_IN.name, "Subject": sent.target.id},
        **{"Arguments": {"Email": sent.value("Email")}, "Reason": sent.value("reason", "WHY")},
    },
    about="For somebody of staff who has lost a phone or an address. Another colleague has to "
    "approve it. Then the second factor is removed, and all sign-ins end. A mail tells the person.",
    is_offered=lambda target: (
        not is_settable(target)
        and target.id != guard.caller().id
        and bool(guard.caller().rights.roles)
    ),
    is_sensitive=True,
    is_request=True,
)
SIGN_OUT = Form(
    REVOKE_TOKENS,
    "Sign out everywhere",
    "Sign {name} out",
    name="sign-out",
    about="All tokens and sessions of this account end at once.",
    confirm=NOT_UNDONE,
    is_sensitive=accounts.is_of_staff,
)
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
        *(UNBAN, BAN_USER, *penalty_forms(MUTE, "mute", "IsMuted")),
        *action_forms("users", user_subject),
        *(MAIL_CODE, PASSWORD, RESET, SIGN_IN, EMAIL, ERASE),
    ),
    "history": (),
    "notes": (note_form(NOTE_ON_USER),),
    "sign-ins": (SIGN_OUT, END_SIGN_IN),
}
