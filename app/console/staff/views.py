"""The pages of staff: who may do what, and what they did this week; and the roles."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from flask import Response

from app.auth import guard
from app.console.forms.declared import (
    AS_TYPED,
    CHECKED,
    NOT_COMPLETED,
    NOT_UNDONE,
    Field,
    Form,
    Group,
    Target,
)
from app.console.forms.places import Place
from app.console.forms.submissions import forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import PAGE_SIZE, done, path_to, render
from app.console.frame.subjects import USERS
from app.console.history.tables import changes_of
from app.console.report.views import MOVES
from app.core.errors import Invalid, QuartermasterError
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import NAMES, RIGHTS, Permission, Rights, lacking, role_names
from app.core.texts import count_text
from app.core.types import Document, value_at
from app.history.reports import store as reports
from app.http.intents import intent
from app.users.second_factor.domain import has_factor
from app.users.staff.domain import NAME_RULE, public_role, public_staff, require_given
from app.users.staff.invitations import invite_again
from app.users.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    INVITE,
    REMOVE_ROLE,
    SET_ROLES,
)
from app.users.staff.store import WAYS_IN, has_way_in, roles, staff
from app.users.store import users

READS = ("Name", "Email", *RIGHTS, *WAYS_IN, "Invitation", "Keys", "SecondFactor", "LastSignInAt")
NEEDS = (Permission.STAFF_MANAGE,)


def people(found: Iterable[Document]) -> list[Document]:
    """Return accounts of staff as pages show them; a role that is not known was removed."""
    accounts, known, now = list(found), roles.all(), users.now()
    did = None
    with suppress(Invalid):
        did = reports.by_author([user["_id"] for user in accounts], now - timedelta(days=7), MOVES)
    shown = []
    for user in accounts:
        keys, until = user.get("Keys", {}), value_at(user, "Invitation.ExpiresAt")
        used = [key["LastUsedAt"] for key in keys.values() if "LastUsedAt" in key]
        fields = {
            "Name": user["Name"] or user["_id"],
            "Named": [n if n in known else f"{n} (removed)" for n in role_names(user)],
            "Email": user["Email"],
            "HasFactor": has_factor(user),
            "LastSignIn": user.get("LastSignInAt"),
            "Keys": len(keys),
            "KeyUsed": max(used, default=None),
            "IsInvited": not has_way_in(user),
            "InvitedUntil": until if until and until > now else None,
            "IsPeer": guard.is_peer(user),
            # What they did this week; None if that was too much to count.
            "Week": None if did is None else did.get(user["_id"], {"Changes": 0}),
        }
        shown.append({**public_staff(user), **fields})
    return shown


def person_page(key: Lookup) -> Response:
    (shown,) = people([users.get(key, *READS)])
    id_ = shown["Id"]
    changes = changes_of("user", id_, PAGE_SIZE)
    held = {f"{CHECKED}{name}": True for name in shown["Roles"]}
    target = Target(path_to("staff", id_), id_, shown["Name"], shown, changes["entries"], held)
    return render("staff/person.html", one=shown, forms=forms_on(PERSON_FORMS, target), **changes)


def find_roles(*_: Any) -> CursorPage:
    found = []
    for name, role in roles.all().items():
        shown = public_role(role)
        found.append({**shown, "Text": role_text(shown), "Count": roles.count_holders(name)})
    return CursorPage(found, None)


def role_page(role: str) -> Response:
    found, why = public_role(roles.get(role)), why_role_is_closed(role)
    changes = changes_of("role", role, PAGE_SIZE)
    held = {f"{CHECKED}{permission}": True for permission in found["Permissions"]}
    values = {**found, **found["Limits"], **held}
    path = path_to("roles", role)
    target = Target(path, role, role, {"IsPeer": not why}, changes["entries"], values)
    holders = [user for user in staff.walk("Name", *RIGHTS) if role in role_names(user)]
    return render(
        "staff/role.html",
        role=role,
        why=why,
        found=found,
        text=role_text(found),
        holders=holders,
        forms=forms_on([CHANGE, REMOVE], target),
        **changes,
    )


# The permissions in the order of a form, by what they are about.
GROUPS = {
    "Look": "players.read leaderboard.read history.read users.read users.find health.read",
    "Change players": "items.move players.change players.rename players.delete notes.write "
    "game.act objects.change",
    "Help and moderate people": "moderate.kick moderate.mute moderate.ban notes.users "
    "users.change users.manage",
    "Undo and batches": "undo.own undo.any batches.plan batches.run approve",
    "Personal data": "privacy.export privacy.erase",
    "Keys and staff": "keys.manage staff.manage",
}
LIMIT_TEXTS = ("{:,} at once", "{:,} items a day", "{:,} rows")


def role_texts() -> dict[str, str]:
    return {name: role_text(public_role(role)) for name, role in roles.all().items()}


def role_text(role: Document) -> str:
    limits = role["Limits"].values()
    told = [text.format(most) for text, most in zip(LIMIT_TEXTS, limits, strict=True) if most]
    permissions = count_text(len(role["Permissions"]), "permission")
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


def permission_texts(names: str) -> dict[str, str]:
    return {name: NAMES[name].about for name in names.split()}


def is_open(target: Target) -> Any:
    return target.record["IsPeer"]


staff_form = partial(Form, is_sensitive=True)
ROLES = Field("Roles", "Roles", type="checks", options=role_texts, closed=why_role_is_closed)
PERMISSIONS = tuple(
    Field(
        "Permissions",
        group,
        type="checks",
        options=partial(permission_texts, names),
        closed=why_permission_is_closed,
    )
    for group, names in GROUPS.items()
)
NO_LIMIT = "Empty: no limit."
NUMBERS = (
    Field("LargestQuantity", "Most of an item at once", NO_LIMIT),
    Field("ItemsPerDay", "Most items a day", NO_LIMIT),
    Field("RowsPerBatch", "Most rows in a batch", NO_LIMIT),
)
PARTS: tuple[Field | Group, ...] = (
    *PERMISSIONS,
    Group("field", NUMBERS, "Limits", "Limits"),
    Field("NeedsSecondFactor", "Those who have it need a second factor to sign in"),
)
INVITE_FORM = staff_form(
    INVITE,
    "Invite a colleague…",
    "Send the invitation",
    (
        Field("Name", "Username", "2 to 20 letters or digits.", html=AS_TYPED),
        Field("Email", "Email address", type="email", html=NOT_COMPLETED),
        ROLES,
    ),
    path="",
    card="Invite",
    about="Makes an account, and mails a link to choose a password. The link works once.",
)
CREATE = staff_form(
    CREATE_ROLE,
    "Make a role…",
    "Make the role",
    (Field("Name", "Name", NAME_RULE, html=AS_TYPED), *PARTS),
    path="",
    card="New role",
)
CHANGE = staff_form(
    CHANGE_ROLE,
    "What it may do",
    "Save",
    PARTS,
    name="change",
    about="Everybody who has the role notices within seconds.",
    replaces="",
    is_offered=is_open,
)
REMOVE = staff_form(
    REMOVE_ROLE,
    "Remove this role…",
    "Remove {name}",
    name="remove",
    about="Those who have it lose what it allowed.",
    confirm=NOT_UNDONE,
    is_offered=is_open,
    lead=lambda applied, *_, **__: done(applied, path_to("roles")),
)
PERSON_FORMS = (
    staff_form(
        SET_ROLES,
        "Change the roles",
        "Set the roles",
        (ROLES,),
        name="roles",
        replaces="Roles",
        is_offered=is_open,
    ),
    staff_form(
        INVITE,
        "Invitation",
        "Send the invitation again",
        act=lambda key: invite_again(key, intent(INVITE)),
        view="invite_staff_again",
        about="Mails a new link. The former one stops working.",
        is_offered=lambda target: is_open(target) and target.record["IsInvited"],
    ),
    staff_form(
        DISABLE_ACCOUNT,
        "Disable…",
        "Disable {name}",
        name="disable",
        card="Disable",
        about="Sign-ins, tokens and keys stop working within seconds. The person can still play.",
        confirm="You can enable the account again.",
        is_offered=lambda target: is_open(target) and not target.record["IsDisabled"],
    ),
    staff_form(
        ENABLE_ACCOUNT,
        "Enable",
        "Enable {name}",
        name="enable",
        is_offered=lambda target: is_open(target) and target.record["IsDisabled"],
    ),
)
ListPage(
    "/staff",
    NEEDS,
    lambda *_: CursorPage(people(staff.walk(*READS)), None),
    columns(
        "Name Id LastSignIn HasFactor IsInvited IsDisabled Keys KeyUsed",
        Roles=lambda one: ", ".join([*one["Power"], *one["Named"]]),
        ChangesThisWeek=lambda one: (one["Week"] or {}).get("Changes", 0),
    ),
    template="staff/list.html",
    forms=(INVITE_FORM,),
)
Place("/staff/<lookup:key>", {"": PERSON_FORMS}, person_page, USERS.target, needs=NEEDS)
ListPage(
    "/roles",
    NEEDS,
    find_roles,
    columns("Name Text Count", NeedsFactor="NeedsSecondFactor"),
    template="staff/roles.html",
    forms=(CREATE,),
)
Place(
    "/roles/<role>",
    {"": [CHANGE, REMOVE]},
    role_page,
    lambda role: Target("", role, role),
    needs=NEEDS,
)
