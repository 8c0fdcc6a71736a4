"""Ending all sign-ins of an account."""

from __future__ import annotations

from app.auth.permissions import Permission, SignedIn
from app.users.operations import account_operation

REVOKE_TOKENS = account_operation(
    "revoke-tokens",
    made_by="app/oauth/sign_ins",
    inverse="a token that was revoked stays so",
    sentence="Signed out everywhere",
    needs=(SignedIn.ANYBODY, Permission.USERS_MANAGE),
)
