from __future__ import annotations

from marshmallow import INCLUDE, fields

from app.http.api import Schema
from app.http.fields import Guid, Integer, Moment, Text
from app.http.lists import page_of
from app.http.openapi.examples import GUILD
from app.players.schemas import PlayerSchema


class GuildSchema(Schema):
    """A guild, with all further fields that the game stores."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(example=GUILD)
    Name = Text(example="The Lanterns")
    FoundingDate = Moment(example="2025-03-01T18:00:00Z")


class ListedGuildSchema(Schema):
    Key = fields.Nested(GuildSchema)
    Value = Integer(0, example=12, description="The number of members.")


class GuildMemberSchema(PlayerSchema):
    GuildRank = Integer(example=0, description="In the guild; usually, 0 is the owner.")


GuildPageSchema = page_of(ListedGuildSchema, name="GuildPageSchema")
GuildMemberPageSchema = page_of(GuildMemberSchema)
