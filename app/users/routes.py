"""User accounts: lists and lookup, registering, passwords, addresses, characters."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, request
from werkzeug.exceptions import MethodNotAllowed

from app.auth import guard
from app.auth.callers import Callers
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.errors import (
    EmailTaken,
    InvalidCredentials,
    NameTaken,
    RateLimited,
)
from app.execution import change_route
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import change_response, intent
from app.http.json import json_response
from app.http.lists import (
    ASCENDING,
    LegacyListArgs,
    deprecated_headers,
    legacy_envelope,
    legacy_window,
    paged_envelope,
    paged_window,
)
from app.naming import Lookup
from app.paging import Page
from app.players.schemas import PlayerSchema
from app.players.store import Players
from app.users import accounts
from app.users.domain import (
    WrongCode,
    WrongPassword,
    changed_power,
    queried_power,
    require_email,
    require_username,
    served,
    valid_code,
)
from app.users.hashing import Hasher
from app.users.mail import Mailer, MailNotConfigured
from app.users.operations import (
    CHANGE_EMAIL,
    CHANGE_PASSWORD,
    MAIL_RESET_CODE,
    REGISTER,
    RESET_PASSWORD,
)
from app.users.schemas import (
    ChangedUserSchema,
    ChangeEmailArgs,
    ChangePasswordArgs,
    LegacyUserPageSchema,
    MessageSchema,
    PasswordArgs,
    RegisteredSchema,
    UserListArgs,
    UserPageSchema,
    UserSchema,
)
from app.users.store import Users

PREFIX = "/api/v1/users"

blp = Blueprint("Users", __name__, url_prefix=PREFIX, description="User accounts.")

callers = current(Callers)
mailer = current(Mailer)
hasher = current(Hasher)
players = current(Players)
users = current(Users)

query = guard.required(Scope.USERS_READ, Role.USERS_QUERY)
change = guard.required(Scope.USERS_CHANGE, Role.USERS_QUERY)
# Without the password of the account.
MANAGE = (Scope.USERS_MANAGE, Role.USERS_QUERY, Role.USERS_MANAGE)


@blp.route("")
@query
@blp.arguments(UserListArgs(), location="query")
@blp.documents_response(200, UserPageSchema)
def list_users(args: dict[str, Any]) -> Response:
    """List users

    By name unless asked otherwise. The order is total, so pages neither skip nor repeat while
    nothing changes. A page past the end is empty, with the right Total. To read all of a long
    list, begin with an empty `after` and go on with the Next of each answer.
    """
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    ascending = args["sortDirection"] == ASCENDING
    page = users.list(window, args.get("search"), args["sortBy"], ascending)
    return json_response(paged_envelope(window, shown_page(page)))


@blp.route("", methods=["POST"])
@query
@blp.arguments(LegacyListArgs(), required=False)
@blp.documents_response(200, LegacyUserPageSchema)
@blp.doc(deprecated=True)
def list_users_by_body(args: dict[str, Any]) -> Response:
    """List users, the way before GET

    By name, in the former envelope.
    """
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    body = legacy_envelope(window, shown_page(users.list(window)))
    return json_response(body, headers=deprecated_headers(PREFIX))


@blp.route("/<lookup:key>")
@query
@blp.documents_response(200, UserSchema)
def get_user(key: Lookup) -> Response:
    """Get one user

    By username or id.
    """
    return json_response(shown(users.get(key), queried_power))


@change_route(
    blp,
    REGISTER,
    "/register",
    RegisteredSchema,
    NameTaken("newcomer"),
    EmailTaken("newcomer@example.com"),
)
def register_user(args: dict[str, Any]) -> Response:
    """Register a user

    The new account has no power of any kind. Names and addresses are unique without case.
    """
    require_username(args["username"], "username")
    require_email(args["email"], "email")
    meant = intent(REGISTER)
    password_hash = hasher.hash(args["password"])
    applied = users.create(args["username"], args["email"], password_hash, meant)
    user = applied.answer
    return change_response(applied, {"Username": user["Name"], "Email": user["Email"]})


@blp.route("/<lookup:key>/password/validate", methods=["POST"])
@change
@blp.arguments(PasswordArgs())
@blp.documents_response(200, MessageSchema, example={"Message": "Password Correct"})
@blp.refuses(WrongPassword(), RateLimited("account", 600))
def validate_password(args: dict[str, Any], key: Lookup) -> Response:
    """Check a user's password

    A wrong one is a 400. After some failures, no further attempt is looked at for a while.
    """
    accounts.check_password(key, args["password"], WrongPassword())
    return json_response({"Message": "Password Correct"})


@change_route(
    blp,
    CHANGE_EMAIL,
    "/<lookup:key>/email/change",
    ChangedUserSchema,
    EmailTaken("moved@example.com"),
    InvalidCredentials(),
    RateLimited("account", 600),
    body=ChangeEmailArgs(),
)
def change_email(args: dict[str, Any], key: Lookup) -> Response:
    """Change a user's email with the current password

    A code that was mailed to the former address no longer works.
    """
    accounts.refuse_own_account(key)
    require_email(args["new"], "new")
    meant = intent(CHANGE_EMAIL)
    checked = accounts.check_password(key, args["authorization"], InvalidCredentials())
    applied = users.change_email(key, args["new"], meant, checked)
    return change_response(applied, shown(users.get(key), changed_power))


@change_route(
    blp,
    CHANGE_PASSWORD,
    "/<lookup:key>/password/change",
    MessageSchema,
    InvalidCredentials(),
    RateLimited("account", 600),
    body=ChangePasswordArgs(),
)
def change_password(args: dict[str, Any], key: Lookup) -> Response:
    """Change a user's password with the current one

    All tokens of the user are revoked.
    """
    accounts.refuse_own_account(key)
    meant = intent(CHANGE_PASSWORD)
    checked = accounts.check_password(key, args["authorization"], InvalidCredentials())
    applied = accounts.set_password(key, args["new"], meant, checked)
    return change_response(applied, {"Message": "Password Updated"})


@change_route(
    blp,
    MAIL_RESET_CODE,
    "/<lookup:key>/password/reset",
    MessageSchema,
    MailNotConfigured(),
    RateLimited("account", 600),
    method="GET",
    example={"Message": "Password reset email sent."},
)
def send_reset_code(key: Lookup) -> Response:
    """Mail a user a code to reset the password

    The code works once, for half an hour, and replaces any former one.
    """
    accounts.refuse_own_account(key)
    if request.method == "HEAD":  # Flask routes HEAD to GET views, and HEAD must have no effect
        raise MethodNotAllowed(["GET", "POST"])
    seconds = current_app.config["RESET_CODE_SECONDS"]
    applied = accounts.mail_reset_code(key, seconds, intent(MAIL_RESET_CODE))
    return change_response(applied, {"Message": "Password reset email sent."})


@change_route(
    blp,
    RESET_PASSWORD,
    "/<lookup:key>/password/reset",
    MessageSchema,
    WrongCode(),
    RateLimited("account", 600),
)
def redeem_reset_code(args: dict[str, Any], key: Lookup) -> Response:
    """Set a new password with the code from the mail

    Five wrong tries void the code. All tokens of the user are revoked.
    """
    accounts.refuse_own_account(key)
    meant = intent(RESET_PASSWORD)
    applied = accounts.redeem_reset_code(key, args["code"], args["new"], meant)
    return change_response(applied, {"Message": "Password Updated"})


@blp.route("/<lookup:key>/players")
@query
@blp.documents_response(200, PlayerSchema(many=True))
def list_characters(key: Lookup) -> Response:
    """List a user's characters

    All of them, in the order in which they were made.
    """
    return json_response(players.list_of_user(users.get(key, "_id")["_id"]))


@blp.route("/<lookup:key>/players/<lookup:character>")
@query
@blp.documents_response(200, PlayerSchema)
def get_character(key: Lookup, character: Lookup) -> Response:
    """Get one of a user's characters

    By id, else by name, else by place in the list of the user's characters.
    """
    return json_response(players.get_of_user(users.get(key, "_id")["_id"], character))


@change_route(
    blp,
    CHANGE_EMAIL,
    "/<lookup:key>/manage/email/change",
    ChangedUserSchema,
    EmailTaken("moved@example.com"),
    needs=MANAGE,
)
def manage_email(args: dict[str, Any], key: Lookup) -> Response:
    """Change a user's email without the password

    For support staff. A code that was mailed to the former address no longer works.
    """
    accounts.refuse_own_account(key)
    require_email(args["new"], "new")
    applied = users.change_email(key, args["new"], intent(CHANGE_EMAIL))
    return change_response(applied, shown(users.get(key), changed_power))


@change_route(
    blp,
    CHANGE_PASSWORD,
    "/<lookup:key>/manage/password/change",
    MessageSchema,
    needs=MANAGE,
    example={"Message": "Password Correct"},
)
def manage_password(args: dict[str, Any], key: Lookup) -> Response:
    """Change a user's password without the current one

    For support staff. All tokens of the user are revoked.
    """
    accounts.refuse_own_account(key)
    applied = accounts.set_password(key, args["new"], intent(CHANGE_PASSWORD))
    # Not "Password Updated": the contract words this answer like that of a check.
    return change_response(applied, {"Message": "Password Correct"})


def shown(user: dict[str, Any], power: Any) -> dict[str, Any]:
    """Return a user's record, with the reset code for those who manage users."""
    now = users.now()
    may_see = guard.caller().may(Role.USERS_MANAGE, Scope.USERS_MANAGE)
    return served(user, power, valid_code(user, now) if may_see else None, now)


def shown_page(page: Page) -> Page:
    return page._replace(values=[shown(user, queried_power) for user in page.values])
