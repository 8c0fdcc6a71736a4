"""Changing roles, and who has them."""

from __future__ import annotations

from typing import Any

from app.auth.permissions import Permission
from app.auth.scopes import KeyAccess
from app.operations import Operation
from app.staff.schemas import InviteArgs, NewRoleArgs, RoleArgs, RolesArgs
from app.users.operations import account_operation

# No key may manage staff: it could give its account more.
NEEDS = (Permission.STAFF_MANAGE, KeyAccess.NONE)
MADE_BY = "app/staff/management, which checks what the giver has"


def _role_operation(name: str, sentence: str, arguments: Any, inverse: str) -> Operation:
    return Operation(
        name=name,
        subject="role",
        needs=NEEDS,
        arguments=arguments,
        prepare=MADE_BY,
        inverse=inverse,
        moves=None,
        batch=None,
        sentence=sentence,
        takes_key=False,
    )


CREATE_ROLE = _role_operation("create-role", "Role made", NewRoleArgs(), "remove the role instead")
CHANGE_ROLE = _role_operation(
    "change-role", "Role changed", RoleArgs(), "change the role again instead"
)
REMOVE_ROLE = _role_operation("remove-role", "Role removed", None, "make the role again instead")
SET_ROLES = account_operation(
    "set-roles",
    made_by=MADE_BY,
    inverse="set the roles again instead",
    sentence="Roles set",
    arguments=RolesArgs(),
    needs=NEEDS,
)
INVITE = account_operation(
    "invite",
    made_by="app/users/invitations, which sends a mail",
    inverse="a mail that was sent stays sent",
    sentence="Invited by mail",
    arguments=InviteArgs(),
    needs=NEEDS,
    notice="Mailed {whom} an invitation.",
    takes_key=True,
)
DISABLE_ACCOUNT = account_operation(
    "disable-account",
    made_by=MADE_BY,
    inverse="enable the account instead",
    sentence="Disabled for the console and the API",
    needs=NEEDS,
)
ENABLE_ACCOUNT = account_operation(
    "enable-account",
    made_by=MADE_BY,
    inverse="disable the account instead",
    sentence="Enabled for the console and the API",
    needs=NEEDS,
)
