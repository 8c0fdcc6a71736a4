"""Sets up, checks, switches off and resets the second factor of an account."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyotp

from app.auth import guard
from app.auth.guesses import Guess, attempt, guess_by_address
from app.core.changes import Applied, Change, Intent
from app.core.errors import Unavailable
from app.core.naming import Lookup, email_as_sent
from app.core.operations import Operation
from app.core.permissions import RIGHTS, KeyAccess, Permission
from app.core.types import Document
from app.http.context import setting
from app.storage.transactions import after_commit
from app.users.domain import require_not_staff
from app.users.mail import mailer
from app.users.operations import account_operation, intent_at_sign_in
from app.users.schemas import ResetSignInArgs
from app.users.second_factor import domain
from app.users.second_factor.domain import READS, OwnSignIn, new_recovery_codes
from app.users.second_factor.vault import vault
from app.users.store import ADDRESS, users

log = logging.getLogger("quartermaster")

# How long a page with a new secret may wait for its first code.
SET_UP_SECONDS = 3600
TOO_OLD = "This page is too old: scan the QR code again, and type the code of the new entry."
NEW_SECRET = "new secret"  # noqa: S105 (the purpose of what is sealed)


def propose(user_id: str, sealed: str) -> tuple[str, str]:
    """Return a secret that is not stored yet, and the same sealed, which its page sends back.

    It is the one that the page has shown before, or else a new one.
    """
    try:
        return _secret_of_proposal(user_id, sealed), sealed
    except domain.CodeRefused:
        secret = pyotp.random_base32()
        return secret, vault.seal(NEW_SECRET, user_id, secret)


def _secret_of_proposal(user_id: str, sealed: str) -> str:
    """Return the secret of an earlier proposal to the same account."""
    with suppress(domain.CodeRefused):
        owner, secret = vault.unseal(NEW_SECRET, sealed, SET_UP_SECONDS)
        if owner == user_id:
            return str(secret)
    raise domain.CodeRefused(TOO_OLD)


def set_up(user_id: str, sealed: str, code: str, intent: Intent) -> Applied:
    rule = partial(domain.set_up, secret=_secret_of_proposal(user_id, sealed))
    return _change_with_codes(user_id, code, rule, intent)


def renew_recovery_codes(user_id: str, code: str, intent: Intent) -> Applied:
    return _change_with_codes(user_id, code, domain.renew_recovery_codes, intent)


def _change_with_codes(
    user_id: str, code: str, rule: Callable[..., Change], intent: Intent
) -> Applied:
    """Make a change with new recovery codes: the answer, but none in a replay."""
    codes = new_recovery_codes()
    applied = _change_by_code(user_id, code, partial(rule, recovery=codes), intent)
    return applied._replace(answer=None if applied.replayed else codes)


def switch_off(user_id: str, code: str, intent: Intent) -> Applied:
    return _change_by_code(user_id, code, domain.switch_off, intent)


def use_code(user: Document, code: str, via: str, guess: Guess | None = None) -> bool:
    """Accept a code at sign-in, and return whether it was a recovery code.

    Each works once, on whatever worker. Every guess is counted.
    """
    meant = intent_at_sign_in(USE_RECOVERY_CODE, user["_id"], user["Name"], via)
    return _change_by_code(user["_id"], code, domain.use_code, meant, guess).entry is not None


def _change_by_code(
    user_id: str,
    code: str,
    rule: Callable[..., Change],
    intent: Intent,
    guess: Guess | None = None,
) -> Applied:
    decide = partial(rule, code=code, now=users.now(), cipher=vault)
    with attempt(guess or guess_by_address(user_id)):
        return users.change(Lookup.parse(user_id), READS, decide, intent)


def reset(key: Lookup, _: Document, intent: Intent) -> Applied:
    """Remove a lost second factor; the answer says whether its owner was told by mail.

    The mail comes last: if it fails, the reset stays, and whoever made it must tell the person.
    """
    user = users.get(key, "Name", "Email", *RIGHTS)
    if user["_id"] == intent.origin.user_id:
        raise domain.OwnFactor
    require_not_staff(user)
    guard.require_peer(user)
    applied = users.change(key, (*READS, *RIGHTS), domain.reset, intent)
    told = applied.replayed or _tell_owner(
        user, "second factor", "second_factor_reset", by=intent.origin.name
    )
    return applied._replace(answer={"username": user["Name"], "MailSent": told})


def preview_reset(key: Lookup, _: Document, __: Intent) -> list[Document]:
    """Raise if the caller may not reset a sign-in; a plan would contain secrets."""
    guard.require_peer(users.get(key, *RIGHTS))
    return []


def reset_sign_in(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Reset a lost sign-in, and then tell its holder at the former and at the new address."""
    user, by, email = users.get(key, "Name", "Email"), intent.origin, args["Email"]
    rule = partial(domain.reset_sign_in, email=email)
    applied = users.change(key, (*ADDRESS, *READS), rule, intent)
    facts = {"by": by.name, "approver": (by.approved_by or {}).get("Name"), "moved": email}
    for address in dict.fromkeys(filter(None, [user["Email"], email])):
        holder = {**user, "Email": address}
        if not applied.replayed:
            after_commit(partial(_tell_owner, holder, "sign-in", "sign_in_reset", **facts))
    return applied


def _tell_owner(user: Document, what: str, template: str, **facts: Any) -> bool:
    if not email_as_sent(user["Email"]):
        return False
    subject = f"Your {what} for {setting('GAME_NAME')} was reset"
    try:
        mailer.send(subject, template, user, **facts)
    except Unavailable as error:
        log.warning("The mail about a reset %s was not sent: %s", what, error.__cause__ or error)
        return False
    return True


NOT_KEPT = "the secret of the app is not kept: set it up again"


def _by_code(name: str, sentence: str, no_undo: str) -> Operation:
    """Return an operation of the owner of an account, at the console or at sign-in."""
    return account_operation(name, no_undo=no_undo, sentence=sentence, needs=None)


SET_UP_FACTOR = _by_code(
    "set-up-second-factor", "Second factor set up", "switch it off with a code instead"
)
SWITCH_OFF_FACTOR = _by_code("switch-off-second-factor", "Second factor switched off", NOT_KEPT)
RENEW_RECOVERY_CODES = _by_code(
    "renew-recovery-codes", "New recovery codes made", "the former ones are not kept"
)
USE_RECOVERY_CODE = _by_code(
    "use-recovery-code", "Recovery code used to sign in", "a recovery code works once"
)
RESET_FACTOR = account_operation(
    "reset-second-factor",
    no_undo=NOT_KEPT,
    sentence="Second factor reset",
    run=reset,
    # No key: it could get into every account whose password it may set.
    needs=(Permission.USERS_READ, Permission.STAFF_MANAGE, KeyAccess.NONE),
    notice="Reset the second factor of {whom}.",
)
# Only an approved request makes it, or whoever has the machine.
RESET_SIGN_IN = account_operation(
    "reset-sign-in",
    no_undo=NOT_KEPT,
    sentence="Sign-in reset",
    title="Reset the sign-in",
    run=reset_sign_in,
    preview=preview_reset,
    own_account=OwnSignIn,
    arguments=ResetSignInArgs(),
    needs=None,
)
