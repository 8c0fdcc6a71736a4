"""Roles, and the Power flags of an account that grant them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from app.core.errors import Conflict, Invalid


class Role(Enum):
    API = "api"
    USERS_QUERY = "users.query"
    USERS_MANAGE = "users.manage"

    @classmethod
    def parse(cls, text: str) -> Role:
        try:
            return cls(text.lower())
        except ValueError:
            names = ", ".join(role.value for role in cls)
            raise Invalid(f"There is no role '{text}'; the roles are {names}.") from None


FLAGS = {
    Role.API: "Api",
    Role.USERS_QUERY: "ApiPersonalInformation",
    Role.USERS_MANAGE: "ApiUserManagement",
}
# Each role requires the one before it.
REQUIRES = {Role.USERS_QUERY: Role.API, Role.USERS_MANAGE: Role.USERS_QUERY}

Power = Mapping[str, bool]


def roles_of(power: Power | None) -> frozenset[Role]:
    """Return the roles of a Power; a role without the one that it requires does not count."""
    held: set[Role] = set()
    # A game may have stored something else.
    if not isinstance(power, Mapping):
        return frozenset()
    for role, flag in FLAGS.items():
        if power.get(flag) and (role not in REQUIRES or REQUIRES[role] in held):
            held.add(role)
    return frozenset(held)


def with_role(power: Power, role: Role) -> dict[str, bool]:
    needed = REQUIRES.get(role)
    if needed and needed not in roles_of(power):
        raise Conflict(f"The role '{role.value}' needs '{needed.value}': grant that first.")
    return {**power, FLAGS[role]: True}


def without_role(power: Power, role: Role) -> dict[str, bool]:
    """Return the Power without a role, and without those that require it."""
    gone = {role}
    for other, needed in REQUIRES.items():
        if needed in gone:
            gone.add(other)
    return {**power, **{FLAGS[role]: False for role in gone}}
