"""Changing roles, and who has them. Nobody gives more than they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from app.auth import guard
from app.auth.callers import Callers
from app.core.changes import Applied, Change, Intent
from app.core.errors import InvalidField
from app.core.naming import Lookup
from app.core.operations import BY_CHANGES, Prepared
from app.core.permissions import (
    IN_ROLES,
    LIMIT_NAMES,
    LIMITED,
    NAMES,
    RIGHTS,
    KeyAccess,
    Permission,
)
from app.core.types import Document
from app.http.context import current, setting
from app.users import invitations
from app.users.operations import account_operation as operation_of_accounts
from app.users.staff import domain
from app.users.staff.domain import READS, MayNotGive
from app.users.staff.schemas import (
    InviteArgs,
    NewRoleArgs,
    RoleArgs,
    RolesArgs,
)
from app.users.staff.store import Roles, Staff
from app.users.store import Users

# No key may manage staff: it could give its account more.
NEEDS = (Permission.STAFF_MANAGE, KeyAccess.NONE)
# The rule of QM_APPROVAL for all of these.
RULE = "roles"
LACKING = MayNotGive("the permission 'privacy.erase'")
ACCOUNT = ("Name", "PasswordVersion", "Reset", *RIGHTS)

callers = current(Callers)
roles = current(Roles)
staff = current(Staff)
users = current(Users)


def prepare_creation(args: Document) -> Prepared:
    wanted, holders = {**args}, roles.count_holders(args["Name"])
    del wanted["Name"]
    return Prepared(READS, partial(domain.create_role, holders=holders, **_given(wanted)))


def _given(wanted: Document) -> Document:
    """Return what a role would give, by whom, and which role limits Power."""
    named = {*wanted["Permissions"]}
    named.update(IN_ROLES[name] for name in named & IN_ROLES.keys())
    permissions = [name for name in NAMES if name in named]
    giver, power_role = guard.own_rights(), setting("POWER_ROLE")
    return {
        "wanted": {**wanted, "Permissions": permissions},
        "giver": giver,
        "power_role": power_role,
    }


def prepare_change(args: Document) -> Prepared:
    return Prepared(READS, partial(domain.change_role, **_given(args)))


def prepare_removal(_: Document) -> Prepared:
    rule = partial(domain.remove_role, giver=guard.own_rights(), now=roles.now())
    return Prepared(READS, rule)


def setting_roles() -> partial[Change]:
    """Return the rule that gives an account roles, which the caller must be able to give."""
    return partial(domain.set_roles, roles=roles.all(), giver=guard.own_rights())


def prepare_roles(args: Document) -> Prepared:
    return _of_peer(partial(setting_roles(), names=args["Roles"]))


def prepare_disabling(_: Document, is_disabled: bool) -> Prepared:
    return _of_peer(partial(domain.set_disabled, is_disabled=is_disabled))


def _of_peer(rule: Callable[[Document], Change]) -> Prepared:
    """Return the change of an account that may do no more than the caller."""

    def checked(user: Document) -> Change:
        guard.require_peer(user)
        return rule(user)

    return Prepared(ACCOUNT, checked)


def rights_changes(before: Document, after: Document) -> Iterator[Document]:
    """Yield how the permissions and the limits of an account would change."""
    old, new = callers.rights(before), callers.rights(after)
    held = [[p.value for p in Permission if p in one.permissions] for one in (old, new)]
    if held[0] != held[1]:
        yield {"Path": "Permissions", "Before": held[0], "After": held[1]}
    for name, limited, *most in zip(LIMIT_NAMES, LIMITED, old.limits, new.limits, strict=True):
        # Without the permission, nothing is allowed.
        was, will_be = (
            most[number] if one.permissions & limited else 0
            for number, one in enumerate((old, new))
        )
        if was != will_be:
            yield {"Path": f"Limits.{name}", "Before": was, "After": will_be}


def preview_roles(key: Lookup, args: Document, intent: Intent) -> list[Document]:
    """Return the change of the roles, and what the person could then do."""
    changes = staff.preview(key, *prepare_roles(args), intent)["Changes"]
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


def invite(_: Any, args: Document, intent: Intent) -> Applied:
    """Invite a colleague to an account with these roles."""
    return invitations.invite(args["Name"], args["Email"], intent, **require_invitable(args))


def mail_invitation(args: Document, intent: Intent) -> None:
    """Mail an invitation that is being approved."""
    invitations.mail(args["Name"], args["Email"], invitations.new_invitation(intent))


def add_invited(args: Document, intent: Intent) -> Applied:
    """Add the account of an invitation that is being approved, and that was mailed."""
    invited, fields = invitations.new_invitation(intent), require_invitable(args)
    return invitations.add(args["Name"], args["Email"], invited, intent, **fields)


def invite_again(key: Lookup, intent: Intent) -> Applied:
    """Send an invitation again to somebody who may do no more than the caller."""
    guard.require_peer(users.get(key, *RIGHTS))
    return invitations.invite_again(key, intent)


def require_invitable(args: Document) -> Document:
    """Return the account of a colleague as it would be, or raise if the caller may not invite."""
    if not args["Roles"]:
        raise InvalidField("Roles", "Must contain a role: otherwise the account could do nothing.")
    return {**setting_roles()({"_id": ""}, names=args["Roles"]).fields}


account_operation = partial(operation_of_accounts, needs=NEEDS)
role_operation = partial(
    account_operation,
    subject="role",
    store=roles,
    no_undo="make the opposite change instead",
    approval=RULE,
)
CREATE_ROLE = role_operation(
    "create-role",
    title="Make the role",
    prepare=prepare_creation,
    sentence="Role made: {Permissions}",
    arguments=NewRoleArgs(),
)
CHANGE_ROLE = role_operation(
    "change-role",
    title="Change the role",
    prepare=prepare_change,
    sentence=BY_CHANGES,
    arguments=RoleArgs(),
)
REMOVE_ROLE = role_operation(
    "remove-role",
    title="Remove the role",
    prepare=prepare_removal,
    sentence="Role removed",
)
SET_ROLES = account_operation(
    "set-roles",
    title="Set the roles",
    store=staff,
    prepare=prepare_roles,
    preview=preview_roles,
    no_undo="set the roles again instead",
    sentence=BY_CHANGES,
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
DISABLE_ACCOUNT = account_operation(
    "disable-account",
    store=staff,
    prepare=partial(prepare_disabling, is_disabled=True),
    no_undo="enable the account instead",
    sentence="Disabled for the console and the API",
)
ENABLE_ACCOUNT = account_operation(
    "enable-account",
    store=staff,
    prepare=partial(prepare_disabling, is_disabled=False),
    no_undo="disable the account instead",
    sentence="Enabled for the console and the API",
)
