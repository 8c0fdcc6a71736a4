"""quartermaster user, api and token."""

from __future__ import annotations

import hashlib
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

import click
from flask.cli import AppGroup, with_appcontext

from app.auth.roles import Role, granted, revoked, roles_of
from app.auth.tokens import AccessTokens
from app.changes import Intent
from app.cli.intents import intent, move_entries, operator, reason_option
from app.errors import Invalid
from app.http.context import current
from app.naming import Lookup, parse_guid
from app.oauth.store import RefreshTokens
from app.privacy.domain import ErasureUnderWay
from app.privacy.domain import served as served_erasure
from app.privacy.erasing import erase
from app.privacy.operations import ERASE_USER, EXPORT_PERSONAL_DATA
from app.privacy.personal_data import PersonalData
from app.privacy.store import Erasures
from app.progress import progress
from app.storage.client import Storage
from app.transfer.files import open_output
from app.types import Document
from app.users.domain import require_email, require_username
from app.users.operations import GRANT_ROLE, REGISTER, REVOKE_ROLE
from app.users.passwords import Passwords
from app.users.store import Users

log = logging.getLogger("quartermaster")

WORDS = {"Players": "players", "Bags": "bags", "SignIns": "sign-ins", "Keys": "keys"}

users = current(Users)
passwords = current(Passwords)
refresh_tokens = current(RefreshTokens)
storage = current(Storage)
personal_data = current(PersonalData)
erasures = current(Erasures)

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
    account = users.create(name, email, passwords.hash(sha256), intent(REGISTER, reason)).answer
    audit_log("created the user %s (%s)", account["Name"], account["_id"])
    click.echo(f"Created the user {account['Name']} ({account['_id']}).")
    move_entries(storage)


@user.command("sign-ins")
@name_argument
def list_sign_ins(name: str) -> None:
    """Print the sign-ins of a user that are in use: id, begin, end, through what."""
    for sign_in in refresh_tokens.walk(users.get(Lookup.parse(name), "PasswordVersion")):
        via = f"console, {sign_in.browser}" if sign_in.is_session else "api"
        click.echo(f"{sign_in.chain}  {shown(sign_in.at)}  ends {shown(sign_in.expires_at)}  {via}")


@user.command("end-sign-in")
@name_argument
@click.argument("sign_in", metavar="SIGN-IN")
def end_sign_in(name: str, sign_in: str) -> None:
    """End one sign-in of a user: its tokens, or its session at the console, no longer work."""
    chain = parse_guid(sign_in)
    if chain is None:
        raise Invalid("SIGN-IN must be a guid: quartermaster user sign-ins lists them.")
    account = users.get(Lookup.parse(name), "Name", "PasswordVersion")
    refresh_tokens.end_sign_in(account, chain)
    audit_log("ended a sign-in of %s", account["Name"])
    click.echo(f"Ended the sign-in {chain} of {account['Name']}.")


@user.command("export")
@name_argument
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@reason_option
def export_user(name: str, path: str, reason: str | None) -> None:
    """Write all that is stored about a user to FILE, as one JSON document.

    The file is readable by its owner alone; - is standard output. History tells who wrote it.
    """
    with open_output(path, is_secret=True) as file:
        _, pieces = personal_data.write(Lookup.parse(name), intent(EXPORT_PERSONAL_DATA, reason))
        for piece in pieces:
            file.write(piece)
    move_entries(storage)
    audit_log("exported the personal data of %s", name)


@user.command("erase")
@name_argument
@click.option("--confirm", help="The username once more; it is asked for where this is left out.")
@reason_option
def erase_user(name: str, confirm: str | None, reason: str | None) -> None:
    """Erase a user for good: account, characters, bags, tokens and keys.

    History stays with ids and without names. Killed in the middle, it is finished by the next try,
    by the running service, or by db check --repair.
    """
    key = Lookup.parse(name)
    if erasures.find(key.id, key.text) is None:
        users.get(key, "_id")  # or say at once that there is nobody
    typed = confirm or click.prompt(f"Type the username of {name} to erase it for good")
    with progress("Erasing", 0) as advance:
        record = erase_patiently(key, typed, intent(ERASE_USER, reason), advance)
    told = served_erasure(record)
    # By its id: the name is to be found nowhere from now on.
    audit_log("erased the user %s", told["Id"])
    gone = ", ".join(f"{count} {WORDS[what]}" for what, count in told["Gone"].items())
    click.echo(f"Erased the user {told['Id']}: {gone}.")
    for stayed in told["Stayed"]:
        click.echo(f"Stayed: {stayed['Count']} of {stayed['What']}. {stayed['Why']}")


def erase_patiently(
    key: Lookup, confirm: str, meant: Intent, advance: Callable[[int], None]
) -> Document:
    """Erase a person, and wait until no worker takes the person for a caller any more."""
    while True:
        try:
            return erase(key, confirm, meant, advance)
        except ErasureUnderWay as error:
            # It may be finished by a worker of the service meanwhile.
            time.sleep(error.retry_after)


def shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


@api.command("grant")
@name_argument
@role_argument
@reason_option
def grant_role(name: str, role: str, reason: str | None) -> None:
    """Give a user a role: api, users.query or users.manage."""
    chosen = Role.parse(role)
    meant = intent(GRANT_ROLE, reason, Role=chosen.value)
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
    meant = intent(REVOKE_ROLE, reason, Role=chosen.value)
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
    log.info(f"The system user %s {action} at the command line.", operator(), *names)


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
