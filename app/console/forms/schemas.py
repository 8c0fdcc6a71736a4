"""Schemas of console forms that differ from the bodies of the API."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema
from marshmallow.validate import Length, Regexp

from app.core.operations import batch_operations
from app.game.actions.schemas import ChatArgs, LetterArgs
from app.http.api import Schema
from app.http.fields import Flag, Guid, Integer, Text
from app.http.lists import OneOf
from app.players.items.schemas import QUANTITY_MAX
from app.users.api_keys.schemas import LARGEST_BUDGET, LONGEST_OVERLAP_HOURS, OVERLAP_HOURS
from app.users.domain import LONGEST_EMAIL
from app.users.staff.schemas import NewRoleName, RoleLimitsSchema

EVERYBODY, MAP, PLAYER = "everybody", "map", "player"
COLOUR = "#ffc800"
KEY_DAYS = 90
LONGEST_KEY_DAYS = 3650


def list_operations() -> dict[str, str]:
    """Return the operations on a list of players, with their labels."""
    found = batch_operations().items()
    return {name: one.batch.label for name, one in found if one.batch and one.batch.label}


class BatchOperation(Schema):
    """The operation for each player of a batch."""

    operation = OneOf(read=list_operations, load_default="give")


class BatchForPlayers(BatchOperation):
    """A list of players, and the operation for each of them."""

    players = Text(required=True)


class LetterForm(LetterArgs):
    """A letter with one item at most."""

    itemid = Guid()
    quantity = Integer(1, QUANTITY_MAX, load_default=1)


class NewPassword(Schema):
    """A new password, typed twice."""

    new = Text(required=True, validate=Length(8, error="Must have {min} characters or more."))
    again = Text(required=True)

    @validates_schema(skip_on_field_errors=True)
    def is_the_same_twice(self, data: dict[str, Any], **_: Any) -> None:
        if data["new"] != data["again"]:
            raise ValidationError("Does not match the first password.", "again")


class Acceptance(NewPassword):
    """An invitation, and the first password."""

    invitation = Text(required=True)


class InvitationForm(Schema):
    """Who is invited; the roles are check boxes."""

    Name = Text(required=True)
    Email = Text(required=True, metadata={"maxLength": LONGEST_EMAIL})


class RoleForm(RoleLimitsSchema):
    """The limits of a role; its permissions are check boxes."""

    NeedsSecondFactor = Flag(load_default=False)


class NewRoleForm(NewRoleName, RoleForm):
    """A new role."""


class KeyEnd(Schema):
    """The days until a key expires."""

    Days = Integer(1, LONGEST_KEY_DAYS, load_default=KEY_DAYS)


class NewKey(KeyEnd):
    """The fields of a new key that differ from the API: a number of days, and lists as texts."""

    Name = Text(required=True)
    Addresses = Text(load_default="")
    LargestQuantity = Integer(1, LARGEST_BUDGET, load_default=None)
    ItemsPerDay = Integer(1, LARGEST_BUDGET, load_default=None)
    Items = Text(load_default="")


class Rotation(KeyEnd):
    """The rotation of a key."""

    OverlapHours = Integer(0, LONGEST_OVERLAP_HOURS, load_default=OVERLAP_HOURS)


class ChatForm(ChatArgs):
    """A chat message, its listeners and its colour."""

    to = OneOf(EVERYBODY, MAP, PLAYER, load_default=EVERYBODY)
    mapid = Guid()
    player = Text(load_default="")
    colour = Text(
        load_default=COLOUR,
        validate=Regexp(r"#[0-9a-fA-F]{6}\Z", error="Must be a colour, such as #ffc800."),
    )

    @validates_schema(skip_on_field_errors=True)
    def names_the_listeners(self, data: dict[str, Any], **_: Any) -> None:
        needed = {MAP: "mapid", PLAYER: "player"}.get(data["to"])
        if needed and not data.get(needed, "").strip():
            raise ValidationError("Is required.", needed)
