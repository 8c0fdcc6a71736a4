"""quartermaster staff."""

from __future__ import annotations

from itertools import chain, count

import click
from flask.cli import AppGroup

from app.cli.intents import make, reason_option, report
from app.core.naming import Lookup, printable
from app.core.penalties import BAN
from app.core.permissions import (
    ADMINISTRATOR,
    RIGHTS,
    Permission,
    Rights,
    rights_of_role,
)
from app.core.types import Document
from app.http.context import setting
from app.users.moderation import LIFT
from app.users.oauth.sign_ins import allow_password
from app.users.second_factor.management import RESET_SIGN_IN
from app.users.staff.domain import public_role, public_staff
from app.users.staff.operations import (
    CREATE_ROLE,
    DISABLE_ACCOUNT,
    ENABLE_ACCOUNT,
    SET_ROLES,
)
from app.users.staff.store import roles
from app.users.staff.store import staff as accounts
from app.users.store import RECORD, users

staff = AppGroup("staff", help="Look at roles and staff, and help if nobody can sign in.")

key_argument = click.argument("key", metavar="NAME", type=Lookup.parse)


@staff.command("roles")
def list_roles() -> None:
    """Print the roles: name, limits, permissions."""
    for found in map(public_role, roles.all().values()):
        limits = ", ".join(f"{name} {n}" for name, n in found["Limits"].items() if n is not None)
        click.echo(f"{found['Name']}  {limits or 'no limits'}  {' '.join(found['Permissions'])}")


@staff.command("list")
def list_staff() -> None:
    """Print the accounts of staff: name, roles."""
    for user in accounts.walk("Name", *RIGHTS):
        click.echo(staff_line(user))


@staff.command("disable")
@key_argument
@reason_option
def disable(key: Lookup, reason: str | None) -> None:
    """Disable an account for the console and the API."""
    make(DISABLE_ACCOUNT, key, {}, reason)
    report(staff_line(users.get(key, *RECORD)))


@staff.command("rescue")
@key_argument
@click.option(
    "--sign-in", is_flag=True, help="Instead, remove its second factor and end its sign-ins."
)
@click.option("--email", default="", help="Instead, do that, and give it a new address.")
@reason_option
def rescue(key: Lookup, sign_in: bool, email: str, reason: str | None) -> None:
    """Make a user an administrator, whatever the roles are now: the way in if nobody has one.

    Enables and unbans the account, and gives it the role administrator; if that was removed, or no
    longer has all permissions, a role of its own, rescue. If passwords are off for staff, the
    account may sign in with its password for an hour. With --sign-in or --email, it only resets a
    lost sign-in, where no two colleagues of its holder can do that together.
    """
    found = users.get(key, *RECORD)
    if sign_in or email:
        make(RESET_SIGN_IN, key, {"Email": email}, reason)
        report(f"Reset the sign-in of {key}.")
        return
    given, known = role_with_everything(reason), roles.all()
    kept = [held for held in public_staff(found)["Roles"] if held in known and held != given]
    make(SET_ROLES, key, {"Roles": [*kept, given]}, reason)
    make(LIFT[BAN], key, {}, reason)
    if found.get("IsDisabled"):
        make(ENABLE_ACCOUNT, key, {}, reason)
    report(staff_line(users.get(key, *RECORD)))
    if not setting("STAFF_PASSWORDS"):
        allow_password(found["_id"])
        click.echo(
            "The account may sign in with its password for an hour: open "
            "/console/sign-in?password=1"
        )


def role_with_everything(reason: str | None) -> str:
    """Return a role with all permissions and no limits; make one if there is none.

    Others who hold a role get no more rights by it.
    """
    everything = [one.value for one in Permission]
    known, numbered = roles.all(), (f"rescue-{number}" for number in count(2))
    for name in chain([ADMINISTRATOR, "rescue"], numbered):
        has_all = name in known and rights_of_role(known[name]) == Rights(frozenset(Permission))
        if not has_all and (name in known or roles.count_holders(name)):
            continue
        if not has_all:
            # Without a second factor, its holders reach the page to set one up: way enough.
            terms = {"Name": name, "Permissions": everything, "NeedsSecondFactor": True}
            make(CREATE_ROLE, name, terms, reason)
        return name
    raise AssertionError("unreachable")


def staff_line(user: Document) -> str:
    person = public_staff(user)
    held = [*person["Power"], *person["Roles"], *person["GroupRoles"]]
    state = "  disabled" if person["IsDisabled"] else ""
    return f"{printable(person['Name'])}: {', '.join(held) or 'no roles'}{state}"
