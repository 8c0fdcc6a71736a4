"""Making, rotating and revoking keys."""

from __future__ import annotations

from app.api_keys.schemas import KeyArgs, RotateArgs
from app.auth.permissions import KeyAccess, Permission
from app.users.operations import account_operation

MADE_BY = "app/api_keys/management, which makes the secret of the key"

# No key may manage keys: it could create one that outlives it.
NEEDS = (Permission.KEYS_MANAGE, KeyAccess.NONE)

CREATE_KEY = account_operation(
    "create-key",
    no_undo="revoke the key instead",
    sentence="Key {Name} made",
    arguments=KeyArgs(),
    needs=NEEDS,
)
ROTATE_KEY = account_operation(
    "rotate-key",
    no_undo="rotate the key again instead",
    sentence="Key {Name} rotated",
    arguments=RotateArgs(),
    needs=NEEDS,
)
REVOKE_KEY = account_operation(
    "revoke-key",
    no_undo="the secret of the key is not kept",
    sentence="Key {Name} revoked",
    needs=NEEDS,
    notice="Revoked the key {Name} of {whom}.",
)
