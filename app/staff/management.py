"""Changes roles, and who has them, for somebody who may give no more than they have."""

from __future__ import annotations

from functools import partial

from app.auth import guard
from app.auth.approval import require_no_approval
from app.auth.callers import Callers
from app.auth.permissions import RIGHTS, Rights, all_role_names, permissions_of_role, role_names
from app.changes import Applied, Intent
from app.errors import InvalidField
from app.http.context import current
from app.naming import Lookup
from app.staff import domain
from app.staff.domain import READS
from app.staff.store import Roles, Staff
from app.types import Document
from app.users import invitations
from app.users.store import Users

callers = current(Callers)
roles = current(Roles)
staff = current(Staff)
users = current(Users)


def create_role(name: str, wanted: Document, giver: Rights | None, intent: Intent) -> Applied:
    """Make a role. A giver of None, at the command line or approved, may give anything."""
    _require_approved(intent)
    domain.require_given(giver, wanted)
    if holders := staff.count_with(name):
        raise domain.RoleHeld(holders)
    restore = partial(domain.restore_role, wanted=wanted, giver=giver)
    return roles.create(name, wanted, restore, intent)


def change_role(name: str, wanted: Document, giver: Rights | None, intent: Intent) -> Applied:
    _require_approved(intent)
    with staff.one_at_a_time():
        _require_administrator_after(name, wanted)
        rule = partial(domain.change_role, wanted=wanted, giver=giver)
        applied = roles.change(name, READS, rule, intent)
    callers.forget()
    return applied


def remove_role(name: str, giver: Rights | None, intent: Intent) -> Applied:
    _require_approved(intent)
    with staff.one_at_a_time():
        _require_administrator_after(name, {})
        rule = partial(domain.remove_role, giver=giver, now=roles.now())
        applied = roles.change(name, READS, rule, intent)
    callers.forget()
    return applied


def _require_approved(intent: Intent) -> None:
    """Raise NeedsApproval if the settings want a second person; not for the command line."""
    if intent.origin.user_id is not None and intent.origin.approved_by is None:
        require_no_approval("roles")


def _require_administrator_after(name: str, wanted: Document) -> None:
    """Raise LastAdministrator if nobody managed staff after a change of a role."""
    before, after = (permissions_of_role(role) for role in (roles.all().get(name, {}), wanted))
    if domain.ADMINISTERING in before - after:
        staff.require_administrator(changed={name: {"_id": name, **wanted}})


def set_roles(key: Lookup, names: list[str], giver: Rights | None, intent: Intent) -> Applied:
    """Set the roles of an account, except those that come from groups."""
    _require_approved(intent)
    wanted, known = list(dict.fromkeys(names)), roles.all()
    with staff.one_at_a_time():
        user = peer(key, giver)
        after = callers.rights({**user, "Roles": wanted}).permissions
        if domain.ADMINISTERING in callers.rights(user).permissions - after:
            staff.require_administrator(but=user["_id"])
        rule = partial(domain.set_roles, names=wanted, roles=known, giver=giver)
        applied = users.change(key, RIGHTS, rule, intent)
    callers.forget()
    return applied


def set_disabled(key: Lookup, is_disabled: bool, giver: Rights | None, intent: Intent) -> Applied:
    """Disable an account for the console and the API, or enable it again."""
    with staff.one_at_a_time():
        user = peer(key, giver)
        if is_disabled and domain.ADMINISTERING in callers.rights(user).permissions:
            staff.require_administrator(but=user["_id"])
        rule = partial(domain.set_disabled, is_disabled=is_disabled)
        applied = users.change_and_sweep(key, (*RIGHTS, "PasswordVersion"), rule, intent)
    callers.forget()
    return applied


def invite(
    name: str, email: str, names: list[str], giver: Rights | None, intent: Intent
) -> Applied:
    """Invite a colleague to an account with these roles."""
    _require_approved(intent)
    if not names:
        raise InvalidField("Roles", "Must contain a role: otherwise the account could do nothing.")
    wanted = list(dict.fromkeys(names))
    domain.set_roles({}, names=wanted, roles=roles.all(), giver=giver)
    return invitations.invite(name, email, intent, Roles=wanted)


def invite_again(key: Lookup, giver: Rights | None, intent: Intent) -> Applied:
    """Send an invitation again to somebody who may do no more than the giver."""
    peer(key, giver)
    return invitations.invite_again(key, intent)


def peer(key: Lookup, giver: Rights | None) -> Document:
    """Return an account that may do no more than the giver."""
    user = users.get(key, "Name", *RIGHTS)
    if giver is not None:
        guard.require_peer(user)
    return user


def list_staff() -> list[Document]:
    return [public_staff(user) for user in staff.walk("Name", *RIGHTS)]


def public_staff(user: Document) -> Document:
    by_hand = role_names({"Roles": user.get("Roles")})
    of_groups = role_names({"GroupRoles": user.get("GroupRoles")})
    return {
        "Id": user["_id"],
        "Name": str(user.get("Name")),
        "Roles": by_hand,
        "GroupRoles": of_groups,
        "Power": all_role_names({"Power": user.get("Power")}),
        "IsDisabled": user.get("IsDisabled") is True,
    }
