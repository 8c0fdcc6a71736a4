"""The roles that the settings give to the groups of company accounts."""

from __future__ import annotations

import logging

from app.openid.domain import roles_of_groups
from app.staff.store import Roles
from app.types import Document
from config.base import Settings

log = logging.getLogger("quartermaster")


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
