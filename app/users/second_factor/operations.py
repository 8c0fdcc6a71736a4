"""Setting up, using, switching off and resetting a second factor."""

from __future__ import annotations

from app.core.operations import Operation
from app.core.permissions import KeyAccess, Permission
from app.users.operations import account_operation
from app.users.schemas import ResetSignInArgs
from app.users.second_factor.domain import OwnSignIn
from app.users.second_factor.management import USED_CODE, preview_reset, reset, reset_sign_in

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
    USED_CODE, "Recovery code used to sign in", "a recovery code works once"
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
