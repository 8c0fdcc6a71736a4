"""Checks, changes and resets passwords of accounts. Every guess is counted."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from operator import not_
from typing import Any

from app.auth import guard
from app.auth.callers import callers
from app.auth.guesses import Guess, attempt, guess_by_caller, unknown_account
from app.core.changes import Applied, Intent
from app.core.errors import (
    Conflict,
    InvalidCredentials,
    KeyNotAllowed,
    NotFound,
    QuartermasterError,
)
from app.core.naming import Lookup, email_as_sent, name_key
from app.core.permissions import RIGHTS
from app.core.services import current
from app.core.types import Document
from app.http.context import setting
from app.storage.limits import limits
from app.users.domain import (
    ResetCodes,
    WrongCode,
    new_code,
    redeem_code,
    remember_code,
    replace_password,
    require_not_staff,
)
from app.users.hashing import hasher
from app.users.mail import RESET, Letter, mailer
from app.users.store import PASSWORD, users

reset_codes = current(ResetCodes)


def is_own(key: Lookup) -> bool:
    """Tell whether this is the account of the caller."""
    caller = guard.caller()
    return key.id == caller.id or key.name_key == name_key(caller.name)


def refuse_own_account(key: Lookup, _: Any = None) -> None:
    """Refuse an API key that changes its own account: with a new password it could make keys."""
    if guard.caller().key and is_own(key):
        raise KeyNotAllowed


def require_manageable(key: Lookup, _: Any = None) -> None:
    """Raise if the caller may not change an account: nobody may if it may do more than theirs."""
    refuse_own_account(key)
    guard.require_peer(users.get(key, *RIGHTS))


def require_settable(key: Lookup, args: Document) -> None:
    """Raise if the caller may not change how an account signs in: without its password, of staff.

    The rules of these changes look again for a role: it may be given meanwhile.
    """
    if "authorization" not in args:
        require_not_staff(users.get(key, *RIGHTS))
    require_manageable(key)


def checked_password(key: Lookup, args: Document) -> str | None:
    """Return the stored hash of the current password, which must be right; None if not given."""
    given = args.get("authorization")
    return given and check_password(key, given, InvalidCredentials())


def is_of_staff(key: Lookup) -> bool:
    """Tell whether an account may do anything here: whoever takes it over may do it, too."""
    return bool(callers.rights(users.get(key, *RIGHTS)).permissions)


def check_password(key: Lookup, sha256: str, refusal: QuartermasterError) -> str:
    """Raise the refusal unless this is the password; return its stored hash."""
    user = _account_for_guess(key, "PasswordHash")
    verified = verify(user, guess_by_caller(user["_id"]), sha256, refusal)
    password_hash: str = verified["PasswordHash"]
    return password_hash


def verify(
    user: Document | None, guess: Guess, sha256: str, refusal: QuartermasterError
) -> Document:
    """Return an account, with its hash at the current cost, if this is its password."""
    stored: str | None = user["PasswordHash"] if user else None
    renewed = hasher.check(guess, stored, sha256, refusal)
    if user is None or stored is None:  # hasher.check has refused it already
        raise refusal
    if renewed:
        users.renew_hash(user["_id"], stored, renewed)
    return {**user, "PasswordHash": renewed or stored}


def change_password(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Store a new password: if the current one is given, and is still the same then.

    Without it, only if the account still has no role of staff.
    """
    checked = checked_password(key, args)
    rule = partial(replace_password, password_hash=hasher.hash(args["new"]), checked=checked)
    applied = users.change(key, PASSWORD, rule, intent)
    # Without the password, the contract words the answer like that of a check.
    return applied._replace(answer={"Message": f"Password {'Updated' if checked else 'Correct'}"})


def mail_reset_code(key: Lookup, _: Any, intent: Intent, letter: Letter = RESET) -> Applied:
    """Mail a new code: one resets the password, the other accepts an invitation."""
    changed = ("EmailKey", "PasswordVersion", *RIGHTS)
    reads = ("Name", "Email", "PasswordHash", "OpenId", *changed)
    user = _account_for_guess(key, *reads)
    if earlier := users.find_earlier(key, intent):
        return earlier
    if user.get("OpenId") and user["PasswordHash"] is None:
        raise Conflict("This account has no password: its owner signs in with a company account.")
    if not email_as_sent(user["Email"]):
        raise Conflict("Password reset email could not be sent: the account has no valid address.")
    limits.refuse_full(**guess_by_caller(user["_id"]))
    code = reset_codes.of(user["_id"], intent.key) if intent.key else new_code()
    # Only what was sent counts.
    with limits.use(not_, mails_a_day=user["_id"], mails_an_hour=user["_id"]):
        rule = partial(
            remember_code, field=letter.field, code=stored_code(code, letter), mailed=user
        )
        mailer.send_code(user, code, letter)
        # Store the code after mailing: if the mail fails, the former code stays valid.
        return users.change(key, (letter.field, *changed), rule, intent)


def stored_code(code: str, letter: Letter) -> Document:
    """Return what an account keeps of a mailed code."""
    expires_at = users.now() + timedelta(seconds=setting(letter.seconds))
    return {"Code": code, "ExpiresAt": expires_at, "Failures": 0}


def redeem_reset_code(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Exchange a code for a new password, or raise WrongCode."""
    make_hash = partial(hasher.hash, args["new"])
    rule = partial(redeem_code, code=args["code"], now=users.now(), make_hash=make_hash)
    with hasher.attempt(guess_by_caller(_account_for_guess(key, "_id")["_id"])):
        applied = users.change(key, PASSWORD, rule, intent)
        if not applied.answer:
            raise WrongCode
    return applied._replace(answer={"Message": "Password Updated"})


def _account_for_guess(key: Lookup, *fields: str) -> Document:
    """Return an account for a guess; count the guess even if the account does not exist."""
    try:
        return users.get(key, *fields)
    except NotFound:
        with attempt(guess_by_caller(unknown_account(str(key)))):
            raise
