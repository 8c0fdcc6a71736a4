"""Schemas of console forms that differ from the bodies of the API."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from marshmallow import ValidationError, post_load, validates_schema
from marshmallow.validate import Length, Regexp

from app.core.operations import batch_operations
from app.core.types import Document
from app.game.actions.schemas import ChatArgs, LetterArgs
from app.http.api import Schema
from app.http.fields import Flag, Guid, Integer, Text
from app.http.lists import OneOf
from app.players.items.schemas import QUANTITY_MAX
from app.users.api_keys.schemas import KeyArgs, RotateKeyArgs
from app.users.store import users

EVERYBODY, MAP, PLAYER = "everybody", "map", "player"
COLOUR = "#ffc800"
KEY_DAYS = 90
LONGEST_KEY_DAYS = 3650


def list_operations() -> dict[str, str]:
    """Return the operations on a list of players, with their labels."""
    found = batch_operations().items()
    return {name: one.batch.label for name, one in found if one.batch and one.batch.label}


class BatchForPlayers(Schema):
    """A list of players, and the operation for each of them."""

    players = Text(required=True)
    operation = OneOf(read=list_operations, load_default="give")


class LetterForm(LetterArgs):
    """A letter with one item at most."""

    itemid = Guid(load_default=None)
    quantity = Integer(1, QUANTITY_MAX, load_default=1)

    @post_load
    def as_sent(self, data: Document, **_: Any) -> Document:
        """Return the body of the API."""
        item = {"ItemId": data["itemid"], "Quantity": data["quantity"]}
        return {"Message": data["Message"], "Items": [item] if data["itemid"] else []}


class NewPassword(Schema):
    """A new password, typed twice."""

    new = Text(required=True, validate=Length(8, error="Must have {min} characters or more."))
    again = Text(required=True)

    @validates_schema(skip_on_field_errors=True)
    def is_the_same_twice(self, data: Document, **_: Any) -> None:
        if data["new"] != data["again"]:
            raise ValidationError("Does not match the first password.", "again")

    @post_load
    def hash_password(self, data: Document, **_: Any) -> Document:
        """Return the SHA-256, as API clients send it; the service stores a hash of that."""
        del data["again"]
        return {**data, "new": hashlib.sha256(data["new"].encode()).hexdigest()}


class Acceptance(NewPassword):
    """An invitation, and the first password."""

    invitation = Text(required=True)


class KeyEnd(Schema):
    """The days until a key expires."""

    Days = Integer(1, LONGEST_KEY_DAYS, load_default=KEY_DAYS)

    @post_load
    def with_expiry(self, data: Document, **_: Any) -> Document:
        ends = users.now() + timedelta(days=data.pop("Days"))
        return {**data, "ExpiresAt": ends}


class NewKey(KeyEnd, KeyArgs):
    """A new key."""


class Rotation(KeyEnd, RotateKeyArgs):
    """The rotation of a key."""


class ChatForm(ChatArgs):
    """A chat message, its listeners and its colour."""

    to = OneOf(EVERYBODY, MAP, PLAYER, load_default=EVERYBODY)
    mapid = Guid()
    player = Text()
    coloured = Flag(load_default=False)
    colour = Text(
        load_default=COLOUR,
        validate=Regexp(r"#[0-9a-fA-F]{6}\Z", error="Must be a colour, such as #ffc800."),
    )

    @validates_schema(skip_on_field_errors=True)
    def names_the_listeners(self, data: Document, **_: Any) -> None:
        needed = {MAP: "mapid", PLAYER: "player"}.get(data["to"])
        if needed and not data.get(needed, "").strip():
            raise ValidationError("Is required.", needed)

    @post_load
    def as_sent(self, data: Document, **_: Any) -> Document:
        """Return what the API takes, and the listeners."""
        parts = bytes.fromhex(data["colour"][1:])
        color = {"A": 255, **dict(zip("RGB", parts, strict=True))}
        return {**data, "Color": color} if data["coloured"] else data
