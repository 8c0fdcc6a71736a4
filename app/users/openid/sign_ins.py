"""Signing in with a company account: finds or creates the account, and sets its group roles.

The settings give roles to the groups of company accounts.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice

from app.core.changes import Intent, Origin
from app.core.errors import EmailTaken, NameTaken
from app.core.naming import Lookup
from app.core.operations import Operation
from app.core.permissions import RIGHTS
from app.core.types import Document
from app.http import tracing
from app.http.context import current, setting
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
from app.users.openid.operations import CREATE_BY_COMPANY, SET_GROUP_ROLES
from app.users.staff.domain import LastAdministrator
from app.users.staff.store import Roles, Staff
from app.users.store import Users
from config.base import Settings

log = logging.getLogger("quartermaster")

MOST_TRIES = 50


class GroupRoles:
    """Reads the groups of people. A role that does not exist gives nothing."""

    def __init__(self, settings: Settings, roles: Roles) -> None:
        self._settings = settings
        self._roles = roles
        self._has_warned = False

    def of(self, claims: Document) -> list[str]:
        """Return the existing roles of the groups that a person's claims list."""
        groups = claims.get(self._settings.OPENID_GROUPS_CLAIM)
        named = roles_of_groups(groups, self._settings.OPENID_GROUP_ROLES)
        known = self._roles.all() if named else {}
        return [name for name in named if name in known]

    def unknown(self) -> list[str]:
        """Return the roles in the settings that do not exist."""
        named = {pair.rpartition("=")[2].strip() for pair in self._settings.OPENID_GROUP_ROLES}
        return sorted(named.difference(self._roles.all())) if named else []

    def warn(self) -> None:
        """Log the unknown roles once, as soon as the database is ready."""
        if not self._has_warned and (names := self.unknown()):
            log.warning("QM_OPENID_GROUP_ROLES names unknown roles: %s.", ", ".join(names))
        self._has_warned = True


group_roles = current(GroupRoles)
staff = current(Staff)
users = current(Users)


def sign_in(claims: Document) -> Document:
    """Return the account of verified claims, with the roles of its groups, if it has access."""
    if len(claims["sub"]) > LONGEST_SUBJECT:
        raise SignInRefused(UNVERIFIED)
    own = identity(setting("OPENID_ISSUER"), claims["sub"])
    roles = group_roles.of(claims)
    user = users.credentials_by_identity(own) or _create(own, claims, roles)
    tracing.note(user=tracing.loggable_name(user["Name"]))
    if user.get("GroupRoles", []) != roles:
        rule = partial(set_group_roles, roles=roles)
        meant = _intent(SET_GROUP_ROLES, user["_id"], user["Name"])
        try:
            staff.change(Lookup.parse(user["_id"]), (*RIGHTS, "Reset"), rule, meant)
            user["GroupRoles"] = roles
        except LastAdministrator as error:
            log.warning("%s keeps the roles of former groups: %s", user["Name"], error)
    require_access(user)
    return user


def _create(own: Document, claims: Document, roles: list[str]) -> Document:
    """Create an account without a password, which no other request has created meanwhile."""
    if not setting("OPENID_CREATES_ACCOUNTS"):
        raise SignInRefused(NOT_LINKED.format(own["Subject"]))
    if setting("OPENID_GROUP_ROLES") and not roles:
        raise SignInRefused(NO_GROUP)
    email = verified_address(claims)
    for name in islice(names_for(claims), MOST_TRIES):
        meant = _intent(CREATE_BY_COMPANY, None, name)
        try:
            users.create(name, email, None, meant, OpenId=own, GroupRoles=roles)
        except NameTaken:
            continue
        except EmailTaken:
            break
        else:
            break
    user = users.credentials_by_identity(own)
    if user is None:
        raise SignInRefused(ADDRESS_IN_USE.format(own["Subject"]))
    return user


def _intent(operation: Operation, user_id: str | None, name: str) -> Intent:
    origin = Origin(user_id, name, "console", tracing.request_id())
    return Intent(operation.name, origin)
