"""What signing in with a company account changes."""

from __future__ import annotations

from app.operations import BY_CHANGES
from app.users.operations import account_operation

CREATE_BY_COMPANY = account_operation(
    "create-by-company",
    made_by="app/openid/sign_ins",
    inverse="the account belongs to somebody who has signed in",
    sentence="Account created by the first sign-in with a company account",
    needs=None,
)
SET_GROUP_ROLES = account_operation(
    "set-group-roles",
    made_by="app/openid/sign_ins",
    inverse="the groups of the company decide about these roles",
    sentence=BY_CHANGES,
    needs=None,
)
LINK_COMPANY_ACCOUNT = account_operation(
    "link-company-account",
    made_by="app/openid/sign_ins",
    inverse="quartermaster user unlink removes the link",
    sentence="Linked to a company account",
    needs=None,
)
UNLINK_COMPANY_ACCOUNT = account_operation(
    "unlink-company-account",
    made_by="app/openid/sign_ins",
    inverse="quartermaster user link links the account again",
    sentence="Link to a company account removed",
    needs=None,
)
