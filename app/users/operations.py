"""The operations of accounts: registration, addresses, passwords and roles."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.core.changes import Applied, Intent, Origin
from app.core.naming import Lookup
from app.core.operations import NotUndoable, Operation, no_items
from app.core.permissions import RIGHTS, Permission
from app.core.types import Document
from app.http.tracing import request_id
from app.users import accounts, domain
from app.users.domain import rename
from app.users.hashing import hasher
from app.users.schemas import (
    ChangeEmailArgs,
    ChangePasswordArgs,
    RedeemArgs,
    RegisterArgs,
    RenameUserArgs,
)
from app.users.store import ADDRESS, users

NOT_KEPT = "the former password is not kept"


def account_operation(name: str, *, no_undo: str, **declared: Any) -> Operation:
    """Return an operation of accounts; no_undo says why it cannot be undone."""
    facts: dict[str, Any] = {
        "subject": "user",
        "needs": (Permission.USERS_CHANGE,),
        "arguments": None,
        "inverse": NotUndoable(no_undo),
        "moves": no_items,
        "takes_key": False,
    }
    return Operation(name=name, **{**facts, **declared})


def intent_at_sign_in(
    operation: Operation, user_id: str | None, name: str, via: str = "console"
) -> Intent:
    """Return the intent of a change that somebody makes who is not signed in yet."""
    return Intent(operation.name, Origin(user_id, name, via, request_id()))


def register(_: Any, args: Document, intent: Intent) -> Applied:
    password_hash = hasher.hash(args["password"])
    applied = users.create(args["username"], args["email"], password_hash, intent)
    user = applied.answer
    return applied._replace(answer={"Username": user["Name"], "Email": user["Email"]})


def change_email(key: Lookup, args: Document, intent: Intent) -> Applied:
    checked = accounts.checked_password(key, args)
    rule = partial(domain.change_email, new=args["new"], checked=checked)
    return users.change(key, (*ADDRESS, *RIGHTS), rule, intent)


REGISTER = account_operation(
    "register",
    no_undo="a registration is never undone",
    sentence="Account registered",
    arguments=RegisterArgs(),
    run=register,
)
RENAME_USER = account_operation(
    "rename",
    no_undo="rename the account back instead",
    sentence="Account renamed to {Name}",
    arguments=RenameUserArgs(),
    requires=(accounts.require_manageable,),
    store=users,
    reads=("Name", "NameKey", "NameTails", "FormerNames"),
    rule=rename,
    needs=(Permission.USERS_FIND, Permission.USERS_MANAGE),
)
CHANGE_EMAIL = account_operation(
    "change-email",
    no_undo="the former address is not kept",
    sentence="Email address changed",
    arguments=ChangeEmailArgs(),
    requires=(accounts.require_settable,),
    run=change_email,
)
CHANGE_PASSWORD = account_operation(
    "change-password",
    no_undo=NOT_KEPT,
    sentence="Password changed",
    arguments=ChangePasswordArgs(),
    requires=(accounts.require_settable,),
    run=accounts.change_password,
)
MAIL_RESET_CODE = account_operation(
    "mail-reset-code",
    no_undo="a mail that was sent stays sent",
    sentence="Reset code mailed",
    requires=(accounts.refuse_own_account,),
    run=accounts.mail_reset_code,
    notice="Mailed {whom} a code to reset the password.",
)
RESET_PASSWORD = account_operation(
    "reset-password",
    no_undo=NOT_KEPT,
    sentence="Password set with a mailed code",
    arguments=RedeemArgs(),
    requires=(accounts.require_manageable,),
    run=accounts.redeem_reset_code,
)
