"""The operations of accounts: registration, addresses, passwords and roles."""

from __future__ import annotations

from typing import Any

from app.core.changes import Applied, Intent
from app.core.naming import Lookup
from app.core.operations import NotUndoable, Operation, no_items
from app.core.permissions import Need, Permission
from app.core.types import Document
from app.http.context import current
from app.users import accounts
from app.users.domain import require_email, require_username
from app.users.schemas import (
    ChangeEmailArgs,
    ChangePasswordArgs,
    RedeemArgs,
    RegisterArgs,
    RenameUserArgs,
)
from app.users.store import Users

users = current(Users)

NOT_KEPT = "the former password is not kept"


def account_operation(
    name: str,
    *,
    no_undo: str,
    sentence: str,
    arguments: Any = None,
    subject: str = "user",
    needs: tuple[Need, ...] | None = (Permission.USERS_CHANGE,),
    **facts: Any,
) -> Operation:
    """Return an operation of accounts; no_undo says why it cannot be undone."""
    return Operation(
        name=name,
        subject=subject,
        needs=needs,
        arguments=arguments,
        inverse=NotUndoable(no_undo),
        moves=no_items,
        sentence=sentence,
        **{"takes_key": False, **facts},
    )


def require_new_name(_: Lookup, args: Document) -> None:
    require_username(args["Name"], "Name")


def require_address(_: Lookup, args: Document) -> None:
    require_email(args["new"], "new")


def rename_user(key: Lookup, args: Document, intent: Intent) -> Applied:
    named = {"Id": users.get(key, "_id")["_id"], "Name": args["Name"]}
    return users.rename(key, args["Name"], intent)._replace(answer=named)


def change_email(key: Lookup, args: Document, intent: Intent) -> Applied:
    return users.change_email(key, args["new"], intent, accounts.checked_password(key, args))


def change_password(key: Lookup, args: Document, intent: Intent) -> Applied:
    checked = accounts.checked_password(key, args)
    applied = accounts.set_password(key, args["new"], intent, checked)
    # Without the password, the contract words the answer like that of a check.
    return applied._replace(answer={"Message": f"Password {'Updated' if checked else 'Correct'}"})


REGISTER = account_operation(
    "register",
    no_undo="a registration is never undone",
    sentence="Account registered",
    arguments=RegisterArgs(),
)
RENAME_USER = account_operation(
    "rename",
    no_undo="rename the account back instead",
    sentence="Account renamed to {Name}",
    arguments=RenameUserArgs(),
    requires=(accounts.require_manageable, require_new_name),
    run=rename_user,
    needs=(Permission.USERS_FIND, Permission.USERS_MANAGE),
)
CHANGE_EMAIL = account_operation(
    "change-email",
    no_undo="the former address is not kept",
    sentence="Email address changed",
    arguments=ChangeEmailArgs(),
    requires=(accounts.require_settable, require_address),
    run=change_email,
)
CHANGE_PASSWORD = account_operation(
    "change-password",
    no_undo=NOT_KEPT,
    sentence="Password changed",
    arguments=ChangePasswordArgs(),
    requires=(accounts.require_settable,),
    run=change_password,
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
GRANT_ROLE = account_operation(
    "grant-role",
    no_undo="quartermaster api revoke takes a role",
    sentence="Role {Role} granted",
    needs=None,
)
REVOKE_ROLE = account_operation(
    "revoke-role",
    no_undo="quartermaster api grant gives a role",
    sentence="Role {Role} revoked",
    needs=None,
)
