"""Setting up, using, switching off and resetting a second factor."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.auth.scopes import KeyAccess
from app.users.operations import account_operation

MADE_BY = "app/second_factor/management, which checks a code"
NOT_KEPT = "the secret of the app is not kept: set it up again"

SET_UP_FACTOR = account_operation(
    "set-up-second-factor",
    made_by=MADE_BY,
    inverse="switch it off with a code instead",
    sentence="Second factor set up",
    needs=None,
)
SWITCH_OFF_FACTOR = account_operation(
    "switch-off-second-factor",
    made_by=MADE_BY,
    inverse=NOT_KEPT,
    sentence="Second factor switched off",
    needs=None,
)
RENEW_RECOVERY_CODES = account_operation(
    "renew-recovery-codes",
    made_by=MADE_BY,
    inverse="the former recovery codes are not kept",
    sentence="New recovery codes made",
    needs=None,
)
USE_RECOVERY_CODE = account_operation(
    "use-recovery-code",
    made_by=MADE_BY,
    inverse="a recovery code works once",
    sentence="Recovery code used to sign in",
    needs=None,
)
RESET_FACTOR = account_operation(
    "reset-second-factor",
    made_by="app/second_factor/management, which sends a mail",
    inverse=NOT_KEPT,
    sentence="Second factor reset",
    # No key: it could get into every account whose password it may set.
    needs=(Permission.USERS_READ, Permission.STAFF_MANAGE, KeyAccess.NONE),
    notice="Reset the second factor of {whom}.",
)
