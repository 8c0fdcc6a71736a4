"""Roles, and who has them."""

from __future__ import annotations

from flask import Response

from app.auth.callers import NotPeer
from app.auth.permissions import RIGHTS
from app.auth.views import read_route
from app.errors import EmailTaken, NameTaken, NotFound
from app.execution import change_route, change_routes, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import change_response, keyed_intent
from app.naming import Lookup
from app.staff import operations
from app.staff.domain import public_role, public_staff
from app.staff.operations import INVITE, LACKING, NEEDS
from app.staff.schemas import RoleListSchema, RoleSchema, StaffListSchema, StaffSchema
from app.staff.store import Roles, Staff
from app.types import Document
from app.users.mail import NOUNS, MailNotConfigured
from app.users.store import Users

of_roles = Blueprint("Roles", __name__, url_prefix="/api/v1/roles", group="Staff")
of_staff = Blueprint(
    "Staff", __name__, url_prefix="/api/v1/staff", description="Staff, and their roles."
)

roles = current(Roles)
staff = current(Staff)
users = current(Users)

NO_MAIL = MailNotConfigured(NOUNS["invitation"])


@read_route(of_roles, "", RoleListSchema, *NEEDS)
def list_roles() -> Document:
    """List roles

    The shipped ones first.
    """
    return {"Values": [*map(public_role, roles.all().values())]}


@read_route(of_roles, "/<role>", RoleSchema, *NEEDS, refuses=(NotFound("role", "event-team"),))
def get_role(role: str) -> Document:
    """Get one role

    With its permissions and limits.
    """
    return public_role(roles.get(role))


@read_route(of_staff, "", StaffListSchema, *NEEDS)
def list_all_staff() -> Document:
    """List staff

    All accounts with a role, or whose Power lets them use the API, by name.
    """
    return {"Values": [*map(public_staff, staff.walk("Name", *RIGHTS))]}


@change_route(
    *(of_staff, INVITE, "", StaffSchema),
    *(NameTaken("newcomer"), EmailTaken("newcomer@example.com"), NO_MAIL, LACKING),
)
def invite_staff(args: Document) -> Response:
    """Invite a colleague

    Makes an account with these roles and without a password, and mails a link to choose one. The
    link works once, for seven days. If the mail cannot be sent, no account is made.
    """
    applied = execute(INVITE, None, args)
    id_ = (applied.entry or {})["Subject"]["Id"]
    return change_response(applied, public_staff(users.get(Lookup.parse(id_))))


@change_route(
    of_staff, INVITE, "/<lookup:key>/invitation", StaffSchema, NotPeer(), NO_MAIL, body=None
)
def invite_staff_again(key: Lookup) -> Response:
    """Send an invitation again

    To somebody who has not chosen a password yet. The former link stops working.
    """
    applied = operations.invite_again(key, keyed_intent(INVITE, {}))
    return change_response(applied, public_staff(users.get(key)))


change_routes(of_roles, operations, "role")
change_routes(of_staff, operations, "user")
