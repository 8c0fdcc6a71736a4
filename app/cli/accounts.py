"""quartermaster user, api and token."""

from __future__ import annotations

import hashlib
import logging
import sys
from functools import partial

import click
from flask.cli import AppGroup, with_appcontext

from app.auth.roles import Role, granted, revoked, roles_of
from app.auth.tokens import AccessTokens
from app.cli.intents import intent, move_entries, reason_option, system_user
from app.errors import Invalid
from app.http.context import current
from app.keys import Lookup
from app.oauth.store import RefreshTokens
from app.storage.client import Storage
from app.users.domain import require_email, require_username
from app.users.passwords import Passwords
from app.users.store import Users

log = logging.getLogger("quartermaster")

users = current(Users)
passwords = current(Passwords)
storage = current(Storage)

user = AppGroup("user", help="Manage accounts.")
api = AppGroup("api", help="Manage who may do what through the API.")

name_argument = click.argument("name")
role_argument = click.argument("role", metavar="ROLE")


@user.command("create")
@name_argument
@click.option("--email", required=True, help="The address of the account.")
@click.option(
    "--password-stdin", is_flag=True, required=True, help="Read the password from standard input."
)
@reason_option
def create_user(name: str, email: str, password_stdin: bool, reason: str | None) -> None:
    """Add an account. It may not use the API until a role is granted."""
    require_username(name, "NAME")
    require_email(email, "--email")
    password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not password:
        raise Invalid("Standard input holds no password.")
    # Clients never send a password, but its SHA-256: that is what is stored as an argon2 hash.
    sha256 = hashlib.sha256(password).hexdigest()
    account = users.create(name, email, passwords.hash(sha256), intent("register", reason))
    audit_log("created the user %s (%s)", account["Name"], account["_id"])
    click.echo(f"Created the user {account['Name']} ({account['_id']}).")
    move_entries(storage)


@api.command("grant")
@name_argument
@role_argument
@reason_option
def grant_role(name: str, role: str, reason: str | None) -> None:
    """Give a user a role: api, users.query or users.manage."""
    chosen = Role.parse(role)
    meant = intent("grant-role", reason, Role=chosen.value)
    power = users.change_power(Lookup.parse(name), partial(granted, role=chosen), meant)
    audit_log("granted the role %s to %s", chosen.value, name)
    show_roles(name, power)
    move_entries(storage)


@api.command("revoke")
@name_argument
@role_argument
@reason_option
def revoke_role(name: str, role: str, reason: str | None) -> None:
    """Take a role from a user, and those that rest on it."""
    chosen = Role.parse(role)
    meant = intent("revoke-role", reason, Role=chosen.value)
    power = users.change_power(Lookup.parse(name), partial(revoked, role=chosen), meant)
    audit_log("revoked the role %s of %s", chosen.value, name)
    show_roles(name, power)
    move_entries(storage)


@api.command("roles")
@name_argument
def list_roles(name: str) -> None:
    """Show the roles of a user."""
    show_roles(name, users.get(Lookup.parse(name), "Power")["Power"])


def audit_log(action: str, *names: str) -> None:
    """Log an administrative action, which no request log would show."""
    log.info(f"The system user %s {action} at the command line.", system_user(), *names)


def show_roles(name: str, power: dict[str, bool]) -> None:
    held = roles_of(power)
    click.echo(f"{name}: {', '.join(role.value for role in Role if role in held) or 'no roles'}")


@click.command()
@name_argument
@with_appcontext
def token(name: str) -> None:
    """Print an access token of a user, for scripts and for trying things out."""
    account = users.get(Lookup.parse(name), "Power", "PasswordVersion")
    if Role.API not in roles_of(account["Power"]):
        raise Invalid(f"{name} lacks the role 'api'; quartermaster api grant {name} api gives it.")
    issued = current(RefreshTokens).issue(account["_id"], account["PasswordVersion"])
    audit_log("made an access token of %s", name)
    tokens = current(AccessTokens)
    click.echo(tokens.issue(issued.user_id, issued.chain, int(tokens.now())))
