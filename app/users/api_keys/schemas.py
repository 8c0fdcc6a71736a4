from __future__ import annotations

import ipaddress

from marshmallow import ValidationError, validates
from marshmallow.validate import Length

from app.core.naming import holds_invisible, is_visible, parse_guid
from app.core.permissions import SCOPES
from app.http.api import Schema
from app.http.examples import ITEM, KEY, KEY_ID
from app.http.fields import NO_CONTROLS, Guid, Integer, List, Moment, Nested, Text
from app.users.schemas import OPTIONAL, require_known

LONGEST_NAME = 60
LONGEST_OVERLAP_HOURS = 24 * 30
OVERLAP_HOURS = 24
LARGEST_BUDGET = 2**53
MOST_ADDRESSES = 50
MOST_ITEMS = 1000
EXAMPLE_BUDGET = {"LargestQuantity": 100, "ItemsPerDay": 5000, "Items": [ITEM]}


class BudgetSchema(Schema):
    """How many items a key may give and take; null means no limit."""

    LargestQuantity = Integer(
        1,
        LARGEST_BUDGET,
        **OPTIONAL,
        example=100,
        description="The largest quantity of an item per request.",
    )
    ItemsPerDay = Integer(
        1,
        LARGEST_BUDGET,
        **OPTIONAL,
        example=5000,
        description="The total of all items from midnight to midnight, UTC.",
    )
    Items = List(
        Guid(),
        **OPTIONAL,
        example=[ITEM],
        validate=Length(1, MOST_ITEMS, error=f"Must be 1 to {MOST_ITEMS} items, or null."),
        description="The items that it may move; null means all.",
    )


class KeyOwnerArgs(Schema):
    """Whose keys are meant."""

    user = Text(
        minLength=1,
        description="A username or user id; by default, the caller.",
    )


def are_networks(addresses: list[str]) -> None:
    if not 1 <= len(addresses) <= MOST_ADDRESSES:
        raise ValidationError(f"Must be 1 to {MOST_ADDRESSES} networks, or null.")
    try:
        for address in addresses:
            ipaddress.ip_network(address, strict=False)
    except ValueError:
        fault = "Must contain addresses or networks such as 203.0.113.0/24."
        raise ValidationError(fault) from None


class KeyArgs(Schema):
    """What a new key is for."""

    Name = Text(
        required=True,
        example="shop",
        minLength=1,
        maxLength=LONGEST_NAME,
        pattern=f"^{NO_CONTROLS.pattern}$",
        description="Shown in history with each change; unique within the account.",
    )
    Scopes = List(
        Text(enum=list(SCOPES)),
        required=True,
        example=["players.read", "players.change"],
        description=(
            "What it may do, within the roles of its account: permissions, or older names that "
            "include several."
        ),
    )
    # The rule of a new key records it: two attempts with a form have different times.
    ExpiresAt = Moment(
        **OPTIONAL,
        unrecorded=True,
        example=None,
        description="When it expires; by default in 90 days.",
    )
    Addresses = List(
        Text(),
        **OPTIONAL,
        example=["203.0.113.0/24"],
        validate=are_networks,
        description="The networks that may use it; null means all.",
    )
    Budget = Nested(BudgetSchema, **OPTIONAL)

    @validates("Name")
    def can_be_read(self, value: str, data_key: str) -> None:
        is_seen = is_visible(value) and not holds_invisible(value)
        if len(value) > LONGEST_NAME or not is_seen or not NO_CONTROLS.fullmatch(value):
            raise ValidationError(f"Must be 1 to {LONGEST_NAME} visible characters.")
        if parse_guid(value.strip()):
            raise ValidationError("Must not look like a guid: it would be read as an id.")

    @validates("Scopes")
    def are_known(self, value: list[str], data_key: str) -> None:
        require_known("scopes", value, SCOPES)
        if not value:
            raise ValidationError("Must contain at least one scope.")


class RotateArgs(Schema):
    """How long the former secret of a key still works."""

    OverlapHours = Integer(
        0,
        LONGEST_OVERLAP_HOURS,
        load_default=OVERLAP_HOURS,
        example=24,
        description="Hours until the former secret expires.",
    )
    ExpiresAt = Moment(
        **OPTIONAL,
        unrecorded=True,
        example=None,
        description="When the key expires; by default, its former lifetime starts again.",
    )


class RevokeKeyArgs(Schema):
    """Which key is revoked."""

    Id = Guid(required=True)


class RotateKeyArgs(RotateArgs, RevokeKeyArgs):
    """Which key is rotated, and how."""


class KeySchema(Schema):
    """A key, without its secret."""

    Id = Guid(example=KEY_ID)
    Name = Text(example="shop")
    Scopes = List(Text(), example=["players.read", "items.move"], description="Its permissions.")
    CreatedAt = Moment(example="2026-01-30T12:00:00Z")
    ExpiresAt = Moment(example="2026-04-30T12:00:00Z")
    FormerEndsAt = Moment(
        allow_none=True,
        example=None,
        description="When the secret before the last rotation expires.",
    )
    LastUsedAt = Moment(
        allow_none=True, example="2026-01-31T19:04:00Z", description="To the minute."
    )
    Addresses = List(Text(), allow_none=True, example=["203.0.113.0/24"])
    Budget = Nested(BudgetSchema, allow_none=True, example=EXAMPLE_BUDGET)
    UsedToday = Integer(0, example=120, description="How many of ItemsPerDay are used.")


class KeyListSchema(Schema):
    """The keys of an account, newest first."""

    Values = List(Nested(KeySchema))


class NewKeySchema(KeySchema):
    """A key with its secret, which is shown only once."""

    Key = Text(
        example=KEY,
        pattern="^qm_[0-9A-Za-z]{46}$",
        description="The secret for the header Authorization. It is shown only once.",
    )


class RevokedKeySchema(Schema):
    """The revoked key and its account."""

    username = Text(example="demo")
    Id = Guid(example=KEY_ID)
