"""Changes of roles that can be asked for.

What the person who asked may give is checked when it is planned, and again before it is approved.
"""

from __future__ import annotations

from collections.abc import Callable

from app.approvals.kinds import Kind, key_of
from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.permissions import RIGHTS, Rights
from app.changes import Applied, Change, Intent
from app.http.context import current
from app.http.intents import previewed_intent
from app.naming import Lookup
from app.operations import Operation
from app.staff import domain
from app.staff.management import change_role, create_role, peer, remove_role, set_roles
from app.staff.operations import CHANGE_ROLE, CREATE_ROLE, REMOVE_ROLE, SET_ROLES
from app.staff.store import Roles
from app.types import Document
from app.users.store import Users

callers = current(Callers)
roles = current(Roles)
users = current(Users)


def find_user(text: str, _: Document) -> Document:
    user = users.get(Lookup.parse(text), "Name")
    return {"Kind": "user", "Id": user["_id"], "Name": user.get("Name")}


def find_role(name: str, args: Document) -> Document:
    """Return the role of this name, or the new one that the arguments name."""
    named = args.get("Name") or roles.get(name)["Name"]
    return {"Kind": "role", "Id": named, "Name": named}


def giver_of(request: Document) -> Rights:
    """Return the rights of the person who asks, or has asked."""
    caller = guard.caller()
    return callers.find(request["By"]["UserId"], None).rights if "By" in request else caller.rights


def require_manager(caller: Caller, _: Document) -> None:
    caller.require(*SET_ROLES.permissions)


def preview_roles(request: Document) -> list[Document]:
    peer(key_of(request), guard.caller().rights)
    names, giver = request["Arguments"]["Roles"], giver_of(request)

    def rule(user: Document) -> Change:
        return domain.set_roles(user, names=names, roles=roles.all(), giver=giver)

    meant = previewed_intent(SET_ROLES, request["Arguments"])
    for name in names:
        if name in roles.all():
            domain.require_given(guard.caller().rights, roles.all()[name])
    changes: list[Document] = users.preview(key_of(request), RIGHTS, rule, meant)["Changes"]
    return changes


def preview_role(request: Document) -> list[Document]:
    """Raise if the person who asks, or who approves, may not do what the role may, now or then."""
    now = roles.all().get(request["Subject"]["Id"])
    wanted = request["Arguments"] if "Permissions" in request["Arguments"] else None
    for giver in (giver_of(request), guard.caller().rights):
        for role in filter(None, (now, wanted)):
            domain.require_given(giver, role)
    return []


def role_fields(request: Document) -> Document:
    return {name: value for name, value in request["Arguments"].items() if name != "Name"}


def make_roles(request: Document, meant: Intent) -> Applied:
    return set_roles(key_of(request), request["Arguments"]["Roles"], None, meant)


def make_new_role(request: Document, meant: Intent) -> Applied:
    return create_role(request["Subject"]["Id"], role_fields(request), None, meant)


def make_changed_role(request: Document, meant: Intent) -> Applied:
    return change_role(request["Subject"]["Id"], role_fields(request), None, meant)


def make_removal(request: Document, meant: Intent) -> Applied:
    return remove_role(request["Subject"]["Id"], None, meant)


def _kind(operation: Operation, make: Callable[[Document, Intent], Applied], title: str) -> Kind:
    return Kind(operation.arguments, find_role, require_manager, preview_role, make, title=title)


ROLE_KINDS = {
    SET_ROLES.name: Kind(
        SET_ROLES.arguments, find_user, require_manager, preview_roles, make_roles
    ),
    CREATE_ROLE.name: _kind(CREATE_ROLE, make_new_role, "Make the role"),
    CHANGE_ROLE.name: _kind(CHANGE_ROLE, make_changed_role, "Change the role"),
    REMOVE_ROLE.name: _kind(REMOVE_ROLE, make_removal, "Remove the role"),
}
