"""The pages of staff: who may do what, and what they did this week; and the roles."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import timedelta
from functools import partial

from flask import Response

from app.auth import guard
from app.console.forms.declared import Target
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import PAGE_SIZE, path_to, render
from app.console.frame.subjects import moment_of, text_of
from app.console.history.tables import changes_of
from app.console.staff.forms import (
    CHANGE,
    CREATE,
    INVITE_FORM,
    PERSON_FORMS,
    PREFIX,
    REMOVE,
    role_text,
    role_values,
    why_role_is_closed,
)
from app.console.stores import history, roles, staff, users
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import RIGHTS, Permission, all_role_names, role_names
from app.core.types import Document
from app.users.second_factor.domain import has_factor
from app.users.staff.domain import public_role, public_staff
from app.users.staff.store import WAYS_IN

WEEK = timedelta(days=7)
READS = ("Name", "Email", *RIGHTS, *WAYS_IN, "Invitation", "Keys", "SecondFactor", "LastSignInAt")
NEEDS = (Permission.STAFF_MANAGE,)


def staff_page(_: str, sent: Submission | None) -> Response:
    return render(
        "staff/list.html",
        sent=sent,
        people=people(staff.walk(*READS)),
        forms=forms_on([INVITE_FORM], Target(path_to("staff")), sent),
    )


def people(found: Iterable[Document]) -> list[Document]:
    """Return accounts of staff as pages show them, with what they did this week."""
    accounts = list(found)
    since = users.now() - WEEK
    did = history.count_by_author([user["_id"] for user in accounts], since)
    weeks, known = {} if did is None else did, roles.all()
    counted = {"IsCounted": did is not None}
    return [{**person(user, known), **counted, "Week": weeks.get(user["_id"])} for user in accounts]


def person(user: Document, known: Container[str]) -> Document:
    """Return an account of staff as pages show it; a role that is not known was removed."""
    keys, invitation = user.get("Keys"), user.get("Invitation")
    used = [moment_of(key.get("LastUsedAt")) for key in keys.values()] if keys else []
    until = moment_of(invitation.get("ExpiresAt")) if isinstance(invitation, dict) else None
    return {
        **public_staff(user),
        "Name": text_of(user.get("Name")) or str(user["_id"]),
        "Named": (named := [n if n in known else f"{n} (removed)" for n in role_names(user)]),
        "Shown": [*all_role_names({"Power": user.get("Power")}), *named],
        "Email": text_of(user.get("Email")),
        "HasFactor": has_factor(user),
        "LastSignIn": moment_of(user.get("LastSignInAt")),
        "Keys": len(keys or ()),
        "KeyUsed": max((at for at in used if at), default=None),
        "IsInvited": user.get("PasswordHash") is None and not user.get("OpenId"),
        "InvitedUntil": until if until and until > users.now() else None,
        "IsPeer": guard.is_peer(user),
    }


def person_page(_: str, sent: Submission | None, key: Lookup) -> Response:
    (shown,) = people([users.get(key, *READS)])
    id_ = shown["Id"]
    changes = changes_of("user", id_, PAGE_SIZE)
    held = {f"{PREFIX}{name}": True for name in shown["Roles"]}
    path = path_to("staff", id_)
    target = Target(path, id_, shown["Name"], shown, changes["entries"], held)
    forms = forms_on(PERSON_FORMS, target, sent)
    titles = list(dict.fromkeys(form.card_title for form in PERSON_FORMS))
    return render(
        "staff/person.html",
        sent=sent,
        person_shown=shown,
        card_titles=titles,
        forms=forms,
        **changes,
    )


def listed_roles() -> list[Document]:
    held = [all_role_names(user) for user in staff.walk(*RIGHTS)]
    return [
        {
            **{"Name": name, "Text": role_text(role), "Count": sum(name in one for one in held)},
            "NeedsFactor": role.get("NeedsSecondFactor") is True,
        }
        for name, role in roles.all().items()
    ]


def roles_page(_: str, sent: Submission | None) -> Response:
    forms = forms_on([CREATE], Target(path_to("roles")), sent)
    return render("staff/roles.html", sent=sent, roles=listed_roles(), forms=forms)


def role_page(_: str, sent: Submission | None, role: str) -> Response:
    found = roles.get(role)
    changes = changes_of("role", role, PAGE_SIZE)
    path = path_to("roles", role)
    why = why_role_is_closed(role)
    target = Target(path, role, role, {"IsPeer": not why}, changes["entries"], role_values(found))
    holders = [user for user in staff.walk("Name", *RIGHTS) if role in all_role_names(user)]
    return render(
        "staff/role.html",
        sent=sent,
        role=role,
        why=why,
        found=public_role(found),
        text=role_text(found),
        holders=[{"Id": user["_id"], "Name": text_of(user.get("Name"))} for user in holders],
        forms=forms_on([CHANGE, REMOVE], target, sent),
        **changes,
    )


def find_person(key: Lookup) -> Found:
    user = users.get(key, "Name")
    return Found(user["_id"], user["Name"])


def find_role(role: str) -> Found:
    return Found(roles.get(role)["_id"], role)


ListPage(
    "/staff",
    NEEDS,
    lambda *_: CursorPage(people(staff.walk(*READS)), None),
    columns(
        "Name Id LastSignIn HasFactor IsInvited IsDisabled Keys KeyUsed",
        Roles=lambda one: ", ".join(one["Shown"]),
        ChangesThisWeek=lambda one: (one["Week"] or {}).get("Changes", 0),
    ),
)
ListPage(
    "/roles",
    NEEDS,
    lambda *_: CursorPage(listed_roles(), None),
    columns("Name Text Count NeedsFactor"),
)
place = partial(Place, needs=NEEDS)
register(place("/staff", ("staff",), {"all": [INVITE_FORM]}, staff_page))
register(
    place(
        "/staff/<lookup:key>",
        ("staff",),
        {"person": PERSON_FORMS},
        person_page,
        find_person,
        "user",
    )
)
register(place("/roles", ("roles",), {"all": [CREATE]}, roles_page))
register(
    place(
        "/roles/<role>",
        ("roles",),
        {"role": [CHANGE, REMOVE]},
        role_page,
        find_role,
        "role",
    )
)
