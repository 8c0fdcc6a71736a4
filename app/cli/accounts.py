"""quartermaster user, api and token."""

from __future__ import annotations

import hashlib
import sys

import click
from flask.cli import AppGroup, with_appcontext

from app.auth.callers import callers
from app.auth.tokens import access_tokens
from app.cli.intents import intent, make, print_records, reason_option
from app.core.errors import Invalid
from app.core.naming import Lookup
from app.core.permissions import RIGHTS, role_names, roles_of
from app.maintenance.transfer.store import open_output
from app.privacy import personal_data
from app.privacy.domain import public_erasure
from app.privacy.operations import ERASE_USER, EXPORT_PERSONAL_DATA
from app.privacy.store import erasures
from app.users.oauth.sign_ins import require_factor
from app.users.oauth.store import refresh_tokens
from app.users.operations import REGISTER
from app.users.staff.operations import GRANT_ROLE, REVOKE_ROLE
from app.users.store import users

SIGN_IN = ("Id", "At", "ExpiresAt", "Via", "Browser", "Method")
NOUNS = {"Players": "players", "Bags": "bags", "SignIns": "sign-ins", "Keys": "keys"}


user = AppGroup("user", help="Manage accounts.")
api = AppGroup("api", help="Manage the roles of accounts.")

key_argument = click.argument("key", metavar="NAME", type=Lookup.parse)
role_argument = click.argument("role", metavar="ROLE")


@user.command("create")
@click.argument("name")
@click.option("--email", required=True, help="The email address of the account.")
@click.option(
    "--password-stdin", is_flag=True, required=True, help="Read the password from standard input."
)
@reason_option
def create_user(name: str, email: str, password_stdin: bool, reason: str | None) -> None:
    """Create an account. It cannot use the API until a role is granted."""
    password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not password:
        raise Invalid("Standard input contains no password.")
    # Clients send the SHA-256 of a password, never the password; its argon2 hash is stored.
    sha256 = hashlib.sha256(password).hexdigest()
    given = {"username": name, "email": email, "password": sha256}
    subject = (make(REGISTER, None, given, reason).entry or {})["Subject"]
    click.echo(f"Created the user {subject['Name']} ({subject['Id']}).")


@user.command("sign-ins")
@key_argument
def list_sign_ins(key: Lookup) -> None:
    """Print the active sign-ins of a user."""
    print_records(refresh_tokens.sign_ins(users.get(key, "PasswordVersion")), SIGN_IN)


@user.command("end-sign-in")
@key_argument
@click.argument("sign_in", metavar="SIGN-IN")
def end_sign_in(key: Lookup, sign_in: str) -> None:
    """End one sign-in of a user. Its tokens or its console session stop working."""
    account = users.get(key, "Name", "PasswordVersion")
    refresh_tokens.end_sign_in(account, sign_in)
    click.echo(f"Ended the sign-in {sign_in} of {account['Name']}.")


@user.command("export")
@key_argument
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@reason_option
def export_user(key: Lookup, path: str, reason: str | None) -> None:
    """Write everything that is stored about a user to FILE, as one JSON document.

    Only its owner can read the file; - is standard output. History records the export.
    """
    with open_output(path, is_secret=True) as file:
        _, pieces = personal_data.write(key, intent(EXPORT_PERSONAL_DATA, reason))
        file.writelines(pieces)


@user.command("erase")
@key_argument
@click.option("--confirm", help="Repeat the username to confirm; without it, the command asks.")
@reason_option
def erase_user(key: Lookup, confirm: str | None, reason: str | None) -> None:
    """Erase a user permanently: account, characters, bags, tokens and keys.

    History is kept with ids and without names. If the command is interrupted, repeat it by id; the
    running service and db check --repair finish it, too.
    """
    typed = confirm or click.prompt(f"Type the username of {key} to erase it permanently")
    user_id = make(ERASE_USER, key, {"Confirm": typed}, reason).answer
    click.echo("Erasing…", err=True)
    erased = public_erasure(erasures.finish(user_id))
    gone = ", ".join(f"{count} {NOUNS[what]}" for what, count in erased["Gone"].items())
    # By id, because the name is no longer stored anywhere.
    click.echo(f"Erased the user {erased['Id']}: {gone}.")
    for stayed in erased["Stayed"]:
        click.echo(f"Kept: {stayed['Count']} of {stayed['What']}. {stayed['Why']}")


@api.command("grant")
@key_argument
@role_argument
@reason_option
def grant_role(key: Lookup, role: str, reason: str | None) -> None:
    """Grant a role to a user: api, users.query or users.manage."""
    click.echo(roles_line(key, make(GRANT_ROLE, key, {"Role": role}, reason).answer))


@api.command("revoke")
@key_argument
@role_argument
@reason_option
def revoke_role(key: Lookup, role: str, reason: str | None) -> None:
    """Revoke a role of a user, and the roles that depend on it."""
    click.echo(roles_line(key, make(REVOKE_ROLE, key, {"Role": role}, reason).answer))


@api.command("roles")
@key_argument
def list_roles(key: Lookup) -> None:
    """Show the roles of a user."""
    click.echo(roles_line(key, users.get(key, "Power")["Power"]))


def roles_line(key: Lookup, power: dict[str, bool]) -> str:
    return f"{key}: {', '.join(role.value for role in roles_of(power)) or 'no roles'}"


@click.command()
@key_argument
@with_appcontext
def token(key: Lookup) -> None:
    """Print an access token of a user without a role of staff, for scripts and experiments."""
    account = users.get(key, *RIGHTS, "PasswordVersion", "SecondFactor")
    if not callers.rights(account).permissions:
        raise Invalid(
            f"{key} lacks the role 'api'; grant it with quartermaster api grant {key} api."
        )
    require_factor(account)
    if role_names(account):
        raise Invalid(f"{key} has a role of staff, so only its holder signs in. Create a key.")
    issued = refresh_tokens.issue(account["_id"], account["PasswordVersion"])
    now = int(access_tokens.now())
    click.echo(access_tokens.issue(issued.user_id, issued.chain, now))
