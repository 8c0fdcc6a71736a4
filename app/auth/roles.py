"""Roles, and the Power flags of an account that they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from app.errors import Conflict, Invalid


class Role(Enum):
    """What an account may be allowed to do through the API."""

    API = "api"
    USERS_QUERY = "users.query"
    USERS_MANAGE = "users.manage"

    @classmethod
    def parse(cls, text: str) -> Role:
        """Return the role of a name, in any case."""
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
# Each role rests on the one before it.
NEEDS = {Role.USERS_QUERY: Role.API, Role.USERS_MANAGE: Role.USERS_QUERY}

Power = Mapping[str, bool]


def roles_of(power: Power) -> frozenset[Role]:
    """Return the roles that a Power amounts to; one without what it rests on does not count."""
    held: set[Role] = set()
    for role, flag in FLAGS.items():
        if power.get(flag) and (role not in NEEDS or NEEDS[role] in held):
            held.add(role)
    return frozenset(held)


def granted(power: Power, role: Role) -> dict[str, bool]:
    """Return the Power with one role more."""
    needed = NEEDS.get(role)
    if needed and needed not in roles_of(power):
        raise Conflict(f"The role '{role.value}' needs '{needed.value}': grant that first.")
    return {**power, FLAGS[role]: True}


def revoked(power: Power, role: Role) -> dict[str, bool]:
    """Return the Power without a role, and without those that rest on it."""
    gone = {role}
    for other, needed in NEEDS.items():
        if needed in gone:
            gone.add(other)
    return {**power, **{FLAGS[role]: False for role in gone}}
