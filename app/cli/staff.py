"""quartermaster staff."""

from __future__ import annotations

from uuid import uuid4

import click
from flask.cli import AppGroup

from app.cli.intents import make, reason_option
from app.core.naming import Lookup, printable
from app.core.penalties import BAN
from app.core.permissions import (
    RIGHTS,
    Permission,
    Rights,
    rights_of_role,
)
from app.core.types import Document
from app.http.context import setting
from app.users.moderation import LIFT
from app.users.oauth.sign_ins import allow_password
from app.users.staff.domain import public_staff
from app.users.staff.operations import (
    CREATE_ROLE,
    ENABLE_ACCOUNT,
    SET_ROLES,
)
from app.users.staff.store import roles
from app.users.staff.store import staff as accounts
from app.users.store import RECORD, users

staff = AppGroup("staff", help="Look at staff, and help if nobody can sign in.")

key_argument = click.argument("key", metavar="NAME", type=Lookup.parse)


@staff.command("list")
def list_staff() -> None:
    """Print the accounts of staff: name, roles."""
    for user in accounts.walk("Name", *RIGHTS):
        click.echo(staff_line(user))


@staff.command("rescue")
@key_argument
@reason_option
def rescue(key: Lookup, reason: str | None) -> None:
    """Make a user an administrator, whatever the roles are now: the way in if nobody has one.

    Enables and unbans the account, and gives it the role administrator; if that was removed, or no
    longer has all permissions, a role of its own, rescue. If passwords are off for staff, the
    account may sign in with its password for an hour.
    """
    found = users.get(key, *RECORD)
    given, known = role_with_everything(reason), roles.all()
    kept = [held for held in public_staff(found)["Roles"] if held in known and held != given]
    make(SET_ROLES, key, {"Roles": [*kept, given]}, reason)
    make(LIFT[BAN], key, {}, reason)
    if found.get("IsDisabled"):
        make(ENABLE_ACCOUNT, key, {}, reason)
    click.echo(staff_line(users.get(key, *RECORD)))
    if not setting("STAFF_PASSWORDS"):
        allow_password(found["_id"])
        click.echo(
            "The account may sign in with its password for an hour: open "
            "/console/sign-in?password=1"
        )


def role_with_everything(reason: str | None) -> str:
    """Return a role with all permissions and no limits; if there is none, make one."""
    for name, role in roles.all().items():
        if rights_of_role(role) == Rights(frozenset(Permission)):
            return name
    # Nobody has the new one, so nobody else gets more rights. Without a second factor, its holder
    # reaches the page to set one up: way enough.
    terms = {"Permissions": [one.value for one in Permission], "NeedsSecondFactor": True}
    name = f"rescue-{uuid4().hex[:8]}"
    make(CREATE_ROLE, name, {"Name": name, **terms}, reason)
    return name


def staff_line(user: Document) -> str:
    person = public_staff(user)
    held = [*person["Power"], *person["Roles"], *person["GroupRoles"]]
    state = "  disabled" if person["IsDisabled"] else ""
    return f"{printable(person['Name'])}: {', '.join(held) or 'no roles'}{state}"
