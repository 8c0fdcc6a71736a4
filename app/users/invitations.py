"""Invitations: accounts without a password, whose owners choose one with a mailed link."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from app.auth.guesses import guess_by_address, unknown_account
from app.core.changes import Applied, Intent, Origin
from app.core.errors import Conflict, EmailTaken, NameTaken, NotFound
from app.core.naming import Lookup
from app.http.context import current, setting
from app.http.tracing import request_id
from app.users import accounts
from app.users.domain import (
    ResetCodes,
    WrongInvitation,
    accept_invitation,
    code_of,
    new_code,
    require_email,
    require_username,
)
from app.users.hashing import Hasher
from app.users.mail import INVITATION, Mailer
from app.users.operations import RESET_PASSWORD
from app.users.store import Users

# The ids of invited accounts are derived from the Idempotency-Key in this namespace.
NAMESPACE = uuid.UUID("5d6de0f1-0c5c-4b0e-9a3f-9a7d5a1f3b58")

hasher = current(Hasher)
mailer = current(Mailer)
reset_codes = current(ResetCodes)
users = current(Users)


def invite(name: str, email: str, intent: Intent, **fields: Any) -> Applied:
    """Mail an invitation, and then add the account: if the mail fails, there is no account."""
    invited = id_, _ = new_invitation(intent)
    key = Lookup.parse(id_)
    if earlier := users.find_earlier(key, intent):
        return earlier
    mail(name, email, invited)
    try:
        return add(name, email, invited, intent, **fields)
    except (NameTaken, EmailTaken):
        if earlier := users.find_earlier(key, intent):
            return earlier
        raise


def new_invitation(intent: Intent) -> tuple[str, str]:
    """Return the id of an account, and a code for it.

    A repeated request derives the same ones from its Idempotency-Key.
    """
    if intent.key is None:
        return str(uuid.uuid4()), new_code()
    id_ = str(uuid.uuid5(NAMESPACE, f"{intent.origin.user_id} {intent.key}"))
    return id_, reset_codes.of(id_, intent.key)


def mail(name: str, email: str, invited: tuple[str, str]) -> None:
    """Mail an invitation to an account that will be added."""
    require_username(name, "Name")
    require_email(email, "Email")
    users.require_unused(name, email)
    id_, code = invited
    with mailer.slot():
        mailer.send_code({"_id": id_, "Name": name, "Email": email}, code, INVITATION)


def add(name: str, email: str, invited: tuple[str, str], intent: Intent, **fields: Any) -> Applied:
    """Add the account of an invitation that was mailed."""
    id_, code = invited
    expires_at = users.now() + timedelta(seconds=setting(INVITATION.seconds))
    invitation = code_of(code, expires_at)
    return users.create(name, email, None, intent, id_, Invitation=invitation, **fields)


def invite_again(key: Lookup, intent: Intent) -> Applied:
    """Mail a new link to somebody who has not chosen a password yet; the former link is void."""
    if users.get(key, "PasswordHash")["PasswordHash"] is not None:
        # Its owner has accepted the invitation.
        raise Conflict("This account has a password already. Mail a reset code instead.")
    return accounts.mail_reset_code(key, {}, intent, INVITATION)


def accept(invitation: str, sha256: str) -> None:
    """Set the first password of an invited account; the owner is the author in history."""
    id_, _, code = invitation.strip().rpartition("#")[2].rpartition(".")
    key = Lookup.parse(id_)
    guess = guess_by_address(key.id or unknown_account(id_))
    with hasher.slot_for(guess), guess.attempt():
        if key.id is None:  # a name is easy to guess
            raise WrongInvitation
        try:
            user = users.get(key, "Name")
        except NotFound:
            raise WrongInvitation from None
        origin = Origin(user["_id"], user["Name"], "console", request_id())
        make_hash = partial(hasher.hash, sha256)
        rule = partial(accept_invitation, code=code, now=users.now(), make_hash=make_hash)
        applied = users.change_password(key, rule, Intent(RESET_PASSWORD.name, origin))
        if not applied.answer:
            raise WrongInvitation
