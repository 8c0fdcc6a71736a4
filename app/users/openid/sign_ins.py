"""Signing in with a company account: finds or creates the account, and sets its group roles.

The settings give roles to the groups of company accounts.
"""

from __future__ import annotations

import logging
from functools import partial

from app.core.changes import Applied, Intent
from app.core.errors import EmailTaken, Invalid, NameTaken
from app.core.naming import Lookup
from app.core.permissions import RIGHTS
from app.core.types import Document
from app.http import tracing
from app.http.context import setting
from app.users.oauth.sign_ins import require_access
from app.users.openid.domain import (
    ADDRESS_IN_USE,
    LONGEST_SUBJECT,
    NO_GROUP,
    NOT_LINKED,
    UNVERIFIED,
    SignInRefused,
    identity,
    names_for,
    roles_of_groups,
    set_group_roles,
    verified_address,
)
from app.users.operations import account_operation, intent_at_sign_in
from app.users.schemas import CompanyAccountArgs
from app.users.staff.domain import LastAdministrator
from app.users.staff.store import roles, staff
from app.users.store import users

log = logging.getLogger("quartermaster")


_operation = partial(account_operation, needs=None)

CREATE_BY_COMPANY = _operation(
    "create-by-company",
    no_undo="the account belongs to somebody who has signed in",
    sentence="Account created by the first sign-in with a company account",
)
SET_GROUP_ROLES = _operation(
    "set-group-roles",
    no_undo="the groups of the company decide about these roles",
)


def link(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Let a company account sign in to an account at the console."""
    issuer = setting("OPENID_ISSUER")
    if not issuer:
        raise Invalid("QM_OPENID_ISSUER is not set, so there are no company accounts.")
    return staff.link(key, identity(issuer, args["Subject"]), intent)


def unlink(key: Lookup, _: Document, intent: Intent) -> Applied:
    return staff.link(key, None, intent)


# At the command line alone.
LINK_COMPANY_ACCOUNT = _operation(
    "link-company-account",
    no_undo="quartermaster run unlink-company-account removes the link",
    sentence="Linked to a company account",
    arguments=CompanyAccountArgs(),
    run=link,
)
UNLINK_COMPANY_ACCOUNT = _operation(
    "unlink-company-account",
    no_undo="quartermaster run link-company-account links the account again",
    sentence="Link to a company account removed",
    run=unlink,
)


def unknown_roles() -> list[str]:
    """Return the roles of groups in the settings that do not exist, and so give nothing."""
    named = {pair.rpartition("=")[2].strip() for pair in setting("OPENID_GROUP_ROLES")}
    return sorted(named.difference(roles.all())) if named else []


def sign_in(claims: Document) -> Document:
    """Return the account of verified claims, with the roles of its groups, if it has access."""
    if len(claims["sub"]) > LONGEST_SUBJECT:
        raise SignInRefused(UNVERIFIED)
    own = identity(setting("OPENID_ISSUER"), claims["sub"])
    groups = claims.get(setting("OPENID_GROUPS_CLAIM"))
    named = roles_of_groups(groups, setting("OPENID_GROUP_ROLES"))
    known = roles.all() if named else {}
    held = [name for name in named if name in known]
    user = users.find_linked(own) or _create(own, claims, held)
    tracing.note(user=tracing.loggable_name(user["Name"]))
    if user.get("GroupRoles", []) != held:
        rule = partial(set_group_roles, roles=held)
        meant = intent_at_sign_in(SET_GROUP_ROLES, user["_id"], user["Name"])
        try:
            staff.change(Lookup.parse(user["_id"]), (*RIGHTS, "Reset"), rule, meant)
            user["GroupRoles"] = held
        except LastAdministrator as error:
            log.warning("%s keeps the roles of former groups: %s", user["Name"], error)
    require_access(user)
    return user


def _create(own: Document, claims: Document, held: list[str]) -> Document:
    """Create an account without a password, which no other request has created meanwhile."""
    if not setting("OPENID_CREATES_ACCOUNTS"):
        raise SignInRefused(NOT_LINKED.format(own["Subject"]))
    if setting("OPENID_GROUP_ROLES") and not held:
        raise SignInRefused(NO_GROUP)
    email = verified_address(claims)
    for name in names_for(claims):
        meant = intent_at_sign_in(CREATE_BY_COMPANY, None, name)
        try:
            users.create(name, email, None, meant, OpenId=own, GroupRoles=held)
        except NameTaken:
            continue
        except EmailTaken:
            pass
        break
    user = users.find_linked(own)
    if user is None:
        raise SignInRefused(ADDRESS_IN_USE.format(own["Subject"]))
    return user
