"""User accounts: lists, lookup, registration, passwords, addresses, characters."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response, request
from werkzeug.exceptions import MethodNotAllowed

from app.auth import guard
from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.changes import Applied
from app.core.errors import EmailTaken, InvalidCredentials, NameTaken, RateLimited
from app.core.naming import Lookup
from app.core.paging import Page, Window
from app.core.penalties import MUTE, is_in_force
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.intents import change_response
from app.http.lists import ASCENDING, LegacyListArgs, legacy_list, paged_list
from app.players.schemas import PlayerSchema
from app.players.store import players
from app.players.variables.domain import variable_records
from app.players.variables.schemas import VariableSchema
from app.users import accounts
from app.users.domain import (
    SignInOfStaff,
    WrongCode,
    WrongPassword,
    changed_power,
    queried_power,
    shown_code,
)
from app.users.mail import RESET, MailNotConfigured
from app.users.operations import (
    CHANGE_EMAIL,
    CHANGE_PASSWORD,
    MAIL_RESET_CODE,
    REGISTER,
    RENAME_USER,
    RESET_PASSWORD,
)
from app.users.schemas import (
    ChangedUserSchema,
    LegacyUserPageSchema,
    ManageEmailArgs,
    ManagePasswordArgs,
    MessageSchema,
    NamedUserSchema,
    PasswordArgs,
    RegisteredSchema,
    UserListArgs,
    UserPageSchema,
    UserSchema,
)
from app.users.store import users

PREFIX = "/api/v1/users"

blp = Blueprint("Users", __name__, url_prefix=PREFIX, description="User accounts.")


read = partial(read_route, blp)
QUERY = (Permission.USERS_READ,)
# Without the password of the account.
MANAGE = (Permission.USERS_FIND, Permission.USERS_MANAGE)
locked = RateLimited("account", 600)


@read("", UserPageSchema, *QUERY, args=UserListArgs())
def list_users(args: Document) -> Document:
    """List users

    By name, unless `sortBy` is given. While nothing changes, pages neither skip nor repeat records.
    A page past the end is empty, with the right Total. To read all of a long list, begin with an
    empty `after`, then send the Next of each answer.
    """
    is_ascending = args["sortDirection"] == ASCENDING
    order = {"order": args["sortBy"], "ascending": is_ascending}
    return paged_list(args, partial(list_records, search=args.get("search"), **order))


@read("", LegacyUserPageSchema, *QUERY, args=LegacyListArgs(), method="POST", successor=PREFIX)
def list_users_by_body(args: Document) -> Document:
    """List users (deprecated)

    By name, in the deprecated envelope.
    """
    return legacy_list(args, list_records)


@read("/<lookup:key>", UserSchema, *QUERY)
def get_user(key: Lookup) -> Document:
    """Get one user

    By username or id.
    """
    return user_record(users.get(key), queried_power)


change_route(
    blp,
    REGISTER,
    "/register",
    RegisteredSchema,
    NameTaken("newcomer"),
    EmailTaken("newcomer@example.com"),
    view="register_user",
    about="""Register a user

    The new account has no roles. Names and addresses are unique, regardless of case.
    """,
)


@read(
    "/<lookup:key>/password/validate",
    MessageSchema,
    Permission.USERS_CHANGE,
    args=PasswordArgs(),
    method="POST",
    refuses=(WrongPassword(), locked),
    example={"Message": "Password Correct"},
)
def validate_password(args: Document, key: Lookup) -> Document:
    """Check a user's password

    A wrong password is a 400. After several failures, attempts are refused for a while.
    """
    accounts.check_password(key, args["password"], WrongPassword())
    return {"Message": "Password Correct"}


@change_route(
    blp,
    CHANGE_EMAIL,
    "/<lookup:key>/email/change",
    ChangedUserSchema,
    EmailTaken("moved@example.com"),
    InvalidCredentials(),
    locked,
)
def change_email(args: Document, key: Lookup) -> Response:
    """Change a user's email with the current password

    A code mailed to the former address stops working.
    """
    return user_response(execute(CHANGE_EMAIL, key, args), key)


change_route(
    blp,
    CHANGE_PASSWORD,
    "/<lookup:key>/password/change",
    MessageSchema,
    InvalidCredentials(),
    locked,
    view="change_password",
    about="""Change a user's password with the current one

    All tokens of the user are revoked.
    """,
)


@change_route(
    blp,
    MAIL_RESET_CODE,
    "/<lookup:key>/password/reset",
    MessageSchema,
    MailNotConfigured(RESET.noun),
    locked,
    method="GET",
    example={"Message": "Password reset email sent."},
)
def send_reset_code(key: Lookup) -> Response:
    """Mail a user a code to reset the password

    The code works once, for half an hour, and replaces an earlier one.
    """
    if request.method == "HEAD":  # Flask routes HEAD to GET views, and HEAD must have no effect
        raise MethodNotAllowed(["GET", "POST"])
    applied = execute(MAIL_RESET_CODE, key, {})
    return change_response(applied, {"Message": "Password reset email sent."})


change_route(
    blp,
    RESET_PASSWORD,
    "/<lookup:key>/password/reset",
    MessageSchema,
    WrongCode(),
    locked,
    view="redeem_reset_code",
    about="""Set a new password with the code from the mail

    After five wrong attempts, the code expires. All tokens of the user are revoked.
    """,
)


@read("/<lookup:key>/players", PlayerSchema(many=True), *QUERY)
def list_characters(key: Lookup) -> Any:
    """List a user's characters

    All of them, in the order of their creation.
    """
    return players.list_of_user(users.get_id(key))


@read("/<lookup:owner>/players/<lookup:character>", PlayerSchema, *QUERY)
def get_character(owner: Lookup, character: Lookup) -> Document:
    """Get one of a user's characters

    By id, name, or position in the list of the user's characters.
    """
    return players.get_of_user(users.get_id(owner), character)


@read("/<lookup:key>/variables", VariableSchema(many=True), *QUERY)
def list_user_variables(key: Lookup) -> list[Document]:
    """List the variables of a user

    In order of id: the numbers and booleans that the game stores as `Variables` of the account.
    """
    stored = users.get(key, "Variables").get("Variables")
    variables = stored if isinstance(stored, dict) else {}
    return variable_records(
        {id_: value for id_, value in variables.items() if isinstance(value, int)}
    )


@change_route(
    blp,
    CHANGE_EMAIL,
    "/<lookup:key>/manage/email/change",
    ChangedUserSchema,
    EmailTaken("moved@example.com"),
    SignInOfStaff(),
    body=ManageEmailArgs(),
    needs=MANAGE,
)
def manage_email(args: Document, key: Lookup) -> Response:
    """Change a user's email without the password

    For support staff, but not of an account with a role of staff. A code mailed to the former
    address stops working.
    """
    return user_response(execute(CHANGE_EMAIL, key, args), key)


change_route(
    blp,
    RENAME_USER,
    "/<lookup:key>/name",
    NamedUserSchema,
    NameTaken("norunvel2"),
    view="rename_user",
    about="""Rename a user

    Names are unique, regardless of case. The user signs in with the new name from then on.
    """,
)
change_route(
    blp,
    CHANGE_PASSWORD,
    "/<lookup:key>/manage/password/change",
    MessageSchema,
    SignInOfStaff(),
    body=ManagePasswordArgs(),
    needs=MANAGE,
    example={"Message": "Password Correct"},
    view="manage_password",
    about="""Change a user's password without the current one

    For support staff, but not of an account with a role of staff. All tokens of the user are
    revoked.
    """,
)


def user_response(applied: Applied, key: Lookup) -> Response:
    return change_response(applied, user_record(users.get(key), changed_power))


def user_record(user: Document, power: Any) -> Document:
    """Return a user's record, with the reset code for those who manage users."""
    now = users.now()
    # A code lets its reader sign in as the user.
    may_see = guard.caller().may(Permission.USERS_MANAGE) and guard.is_peer(user)
    is_muted = is_in_force(user, MUTE, now)
    return {
        "Id": user["_id"],
        "Name": user["Name"],
        "Email": user["Email"],
        "Power": power(user["Power"]),
        "PasswordResetCode": shown_code(user, now) if may_see else None,
        "IsMuted": is_muted,
        "MuteReason": user["MuteReason"] if is_muted else None,
    }


def list_records(window: Window, **options: Any) -> Page:
    page = users.list(window, **options)
    return page._replace(values=[user_record(user, queried_power) for user in page.values])
