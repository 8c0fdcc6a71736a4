"""Ending all sign-ins of an account."""

from __future__ import annotations

from app.core.permissions import Permission, SignedIn
from app.users.oauth.sign_ins import end_all
from app.users.operations import account_operation

REVOKE_TOKENS = account_operation(
    "revoke-tokens",
    no_undo="a token that was revoked stays so",
    sentence="Signed out everywhere",
    run=end_all,
    needs=(SignedIn.ANYBODY, Permission.USERS_MANAGE),
)
