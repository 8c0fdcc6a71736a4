"""Roles, and who has them."""

from __future__ import annotations

from flask import Response

from app.auth.callers import NotPeer
from app.auth.execution import change_route
from app.auth.views import read_route
from app.core.errors import EmailTaken, NameTaken, NotFound
from app.core.naming import Lookup
from app.core.permissions import RIGHTS
from app.core.types import Document
from app.http.api import Blueprint
from app.http.intents import answer, intent
from app.users.mail import INVITATION, MailNotConfigured
from app.users.staff.domain import (
    LastAdministrator,
    RoleExists,
    UnknownRole,
    public_role,
    public_staff,
)
from app.users.staff.invitations import invite_again
from app.users.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    INVITE,
    LACKING,
    NEEDS,
    REMOVE_ROLE,
    SET_ROLES,
)
from app.users.staff.schemas import (
    RemovedRoleSchema,
    RoleListSchema,
    RoleSchema,
    StaffListSchema,
    StaffSchema,
)
from app.users.staff.store import roles, staff

of_roles = Blueprint("Roles", __name__, url_prefix="/api/v1/roles", group="Staff")
of_staff = Blueprint(
    "Staff", __name__, url_prefix="/api/v1/staff", description="Staff, and their roles."
)


NO_MAIL = MailNotConfigured(INVITATION.noun)


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


change_route(
    of_staff,
    INVITE,
    "",
    StaffSchema,
    NameTaken("newcomer"),
    EmailTaken("newcomer@example.com"),
    NO_MAIL,
    LACKING,
    view="invite_staff",
    about="""Invite a colleague

    Makes an account with these roles and without a password, and mails a link to choose one. The
    link works once, for seven days. If the mail cannot be sent, no account is made.
    """,
)


@change_route(
    of_staff, INVITE, "/<lookup:key>/invitation", StaffSchema, NotPeer(), NO_MAIL, body=None
)
def invite_staff_again(key: Lookup) -> Response:
    """Send an invitation again

    To somebody who has not chosen a password yet. The former link stops working.
    """
    return answer(invite_again(key, intent(INVITE)))


change_route(
    of_roles,
    CREATE_ROLE,
    "",
    RoleSchema,
    LACKING,
    RoleExists("support"),
    view="create_new_role",
    about="""Make a role

    Nobody gives what they do not have: you need each permission of the role, and limits as
    high.
    """,
)
change_route(
    of_roles,
    CHANGE_ROLE,
    "/<role>",
    RoleSchema,
    LACKING,
    LastAdministrator(),
    method="PUT",
    view="replace_role",
    about="""Change a role

    Replaces its permissions and limits. Everybody who has it notices within seconds.
    """,
)
change_route(
    of_roles,
    REMOVE_ROLE,
    "/<role>",
    RemovedRoleSchema,
    LACKING,
    LastAdministrator(),
    method="DELETE",
    view="delete_role",
    about="""Remove a role

    Those who have it lose what it allowed.
    """,
)
change_route(
    of_staff,
    SET_ROLES,
    "/<lookup:key>/roles",
    StaffSchema,
    NotPeer(),
    LastAdministrator(),
    LACKING,
    UnknownRole("king", ["viewer", "support"]),
    method="PUT",
    view="set_staff_roles",
    about="""Set the roles of a user

    Replaces them, except those that come from groups of the company's accounts.
    """,
)
change_route(
    of_staff,
    DISABLE_ACCOUNT,
    "/<lookup:key>/disable",
    StaffSchema,
    NotPeer(),
    LastAdministrator(),
    view="disable_staff",
    about="""Disable an account of staff

    It can use neither the console nor the API, and its tokens and keys stop working within
    seconds. The person can still play.
    """,
)
change_route(
    of_staff,
    ENABLE_ACCOUNT,
    "/<lookup:key>/enable",
    StaffSchema,
    NotPeer(),
    LastAdministrator(),
    view="enable_staff",
    about="""Enable an account of staff

    It has the same roles as before.
    """,
)
