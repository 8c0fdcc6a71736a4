"""What signing in with a company account changes."""

from __future__ import annotations

from functools import partial

from app.core.operations import BY_CHANGES
from app.users.operations import account_operation

_operation = partial(account_operation, needs=None)

CREATE_BY_COMPANY = _operation(
    "create-by-company",
    no_undo="the account belongs to somebody who has signed in",
    sentence="Account created by the first sign-in with a company account",
)
SET_GROUP_ROLES = _operation(
    "set-group-roles",
    no_undo="the groups of the company decide about these roles",
    sentence=BY_CHANGES,
)
LINK_COMPANY_ACCOUNT = _operation(
    "link-company-account",
    no_undo="quartermaster user unlink removes the link",
    sentence="Linked to a company account",
)
UNLINK_COMPANY_ACCOUNT = _operation(
    "unlink-company-account",
    no_undo="quartermaster user link links the account again",
    sentence="Link to a company account removed",
)
