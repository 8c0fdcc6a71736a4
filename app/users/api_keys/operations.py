"""Making, rotating and revoking keys."""

from __future__ import annotations

from app.core.permissions import KeyAccess, Permission
from app.users.api_keys.management import create_key, revoke_key, rotate_key
from app.users.api_keys.schemas import KeyArgs, RotateArgs
from app.users.oauth.sign_ins import owner
from app.users.operations import account_operation

# No key may manage keys: it could create one that outlives it.
NEEDS = (Permission.KEYS_MANAGE, KeyAccess.NONE)

CREATE_KEY = account_operation(
    "create-key",
    no_undo="revoke the key instead",
    sentence="Key {Name} made",
    arguments=KeyArgs(),
    requires=(owner,),
    run=create_key,
    needs=NEEDS,
)
ROTATE_KEY = account_operation(
    "rotate-key",
    no_undo="rotate the key again instead",
    sentence="Key {Name} rotated",
    arguments=RotateArgs(),
    requires=(owner,),
    run=rotate_key,
    needs=NEEDS,
)
REVOKE_KEY = account_operation(
    "revoke-key",
    no_undo="the secret of the key is not kept",
    sentence="Key {Name} revoked",
    requires=(owner,),
    run=revoke_key,
    needs=NEEDS,
)
