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


# Each role requires the one before it.
FLAGS = {
    Role.API: "Api",
    Role.USERS_QUERY: "ApiPersonalInformation",
    Role.USERS_MANAGE: "ApiUserManagement",
}

Power = Mapping[str, bool]


def roles_of(power: Power | None) -> frozenset[Role]:
    """Return the roles of a Power; a role without the one that it requires does not count."""
    held = []
    for role, flag in FLAGS.items():
        if not (power and power.get(flag)):
            break
        held.append(role)
    return frozenset(held)


def with_role(power: Power, role: Role) -> dict[str, bool]:
    order = [*Role]
    place = order.index(role)
    if place and order[place - 1] not in roles_of(power):
        needed = order[place - 1].value
        raise Conflict(f"The role '{role.value}' needs '{needed}': grant that first.")
    return {**power, FLAGS[role]: True}


def without_role(power: Power, role: Role) -> dict[str, bool]:
    """Return the Power without a role, and without those that require it."""
    order = [*Role]
    gone = order[order.index(role) :]
    return {**power, **{FLAGS[one]: False for one in gone}}
