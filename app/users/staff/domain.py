"""Named roles of staff, and the rules of giving them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from app.core.changes import Change, SubjectKind
from app.core.errors import Conflict, Forbidden, Invalid, NotFound
from app.core.permissions import (
    LIMIT_NAMES,
    LIMITED,
    Permission,
    Rights,
    all_role_names,
    covers,
    lacking,
    limits_of,
    permissions_of_role,
    rights_of_role,
    role_names,
)
from app.core.types import Document
from app.storage.schema.shapes import FLAG, MOMENT_OR_NULL, TEXT, TEXTS, changeable
from app.users.domain import revoke_tokens

SHAPE = changeable(
    {"_id": TEXT, "Name": TEXT, "Permissions": TEXTS},
    {
        "Limits": {"bsonType": ["object", "null"]},
        "NeedsSecondFactor": FLAG,
        "RemovedAt": MOMENT_OR_NULL,
    },
)
SUBJECT = SubjectKind("role", shape=SHAPE, hidden=("RemovedAt",))
# An account with this permission counts as an administrator.
ADMINISTERING = Permission.STAFF_MANAGE
READS = ("Permissions", "Limits", "NeedsSecondFactor", "RemovedAt")
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
NAME_RULE = "Must be 1 to 40 small letters, digits and hyphens, and begin with a letter."


class RoleExists(Conflict):
    sentence = "There is already a role with the name '{name}'."


class RoleHeld(Conflict):
    sentence = (
        "{count} accounts still have a role of this name, which was removed. Set their roles first."
    )


class UnknownRole(Invalid):
    """There is no role with this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        text = f"There is no role '{name}'; the roles are {', '.join(known)}."
        super().__init__(text, {"Roles": [text]})


class MayNotGive(Forbidden):
    sentence = "You cannot give what you do not have yourself: {what}."


class LastAdministrator(Conflict):
    sentence = (
        "Nobody could manage staff then. Give somebody else a role with the permission "
        "'staff.manage' first."
    )


def public_role(role: Document) -> Document:
    held = permissions_of_role(role)
    limits = limits_of(role.get("Limits"))
    return {
        "Name": role["_id"],
        "Permissions": [permission.value for permission in Permission if permission in held],
        "Limits": dict(zip(LIMIT_NAMES, limits, strict=True)),
        "NeedsSecondFactor": bool(role.get("NeedsSecondFactor")),
    }


def change_role(
    role: Document, *, wanted: Document, giver: Rights | None, power_role: str = ""
) -> Change:
    """Replace what a role may do. The giver needs all that it may do before and after."""
    if role.get("RemovedAt"):
        raise NotFound("role", role["_id"])
    require_given(giver, role)
    require_given(giver, wanted, limits_power=role["_id"] == power_role)
    return Change(wanted, public_role({**role, **wanted}))


def create_role(
    role: Document, *, wanted: Document, giver: Rights | None, holders: int, power_role: str = ""
) -> Change:
    """Make a role of a name that no role has, or has no more, and that no account has."""
    if not role.get("RemovedAt"):
        raise RoleExists(role["_id"])
    require_given(giver, wanted, limits_power=role["_id"] == power_role)
    if holders:
        raise RoleHeld(holders)
    fields = {**wanted, "RemovedAt": None}
    return Change(fields, public_role({**role, **fields}))


def remove_role(role: Document, *, giver: Rights | None, now: datetime) -> Change:
    """Remove a role. Its document stays, without permissions, because history refers to it."""
    if role.get("RemovedAt"):
        raise NotFound("role", role["_id"])
    require_given(giver, role)
    return Change({"Permissions": [], "RemovedAt": now}, {"Name": role["_id"]})


def require_given(giver: Rights | None, role: Document, limits_power: bool = False) -> None:
    """Raise MayNotGive if the giver may not do all that a role may; None may give anything.

    If the role limits Power, it gives these limits to whatever Power allows.
    """
    given = rights_of_role(role)
    if limits_power:
        given = given._replace(permissions=given.permissions.union(*LIMITED))
    if giver is None or covers(giver, given):
        return
    if missing := sorted(permission.value for permission in lacking(giver, given)):
        raise MayNotGive(f"the permission '{missing[0]}'")
    own = [f"{name} {most}" for name, most in zip(LIMIT_NAMES, giver.limits, strict=True) if most]
    raise MayNotGive(f"your own limits are {', '.join(own)}")


def set_roles(
    user: Document, *, names: list[str], roles: Mapping[str, Document], giver: Rights | None
) -> Change:
    """Set the roles of an account, except those that come from groups."""
    former = user.get("Roles", [])
    for name in names:
        if name not in roles:
            raise UnknownRole(name, roles)
        if name not in former:
            require_given(giver, roles[name])
    fields = {"Roles": list(dict.fromkeys(names))}
    return Change({**fields, **without_code(user)}, public_staff({**user, **fields}))


def without_code(user: Document) -> Document:
    """Return the fields of an account that gets a role: others may have seen its reset code."""
    return {"Reset": None} if user.get("Reset") and not role_names(user) else {}


def set_disabled(user: Document, *, is_disabled: bool) -> Change:
    """Disable an account, which ends its sign-ins and tokens for good, or enable it."""
    ended = revoke_tokens(user).fields if is_disabled else {}
    fields = {"IsDisabled": is_disabled, **ended}
    return Change(fields, public_staff({**user, **fields}))


def public_staff(user: Document) -> Document:
    return {
        "Id": user["_id"],
        "Name": user["Name"],
        "Roles": user.get("Roles", []),
        "GroupRoles": user.get("GroupRoles", []),
        "Power": all_role_names({"Power": user.get("Power")}),
        "IsDisabled": bool(user.get("IsDisabled")),
    }
