"""Changing roles, and who has them. Nobody gives more than they have."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.auth import guard
from app.auth.callers import callers
from app.core.changes import Change, Intent
from app.core.naming import Lookup
from app.core.permissions import (
    IN_ROLES,
    LIMIT_NAMES,
    LIMITED,
    NAMES,
    RIGHTS,
    KeyAccess,
    Permission,
    with_role,
    without_role,
)
from app.core.types import Document
from app.http.context import setting
from app.users.domain import change_power
from app.users.operations import account_operation as operation_of_accounts
from app.users.staff import domain
from app.users.staff.domain import READS, MayNotGive
from app.users.staff.invitations import invite, require_invitable
from app.users.staff.schemas import (
    InviteArgs,
    NewRoleArgs,
    PowerArgs,
    RoleArgs,
    RolesArgs,
)
from app.users.staff.store import roles, staff
from app.users.store import users

# No key may manage staff: it could give its account more.
NEEDS = (Permission.STAFF_MANAGE, KeyAccess.NONE)
# The rule of QM_APPROVAL for all of these.
RULE = "roles"
LACKING = MayNotGive("the permission 'privacy.erase'")
ACCOUNT = ("Name", "PasswordVersion", "Reset", *RIGHTS)


def create_role(role: Document, **args: Any) -> Change:
    holders = roles.count_holders(args["Name"])
    return domain.create_role(role, holders=holders, **_giving(args))


def change_role(role: Document, **args: Any) -> Change:
    return domain.change_role(role, **_giving(args))


def _giving(args: Document) -> Document:
    """Return what a role would give, by whom, and which role limits Power."""
    named = {*args["Permissions"]}
    named.update(IN_ROLES[name] for name in named & IN_ROLES.keys())
    wanted = {name: value for name, value in args.items() if name != "Name"}
    wanted["Permissions"] = [name for name in NAMES if name in named]
    giver, power_role = guard.own_rights(), setting("POWER_ROLE")
    return {"wanted": wanted, "giver": giver, "power_role": power_role}


def remove_role(role: Document) -> Change:
    return domain.remove_role(role, giver=guard.own_rights(), now=roles.now())


def set_roles(user: Document, **args: Any) -> Change:
    guard.require_peer(user)
    giver = guard.own_rights()
    return domain.set_roles(user, names=args["Roles"], roles=roles.all(), giver=giver)


def set_disabled(user: Document, *, is_disabled: bool) -> Change:
    guard.require_peer(user)
    return domain.set_disabled(user, is_disabled=is_disabled)


def rights_changes(before: Document, after: Document) -> list[Document]:
    """Return how the permissions and the limits of an account would change."""
    old, new = _rights_for_preview(before), _rights_for_preview(after)
    return [
        {"Path": path, "Before": value, "After": new[path]}
        for path, value in old.items()
        if value != new[path]
    ]


def _rights_for_preview(user: Document) -> Document:
    rights = callers.rights(user)
    shown: Document = {"Permissions": [p.value for p in Permission if p in rights.permissions]}
    for name, limited, most in zip(LIMIT_NAMES, LIMITED, rights.limits, strict=True):
        # Without the permission, nothing is allowed.
        shown[f"Limits.{name}"] = most if rights.permissions & limited else 0
    return shown


def preview_roles(key: Lookup, args: Document, intent: Intent) -> list[Document]:
    """Return the change of the roles, and what the person could then do."""
    changes = staff.preview(key, ACCOUNT, partial(set_roles, **args), intent)["Changes"]
    user = users.get(key, *RIGHTS)
    return [*changes, *rights_changes(user, {**user, "Roles": args["Roles"]})]


def preview_invitation(_: Any, args: Document, __: Intent) -> list[Document]:
    """Return what a colleague could do, or raise if nobody can be invited so."""
    account = require_invitable(args)
    users.require_unused(args["Name"], args["Email"])
    return [
        {"Path": "Roles", "Before": [], "After": account["Roles"]},
        *rights_changes({}, account),
    ]


account_operation = partial(operation_of_accounts, needs=NEEDS)
role_operation = partial(
    account_operation,
    subject="role",
    store=roles,
    reads=READS,
    no_undo="make the opposite change instead",
    approval=RULE,
)
CREATE_ROLE = role_operation(
    "create-role",
    title="Make the role",
    rule=create_role,
    sentence="Role made: {Permissions}",
    arguments=NewRoleArgs(),
)
CHANGE_ROLE = role_operation(
    "change-role",
    title="Change the role",
    rule=change_role,
    arguments=RoleArgs(),
)
REMOVE_ROLE = role_operation(
    "remove-role",
    title="Remove the role",
    rule=remove_role,
    sentence="Role removed",
)
SET_ROLES = account_operation(
    "set-roles",
    title="Set the roles",
    store=staff,
    reads=ACCOUNT,
    rule=set_roles,
    preview=preview_roles,
    no_undo="set the roles again instead",
    arguments=RolesArgs(),
    approval=RULE,
)
INVITE = account_operation(
    "invite",
    title="Invite a colleague",
    approval=RULE,
    run=invite,
    preview=preview_invitation,
    no_undo="a mail that was sent stays sent",
    sentence="Invited by mail{Roles:; roles: }{Roles}",
    arguments=InviteArgs(),
    notice="Mailed {whom} an invitation.",
    takes_key=True,
)
# At the command line alone; over HTTP, people are given roles.
power_operation = partial(
    account_operation, store=staff, reads=RIGHTS, arguments=PowerArgs(), needs=None
)
GRANT_ROLE = power_operation(
    "grant-role",
    rule=partial(change_power, change=with_role),
    no_undo="quartermaster api revoke takes a role",
    sentence="Role {Role} granted",
)
REVOKE_ROLE = power_operation(
    "revoke-role",
    rule=partial(change_power, change=without_role),
    no_undo="quartermaster api grant gives a role",
    sentence="Role {Role} revoked",
)
DISABLE_ACCOUNT = account_operation(
    "disable-account",
    store=staff,
    reads=ACCOUNT,
    rule=partial(set_disabled, is_disabled=True),
    no_undo="enable the account instead",
    sentence="Disabled for the console and the API",
)
ENABLE_ACCOUNT = account_operation(
    "enable-account",
    store=staff,
    reads=ACCOUNT,
    rule=partial(set_disabled, is_disabled=False),
    no_undo="disable the account instead",
    sentence="Enabled for the console and the API",
)
