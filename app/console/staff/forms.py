"""The forms of staff: inviting, roles of a person, disabling; making, changing, removing roles."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.auth import guard
from app.console.forms.curl import as_number
from app.console.forms.declared import AS_TYPED, NOT_UNDONE, Field, Form, Group, Target
from app.console.forms.schemas import InvitationForm, NewRoleForm, RoleForm
from app.console.forms.submissions import Submission
from app.console.frame.pages import done, path_to
from app.console.stores import roles
from app.core.errors import QuartermasterError
from app.core.permissions import (
    INCLUDED,
    LIMIT_NAMES,
    NAMES,
    Permission,
    Rights,
    lacking,
    limits_of,
    permissions_of_role,
)
from app.core.types import Document
from app.http.api import Schema
from app.http.intents import intent
from app.users.staff import operations
from app.users.staff.domain import NAME_RULE, require_given
from app.users.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    INVITE,
    REMOVE_ROLE,
    SET_ROLES,
)

# The permissions in the order of a form, by what they are about.
GROUPS = {
    "Look": (
        *("players.read", "leaderboard.read", "history.read", "users.read", "users.find"),
        "health.read",
    ),
    "Change players": (
        *("items.move", "players.change", "players.rename", "players.delete", "notes.write"),
        *("game.act", "objects.change"),
    ),
    "Help and moderate people": (
        *("moderate.kick", "moderate.mute", "moderate.ban", "notes.users"),
        *("users.change", "users.manage"),
    ),
    "Undo and batches": ("undo.own", "undo.any", "batches.plan", "batches.run", "approve"),
    "Personal data": ("privacy.export", "privacy.erase"),
    "Keys and staff": ("keys.manage", "staff.manage"),
}
PREFIX = "may-"
NO_LIMIT = "Empty: no limit."
LIMITS = {
    "LargestQuantity": "Most of an item at once",
    "ItemsPerDay": "Most items a day",
    "RowsPerBatch": "Most rows in a batch",
}
LIMIT_TEXTS = ("{:,} at once", "{:,} items a day", "{:,} rows")


def role_texts() -> dict[str, str]:
    """Return all roles with what they may do, in short."""
    return {name: role_text(role) for name, role in roles.all().items()}


def role_text(role: Document) -> str:
    count, limits = len(permissions_of_role(role)), limits_of(role.get("Limits"))
    told = [text.format(most) for text, most in zip(LIMIT_TEXTS, limits, strict=True) if most]
    permissions = f"{count} permission{'' if count == 1 else 's'}"
    return f"{permissions}; at most {', '.join(told)}" if told else permissions


def why_role_is_closed(name: str) -> str:
    """Return why the caller cannot give a role; empty if they can."""
    try:
        require_given(guard.caller().rights, roles.all()[name])
    except QuartermasterError as error:
        return str(error)
    return ""


def why_permission_is_closed(name: str) -> str:
    lacks = lacking(guard.caller().rights, Rights(frozenset({NAMES[name]})))
    return "You do not have it yourself." if lacks else ""


def permission_texts(names: tuple[str, ...]) -> dict[str, str]:
    return {name: NAMES[name].about for name in names}


def checked_roles(sent: Submission) -> list[str]:
    return [name for name in roles.all() if sent.is_checked(f"{PREFIX}{name}")]


def role_body(sent: Submission) -> Document:
    """Return what a role may do, from the typed values."""
    limits = {name: sent.value(name) for name in LIMITS}
    wanted = {name: as_number(text) if text else None for name, text in limits.items()}
    checked = [one for one in Permission if sent.is_checked(f"{PREFIX}{one.value}")]
    # The form of a role also shows as checked what others include.
    included = {INCLUDED.get(one) for one in checked}
    return {
        "Permissions": [one.value for one in checked if one not in included],
        "Limits": wanted if any(limits.values()) else None,
        "NeedsSecondFactor": sent.is_checked("NeedsSecondFactor"),
    }


def role_values(role: Document) -> dict[str, Any]:
    """Return the initial values of the form of a role."""
    limits = dict(zip(LIMIT_NAMES, limits_of(role.get("Limits")), strict=True))
    held = {f"{PREFIX}{permission.value}": True for permission in permissions_of_role(role)}
    return {**held, **limits, "NeedsSecondFactor": role.get("NeedsSecondFactor") is True}


def is_open(target: Target) -> bool:
    return bool(target.record["IsPeer"])


ROLES = Field(
    "Roles", "Roles", type="checks", prefix=PREFIX, options=role_texts, closed=why_role_is_closed
)
PERMISSIONS = tuple(
    Field(
        "Permissions",
        group,
        type="checks",
        prefix=PREFIX,
        options=partial(permission_texts, names),
        closed=why_permission_is_closed,
    )
    for group, names in GROUPS.items()
)
NUMBERS = Group(
    "field", tuple(Field(*limit, NO_LIMIT) for limit in LIMITS.items()), legend="Limits"
)
FACTOR = Field("NeedsSecondFactor", "Those who have it need a second factor to sign in")
PARTS: tuple[Field | Group, ...] = (*(Group("", (one,)) for one in PERMISSIONS), NUMBERS, FACTOR)
INVITE_FORM = Form(
    INVITE,
    "Invite a colleague…",
    "Send the invitation",
    (
        Field("Name", "Username", "2 to 20 letters or digits.", html=AS_TYPED),
        Field("Email", "Email address", type="email", html={"autocomplete": "off"}),
        ROLES,
    ),
    path="",
    card="Invite",
    view="invite_staff",
    schema=InvitationForm(),
    body=lambda sent: {
        **{"Name": sent.value("Name", "NAME"), "Email": sent.value("Email", "ADDRESS")},
        "Roles": checked_roles(sent),
    },
    about="Makes an account, and mails a link to choose a password. The link works once.",
    is_sensitive=True,
)
SET_ROLES_FORM = Form(
    SET_ROLES,
    "Change the roles",
    "Set the roles",
    (ROLES,),
    name="roles",
    # The roles are check boxes.
    schema=Schema(),
    body=lambda sent: {"Roles": checked_roles(sent)},
    replaces="Roles",
    is_sensitive=True,
    is_offered=is_open,
)
AGAIN = Form(
    INVITE,
    "Invitation",
    "Send the invitation again",
    name="invite-again",
    path="invite",
    act=lambda _, key: operations.invite_again(key, intent(INVITE)),
    view="invite_staff_again",
    about="Mails a new link. The former one stops working.",
    is_sensitive=True,
    is_offered=lambda target: is_open(target) and target.record["IsInvited"],
)
DISABLE = Form(
    DISABLE_ACCOUNT,
    "Disable…",
    "Disable {name}",
    name="disable",
    card="Disable",
    about="Sign-ins, tokens and keys stop working within seconds. The person can still play.",
    confirm="You can enable the account again.",
    is_sensitive=True,
    is_offered=lambda target: is_open(target) and not target.record["IsDisabled"],
)
ENABLE = Form(
    ENABLE_ACCOUNT,
    "Enable",
    "Enable {name}",
    name="enable",
    card="Enable",
    is_sensitive=True,
    is_offered=lambda target: is_open(target) and target.record["IsDisabled"],
)
CREATE = Form(
    CREATE_ROLE,
    "Make a role…",
    "Make the role",
    (Field("Name", "Name", NAME_RULE, html=AS_TYPED), *PARTS),
    path="",
    card="New role",
    schema=NewRoleForm(),
    body=lambda sent: {"Name": sent.value("Name", "NAME"), **role_body(sent)},
    is_sensitive=True,
)
CHANGE = Form(
    CHANGE_ROLE,
    "What it may do",
    "Save",
    PARTS,
    name="change",
    schema=RoleForm(),
    body=role_body,
    about="Everybody who has the role notices within seconds.",
    replaces="",
    is_sensitive=True,
    is_offered=is_open,
)
REMOVE = Form(
    REMOVE_ROLE,
    "Remove this role…",
    "Remove {name}",
    name="remove",
    about="Those who have it lose what it allowed.",
    confirm=NOT_UNDONE,
    is_sensitive=True,
    is_offered=is_open,
    lead=lambda applied, *_, **__: done(applied, path_to("roles")),
)
PERSON_FORMS = (SET_ROLES_FORM, AGAIN, DISABLE, ENABLE)
