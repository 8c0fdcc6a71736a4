"""The operations of accounts: registration, addresses, passwords and roles."""

from __future__ import annotations

from typing import Any

from app.auth.permissions import Need, Permission
from app.operations import Inverse, Operation, Prepare
from app.users.schemas import (
    ManageEmailArgs,
    ManagePasswordArgs,
    RedeemArgs,
    RegisterArgs,
    RenameUserArgs,
)

NOT_KEPT = "the former password is not kept"


def account_operation(
    name: str,
    *,
    made_by: str | Prepare,
    inverse: str | Inverse,
    sentence: str,
    arguments: Any = None,
    subject: str = "user",
    needs: tuple[Need, ...] | None = (Permission.USERS_CHANGE,),
    **facts: Any,
) -> Operation:
    """Return an operation of accounts; most cannot be undone."""
    return Operation(
        name=name,
        subject=subject,
        needs=needs,
        arguments=arguments,
        prepare=made_by,
        inverse=inverse,
        moves=None,
        batch=None,
        sentence=sentence,
        **{"takes_key": False, **facts},
    )


REGISTER = account_operation(
    "register",
    made_by="app/users/store, because names and addresses are unique",
    inverse="a registration is never undone",
    sentence="Account registered",
    arguments=RegisterArgs(),
)
RENAME_USER = account_operation(
    "rename",
    made_by="app/users/store, because names are unique",
    inverse="rename the account back instead",
    sentence="Account renamed to {Name}",
    arguments=RenameUserArgs(),
    needs=(Permission.USERS_FIND, Permission.USERS_MANAGE),
)
CHANGE_EMAIL = account_operation(
    "change-email",
    made_by="app/users/store, because addresses are unique",
    inverse="the former address is not kept",
    sentence="Email address changed",
    arguments=ManageEmailArgs(),
)
CHANGE_PASSWORD = account_operation(
    "change-password",
    made_by="app/users/accounts, which hashes it",
    inverse=NOT_KEPT,
    sentence="Password changed",
    arguments=ManagePasswordArgs(),
)
MAIL_RESET_CODE = account_operation(
    "mail-reset-code",
    made_by="app/users/accounts, which sends a mail",
    inverse="a mail that was sent stays sent",
    sentence="Reset code mailed",
    notice="Mailed {whom} a code to reset the password.",
)
RESET_PASSWORD = account_operation(
    "reset-password",
    made_by="app/users/accounts, which counts wrong codes",
    inverse=NOT_KEPT,
    sentence="Password set with a mailed code",
    arguments=RedeemArgs(),
)
GRANT_ROLE = account_operation(
    "grant-role",
    made_by="app/users/store",
    inverse="quartermaster api revoke takes a role",
    sentence="Role {Role} granted",
    needs=None,
)
REVOKE_ROLE = account_operation(
    "revoke-role",
    made_by="app/users/store",
    inverse="quartermaster api grant gives a role",
    sentence="Role {Role} revoked",
    needs=None,
)
