"""Sets up, checks, switches off and resets the second factor of an account."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import pyotp

from app.auth import guard
from app.auth.guesses import guess_by_address
from app.auth.permissions import RIGHTS
from app.changes import Applied, Change, Intent, Origin
from app.errors import Unavailable
from app.http.context import current, setting
from app.http.tracing import request_id
from app.naming import Lookup, email_as_sent
from app.second_factor import domain
from app.second_factor.domain import READS, new_recovery_codes
from app.second_factor.operations import USE_RECOVERY_CODE
from app.second_factor.vault import Vault
from app.types import Document
from app.users.mail import Mailer
from app.users.store import Users

log = logging.getLogger("quartermaster")

# How long a page with a new secret may wait for its first code.
SET_UP_SECONDS = 3600
TOO_OLD = "This page is too old: scan the QR code again, and type the code of the new entry."
NEW_SECRET = "new secret"  # noqa: S105 (the purpose of what is sealed)

mailer = current(Mailer)
users = current(Users)
vault = current(Vault)


class Proposal(NamedTuple):
    """A secret that is not stored yet: the page that shows it sends it back, sealed."""

    secret: str
    sealed: str
    # What the QR code contains.
    uri: str


class RecoveryCodes(NamedTuple):
    """New recovery codes. They are shown once, and never in a replay."""

    codes: list[str] | None
    applied: Applied


def propose(user_id: str, name: str, sealed: str = "") -> Proposal:
    """Return the secret that a page has shown before, or else a new one."""
    try:
        secret = _proposed(user_id, sealed)
    except domain.CodeRefused:
        secret, sealed = pyotp.random_base32(), ""
    issuer = f"Quartermaster {setting('GAME_NAME')}"
    uri = pyotp.TOTP(secret).provisioning_uri(name, issuer)
    return Proposal(secret, sealed or vault.seal(NEW_SECRET, user_id, secret), uri)


def _proposed(user_id: str, sealed: str) -> str:
    """Return the secret of an earlier proposal to the same account."""
    with suppress(domain.CodeRefused):
        owner, secret = vault.unseal(NEW_SECRET, sealed, SET_UP_SECONDS)
        if owner == user_id:
            return secret
    raise domain.CodeRefused(TOO_OLD)


def set_up(user_id: str, sealed: str, code: str, intent: Intent) -> RecoveryCodes:
    codes = new_recovery_codes()
    rule = partial(domain.set_up, secret=_proposed(user_id, sealed), recovery=codes)
    return _made(codes, _change_by_code(user_id, code, rule, intent))


def renew_recovery_codes(user_id: str, code: str, intent: Intent) -> RecoveryCodes:
    codes = new_recovery_codes()
    rule = partial(domain.renew_recovery_codes, recovery=codes)
    return _made(codes, _change_by_code(user_id, code, rule, intent))


def switch_off(user_id: str, code: str, intent: Intent) -> Applied:
    return _change_by_code(user_id, code, domain.switch_off, intent)


def use_code(user: Document, code: str, via: str) -> None:
    """Accept a code at sign-in: each works once, on whatever worker. Every guess is counted."""
    origin = Origin(user["_id"], user["Name"], via, request_id())
    _change_by_code(user["_id"], code, domain.use_code, Intent(USE_RECOVERY_CODE.name, origin))


def _change_by_code(
    user_id: str, code: str, rule: Callable[..., Change], intent: Intent
) -> Applied:
    decide = partial(rule, code=code, now=users.now(), cipher=vault)
    with guess_by_address(user_id).attempt():
        return users.change(Lookup.parse(user_id), READS, decide, intent)


def _made(codes: list[str], applied: Applied) -> RecoveryCodes:
    return RecoveryCodes(None if applied.replayed else codes, applied)


def reset(key: Lookup, intent: Intent) -> tuple[Applied, bool]:
    """Remove a lost second factor, and return whether its owner was told by mail.

    The mail comes last: if it fails, the reset stays, and whoever made it must tell the person.
    """
    user = users.get(key, "Name", "Email", *RIGHTS)
    if user["_id"] == intent.origin.user_id:
        raise domain.OwnFactor
    if intent.origin.user_id is not None:  # not at the command line
        guard.require_peer(user)
    applied = users.change(key, READS, domain.reset, intent)
    return applied, applied.replayed or _tell_owner(user, intent.origin.name)


def _tell_owner(user: Document, by: str) -> bool:
    if not email_as_sent(user["Email"]):
        return False
    subject = f"Your second factor for {setting('GAME_NAME')} was reset"
    try:
        with mailer.slot():
            mailer.send(subject, "second_factor_reset", user["Name"], user["Email"], by=by)
    except Unavailable as error:
        cause = error.__cause__ or error
        log.warning("The mail about a reset second factor was not sent: %s", cause)
        return False
    return True
