"""Roles, and who has them."""

from __future__ import annotations

from flask import Response

from app.auth import guard
from app.auth.callers import NotPeer
from app.auth.views import read_route
from app.errors import EmailTaken, NameTaken, NotFound
from app.execution import change_route
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, change_response, intent, keyed_intent
from app.naming import Lookup
from app.staff.domain import LastAdministrator, MayNotGive, RoleExists, UnknownRole, public_role
from app.staff.management import (
    change_role,
    create_role,
    invite,
    invite_again,
    list_staff,
    public_staff,
    remove_role,
    set_disabled,
    set_roles,
)
from app.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    INVITE,
    NEEDS,
    REMOVE_ROLE,
    SET_ROLES,
)
from app.staff.schemas import (
    RemovedRoleSchema,
    RoleListSchema,
    RoleSchema,
    StaffListSchema,
    StaffSchema,
)
from app.staff.store import Roles
from app.types import Document
from app.users.mail import NOUNS, MailNotConfigured
from app.users.store import RECORD, Users

of_roles = Blueprint("Roles", __name__, url_prefix="/api/v1/roles", group="Staff")
of_staff = Blueprint(
    "Staff", __name__, url_prefix="/api/v1/staff", description="Staff, and their roles."
)

roles = current(Roles)
users = current(Users)

ROLE = "/<role>"
unknown = NotFound("role", "event-team")
lacking = MayNotGive("the permission 'privacy.erase'")
GIVING = (lacking, LastAdministrator())
OF_STAFF = (NotPeer(), LastAdministrator())


@read_route(of_roles, "", RoleListSchema, *NEEDS)
def list_roles() -> Document:
    """List roles

    The shipped ones first.
    """
    return {"Values": [*map(public_role, roles.all().values())]}


@read_route(of_roles, ROLE, RoleSchema, *NEEDS, refuses=(unknown,))
def get_role(role: str) -> Document:
    """Get one role

    With its permissions and limits.
    """
    return roles.get(role)


@change_route(of_roles, CREATE_ROLE, "", RoleSchema, lacking, RoleExists("support"))
def create_new_role(args: Document) -> Response:
    """Make a role

    Nobody gives what they do not have: you need each permission of the role, and limits as high.
    """
    name = args.pop("Name")
    giver = guard.caller().rights
    return answer(create_role(name, args, giver, intent(CREATE_ROLE, Name=name, **args)))


@change_route(of_roles, CHANGE_ROLE, ROLE, RoleSchema, *GIVING, unknown, method="PUT")
def replace_role(args: Document, role: str) -> Response:
    """Change a role

    Replaces its permissions and limits. Everybody who has it notices within seconds.
    """
    giver = guard.caller().rights
    return answer(change_role(role, args, giver, intent(CHANGE_ROLE, **args)))


@change_route(of_roles, REMOVE_ROLE, ROLE, RemovedRoleSchema, *GIVING, unknown, method="DELETE")
def delete_role(role: str) -> Response:
    """Remove a role

    Those who have it lose what it allowed.
    """
    return answer(remove_role(role, guard.caller().rights, intent(REMOVE_ROLE)))


@read_route(of_staff, "", StaffListSchema, *NEEDS)
def list_all_staff() -> Document:
    """List staff

    All accounts with a role, or with a Power flag for the API, by name.
    """
    return {"Values": list_staff()}


@change_route(
    of_staff,
    INVITE,
    "",
    StaffSchema,
    NameTaken("newcomer"),
    EmailTaken("newcomer@example.com"),
    MailNotConfigured(NOUNS["invitation"]),
    lacking,
)
def invite_staff(args: Document) -> Response:
    """Invite a colleague

    Makes an account with these roles and without a password, and mails a link to choose one. The
    link works once, for seven days. If the mail cannot be sent, no account is made.
    """
    giver = guard.caller().rights
    wanted = {"Name": args["Name"], "Roles": args["Roles"]}
    # History must not contain the address.
    meant = keyed_intent(INVITE, wanted, unrecorded=("Name",))
    applied = invite(args["Name"], args["Email"], args["Roles"], giver, meant)
    return change_response(
        applied, public_staff(users.get(Lookup.parse((applied.entry or {})["Subject"]["Id"])))
    )


@change_route(
    of_staff,
    INVITE,
    "/<lookup:key>/invitation",
    StaffSchema,
    NotPeer(),
    MailNotConfigured(NOUNS["invitation"]),
    body=None,
)
def invite_staff_again(key: Lookup) -> Response:
    """Send an invitation again

    To somebody who has not chosen a password yet. The former link stops working.
    """
    applied = invite_again(key, guard.caller().rights, keyed_intent(INVITE, {}))
    return change_response(applied, public_staff(users.get(key)))


@change_route(
    of_staff,
    SET_ROLES,
    "/<lookup:key>/roles",
    StaffSchema,
    *OF_STAFF,
    lacking,
    UnknownRole("king", ["viewer", "support"]),
    method="PUT",
)
def set_staff_roles(args: Document, key: Lookup) -> Response:
    """Set the roles of a user

    Replaces them, except those that come from groups of the company's accounts.
    """
    giver = guard.caller().rights
    applied = set_roles(key, args["Roles"], giver, intent(SET_ROLES, Roles=args["Roles"]))
    return change_response(applied, public_staff(users.get(key, *RECORD)))


@change_route(of_staff, DISABLE_ACCOUNT, "/<lookup:key>/disable", StaffSchema, *OF_STAFF)
def disable_staff(key: Lookup) -> Response:
    """Disable an account of staff

    It can use neither the console nor the API, and its tokens and keys stop working within seconds.
    The person can still play.
    """
    applied = set_disabled(key, True, guard.caller().rights, intent(DISABLE_ACCOUNT))
    return change_response(applied, public_staff(users.get(key, *RECORD)))


@change_route(of_staff, ENABLE_ACCOUNT, "/<lookup:key>/enable", StaffSchema, *OF_STAFF)
def enable_staff(key: Lookup) -> Response:
    """Enable an account of staff

    It has the same roles as before.
    """
    applied = set_disabled(key, False, guard.caller().rights, intent(ENABLE_ACCOUNT))
    return change_response(applied, public_staff(users.get(key, *RECORD)))
