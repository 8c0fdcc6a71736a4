"""Invitations: accounts without a password, whose owners choose one with a mailed link."""

from __future__ import annotations

import secrets
import uuid
from functools import partial
from typing import Any

from app.auth import guard
from app.auth.guesses import guess_by_address, unknown_account
from app.core.changes import Applied, Intent
from app.core.errors import Conflict, EmailTaken, InvalidField, NameTaken
from app.core.naming import Lookup
from app.core.permissions import RIGHTS
from app.core.types import Document
from app.users import accounts
from app.users.accounts import reset_codes, stored_code
from app.users.domain import (
    WrongInvitation,
    accept_invitation,
)
from app.users.hashing import hasher
from app.users.mail import INVITATION, mailer
from app.users.operations import RESET_PASSWORD, intent_at_sign_in
from app.users.staff import domain
from app.users.staff.store import roles
from app.users.store import PASSWORD, users

# The ids of invited accounts are derived from the Idempotency-Key in this namespace.
NAMESPACE = uuid.UUID("5d6de0f1-0c5c-4b0e-9a3f-9a7d5a1f3b58")


def invite(_: Any, args: Document, intent: Intent) -> Applied:
    """Mail an invitation, and then add the account: if the mail fails, there is no account."""
    invited = new_invitation(intent)
    key = Lookup.parse(invited[0])
    applied = users.find_earlier(key, intent)
    if applied is None:
        mail_invitation(args, invited)
        try:
            applied = add_invited(args, intent, invited)
        except (NameTaken, EmailTaken):
            applied = users.find_earlier(key, intent)
            if applied is None:
                raise
    return applied._replace(answer=domain.public_staff(users.get(key)))


def new_invitation(intent: Intent) -> tuple[str, str]:
    """Return the id of an account, and a code for it.

    A repeated request derives the same ones from its Idempotency-Key.
    """
    key = intent.key or secrets.token_hex()
    id_ = str(uuid.uuid5(NAMESPACE, f"{intent.origin.user_id} {key}"))
    return id_, reset_codes.of(id_, key)


def mail_invitation(args: Document, invited: tuple[str, str]) -> None:
    """Mail an invitation to an account that will be added."""
    require_invitable(args)
    users.require_unused(args["Name"], args["Email"])
    id_, code = invited
    mailer.send_code({**args, "_id": id_}, code, INVITATION)


def add_invited(args: Document, intent: Intent, invited: tuple[str, str]) -> Applied:
    """Add the account of an invitation that was mailed."""
    id_, code = invited
    fields = {**require_invitable(args), "Invitation": stored_code(code, INVITATION)}
    return users.create(args["Name"], args["Email"], None, intent, id_, **fields)


def require_invitable(args: Document) -> Document:
    """Return the roles of a colleague, or raise if the caller may not give them."""
    names = args["Roles"]
    if not names:
        raise InvalidField("Roles", "Must contain a role: otherwise the account could do nothing.")
    giver, user = guard.own_rights(), {"_id": "", "Name": args["Name"]}
    return {**domain.set_roles(user, names=names, roles=roles.all(), giver=giver).fields}


def invite_again(key: Lookup, intent: Intent) -> Applied:
    """Mail a new link to somebody who has not chosen a password yet; the former link is void."""
    user = users.get(key, "PasswordHash", *RIGHTS)
    guard.require_peer(user)
    if user["PasswordHash"] is not None:
        # Its owner has accepted the invitation.
        raise Conflict("This account has a password already. Mail a reset code instead.")
    applied = accounts.mail_reset_code(key, {}, intent, INVITATION)
    return applied._replace(answer=domain.public_staff(users.get(key)))


def accept(invitation: str, sha256: str) -> None:
    """Set the first password of an invited account; the owner is the author in history."""
    id_, _, code = invitation.strip().rpartition("#")[2].rpartition(".")
    key = Lookup.parse(id_)
    guess = guess_by_address(key.id or unknown_account(id_))
    with hasher.attempt(guess):
        # A name is easy to guess, so only an id is accepted.
        user = users.get_many([key.id], "Name").get(key.id) if key.id else None
        if user is None:
            raise WrongInvitation
        meant = intent_at_sign_in(RESET_PASSWORD, user["_id"], user["Name"])
        make_hash = partial(hasher.hash, sha256)
        rule = partial(accept_invitation, code=code, now=users.now(), make_hash=make_hash)
        applied = users.change(key, PASSWORD, rule, meant)
        if not applied.answer:
            raise WrongInvitation
