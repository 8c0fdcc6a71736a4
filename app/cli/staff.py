"""quartermaster role and staff."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from flask.cli import AppGroup

from app.auth.permissions import LIMIT_NAMES, Permission
from app.auth.shipped_roles import ADMINISTRATOR
from app.cli.intents import intent, reason_option, report
from app.http.context import current
from app.http.parser import load
from app.moderation.domain import READS, lift
from app.moderation.operations import LIFT
from app.moderation.penalties import BAN
from app.naming import Lookup, printable
from app.operations import Operation
from app.staff import management
from app.staff.domain import public_role
from app.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    REMOVE_ROLE,
    SET_ROLES,
)
from app.staff.schemas import NewRoleArgs, RoleArgs
from app.staff.store import Roles
from app.types import Document
from app.users.store import RECORD, Users

roles = current(Roles)
users = current(Users)

role = AppGroup("role", help="Manage the roles of staff.")
staff = AppGroup("staff", help="Manage who has which role.")

name_argument = click.argument("name")
permission_option = click.option(
    "--permission",
    "permissions",
    multiple=True,
    type=click.Choice([permission.value for permission in Permission]),
    help="What it may do; repeatable.",
)


def terms_options(command: Any) -> Any:
    for name in ("rows-per-batch", "items-per-day", "largest-quantity"):
        limit = name.replace("-", " ")
        option = click.option(f"--{name}", type=click.IntRange(1), help=f"Its limit: {limit}.")
        command = option(command)
    factor = click.option("--second-factor", is_flag=True, help="Require a second factor.")
    return reason_option(permission_option(factor(command)))


def terms(permissions: tuple[str, ...], second_factor: bool, limits: dict[str, Any]) -> Document:
    values = (limits["largest_quantity"], limits["items_per_day"], limits["rows_per_batch"])
    given = dict(zip(LIMIT_NAMES, values, strict=True))
    wanted = {"Permissions": list(permissions), "NeedsSecondFactor": second_factor}
    return {**wanted, "Limits": given if any(given.values()) else None}


@role.command("list")
def list_roles() -> None:
    """Print the roles: name, limits, permissions."""
    for found in map(public_role, roles.all().values()):
        limits = ", ".join(f"{name} {n}" for name, n in found["Limits"].items() if n is not None)
        click.echo(f"{found['Name']}  {limits or 'no limits'}  {' '.join(found['Permissions'])}")


@role.command("create")
@name_argument
@terms_options
def create_role(
    name: str, permissions: tuple[str, ...], second_factor: bool, reason: str | None, **limits: Any
) -> None:
    """Make a role."""
    wanted = load(NewRoleArgs(), {"Name": name, **terms(permissions, second_factor, limits)})
    del wanted["Name"]
    management.create_role(name, wanted, None, intent(CREATE_ROLE, reason, Name=name, **wanted))
    report(f"Made the role {name}.", "made the role %s", name)


@role.command("change")
@name_argument
@terms_options
def change_role(
    name: str, permissions: tuple[str, ...], second_factor: bool, reason: str | None, **limits: Any
) -> None:
    """Replace the permissions and limits of a role."""
    wanted = load(RoleArgs(), terms(permissions, second_factor, limits))
    management.change_role(name, wanted, None, intent(CHANGE_ROLE, reason, **wanted))
    report(f"Changed the role {name}.", "changed the role %s", name)


@role.command("remove")
@name_argument
@reason_option
def remove_role(name: str, reason: str | None) -> None:
    """Remove a role. Those who have it lose what it allowed."""
    management.remove_role(name, None, intent(REMOVE_ROLE, reason))
    report(f"Removed the role {name}.", "removed the role %s", name)


@staff.command("list")
def list_staff() -> None:
    """Print the accounts of staff: name, roles."""
    for person in management.list_staff():
        click.echo(staff_line(person))


@staff.command("roles")
@name_argument
@click.argument("names", metavar="[ROLE]...", nargs=-1)
@reason_option
def set_roles(name: str, names: tuple[str, ...], reason: str | None) -> None:
    """Set the roles of a user; without any, remove all."""
    meant = intent(SET_ROLES, reason, Roles=list(names))
    management.set_roles(Lookup.parse(name), list(names), None, meant)
    report(staff_line(person_of(name)), "set the roles of %s", name)


@staff.command("disable")
@name_argument
@reason_option
def disable(name: str, reason: str | None) -> None:
    """Disable an account for the console and the API."""
    _set_disabled(name, True, DISABLE_ACCOUNT, reason)


@staff.command("enable")
@name_argument
@reason_option
def enable(name: str, reason: str | None) -> None:
    """Enable an account for the console and the API again."""
    _set_disabled(name, False, ENABLE_ACCOUNT, reason)


@staff.command("rescue")
@name_argument
@reason_option
def rescue(name: str, reason: str | None) -> None:
    """Make a user an administrator, whatever the roles are now: the way in if nobody has one.

    Enables and unbans the account, and gives it the role administrator with all permissions.
    """
    key, found = Lookup.parse(name), person_of(name)
    everything = load(RoleArgs(), {"Permissions": [one.value for one in Permission]})
    if ADMINISTRATOR in roles.all():
        meant = intent(CHANGE_ROLE, reason, **everything)
        management.change_role(ADMINISTRATOR, everything, None, meant)
    else:
        meant = intent(CREATE_ROLE, reason, Name=ADMINISTRATOR, **everything)
        management.create_role(ADMINISTRATOR, everything, None, meant)
    wanted = list(dict.fromkeys([*found["Roles"], ADMINISTRATOR]))
    management.set_roles(key, wanted, None, intent(SET_ROLES, reason, Roles=wanted))
    users.change(key, READS, partial(lift, penalty=BAN), intent(LIFT[BAN], reason))
    if found["IsDisabled"]:
        management.set_disabled(key, False, None, intent(ENABLE_ACCOUNT, reason))
    report(staff_line(person_of(name)), "rescued the account %s", name)


def _set_disabled(name: str, is_disabled: bool, operation: Operation, reason: str | None) -> None:
    management.set_disabled(Lookup.parse(name), is_disabled, None, intent(operation, reason))
    report(staff_line(person_of(name)), f"used {operation.name} on %s", name)


def person_of(name: str) -> Document:
    return management.public_staff(users.get(Lookup.parse(name), *RECORD))


def staff_line(person: Document) -> str:
    held = [*person["Power"], *person["Roles"], *person["GroupRoles"]]
    state = "  disabled" if person["IsDisabled"] else ""
    return f"{printable(person['Name'])}: {', '.join(held) or 'no roles'}{state}"
