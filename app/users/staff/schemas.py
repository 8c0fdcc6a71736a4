"""What the API takes and returns of roles and staff."""

from __future__ import annotations

from marshmallow import ValidationError, validates

from app.core.permissions import NAMES, Role
from app.http.api import Schema
from app.http.fields import Flag, Integer, List, Nested, Text
from app.http.lists import OneOf
from app.users.schemas import ADDRESS, OPTIONAL, must_be_username, require_known
from app.users.staff.domain import NAME, NAME_RULE

MOST_ITEMS = 2**31 - 1


class RoleLimitsSchema(Schema):
    """How much somebody with the role may do; null means no limit."""

    LargestQuantity = Integer(1, MOST_ITEMS, **OPTIONAL, example=100)
    ItemsPerDay = Integer(1, MOST_ITEMS, **OPTIONAL, example=1000)
    RowsPerBatch = Integer(1, MOST_ITEMS, **OPTIONAL, example=100)


class RoleArgs(Schema):
    """What a role may do."""

    Permissions = List(
        Text(enum=list(NAMES)), required=True, example=["players.read", "items.move"]
    )
    Limits = Nested(RoleLimitsSchema, **OPTIONAL)
    NeedsSecondFactor = Flag(load_default=False)

    @validates("Permissions")
    def are_known(self, value: list[str], data_key: str) -> None:
        require_known("permissions", value, NAMES)


def must_be_role_name(text: str) -> None:
    if not NAME.fullmatch(text):
        raise ValidationError(NAME_RULE)


class NewRoleArgs(RoleArgs):
    """A new role."""

    Name = Text(
        required=True,
        validate=must_be_role_name,
        example="event-team",
        pattern=f"^{NAME.pattern}$",
    )


class RoleSchema(Schema):
    """A role."""

    Name = Text(example="support")
    Permissions = List(Text(), example=["players.read", "items.move"])
    Limits = Nested(RoleLimitsSchema)
    NeedsSecondFactor = Flag(example=False)


class RoleListSchema(Schema):
    """All roles."""

    Values = List(Nested(RoleSchema))


class RemovedRoleSchema(Schema):
    """A role that was removed."""

    Name = Text(example="event-team")


class RolesArgs(Schema):
    """The roles of an account."""

    Roles = List(Text(), required=True, example=["support"])


class PowerArgs(Schema):
    """A role of the contract, which is a flag of Power."""

    role = OneOf(*(role.value for role in Role), data_key="Role", required=True)


class InviteArgs(RolesArgs):
    """A colleague, and the roles to give."""

    # History has the name as that of the subject, and must not contain the address.
    Name = Text(
        required=True,
        validate=must_be_username,
        example="newcomer",
        description="2 to 20 letters or digits.",
        unrecorded=True,
    )
    Email = Text(
        required=True,
        example="newcomer@example.com",
        **ADDRESS,
        unrecorded=True,
    )


class StaffSchema(Schema):
    """An account of staff."""

    Id = Text(example="5f0c1c1e-0000-4000-8000-000000000001")
    Name = Text(example="alice")
    Roles = List(Text(), example=["support"])
    GroupRoles = List(Text(), example=[])
    Power = List(Text(), example=["api"])
    IsDisabled = Flag(example=False)


class StaffListSchema(Schema):
    """All accounts of staff."""

    Values = List(Nested(StaffSchema))
