"""Guilds, as the game stores them. The service only reads them; the game sets their variables."""

from __future__ import annotations

from functools import partial

from app.auth.views import read_route
from app.catalogue.domain import public_object
from app.core.errors import NotFound
from app.core.paging import Page, Window
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.lists import PageNumberArgs, paged_list
from app.http.openapi.examples import GUILD
from app.http.path_converters import path_guid
from app.players.guilds.domain import ranks_of
from app.players.guilds.schemas import GuildMemberPageSchema, GuildPageSchema, GuildSchema
from app.players.guilds.store import guilds
from app.players.items.domain import filled
from app.players.items.schemas import SlotSchema
from app.players.store import players
from app.players.variables.domain import variable_records
from app.players.variables.schemas import VariableSchema

blp = Blueprint(
    "Guilds", __name__, url_prefix="/api/v1/guilds", description="Guilds, as the game stores them."
)


read = partial(read_route, blp)
unknown = (NotFound("guild", GUILD),)


@read("", GuildPageSchema, Permission.PLAYERS_READ, args=PageNumberArgs())
def list_guilds(args: Document) -> Document:
    """List guilds

    By name, each with the number of its members. Empty if the game stores none.
    """
    return paged_list(args, guilds.list)


@read("/<guild_id>", GuildSchema, Permission.PLAYERS_READ, refuses=unknown)
def get_guild(guild_id: str) -> Document:
    """Get one guild

    With all further fields that the game stores.
    """
    return public_object(guilds.get(path_guid("guildId", guild_id)))


@read(
    "/<guild_id>/members",
    GuildMemberPageSchema,
    Permission.PLAYERS_READ,
    args=PageNumberArgs(),
    refuses=unknown,
)
def list_guild_members(args: Document, guild_id: str) -> Document:
    """List the members of a guild

    By name, each with its rank. Members whose character was deleted are missing.
    """
    ranks = ranks_of(guilds.get(path_guid("guildId", guild_id), "Members"))

    def members(window: Window) -> Page:
        page = players.list_of_ids(list(ranks), window)
        return page._replace(values=[{**p, "GuildRank": ranks[p["Id"]]} for p in page.values])

    return paged_list(args, members)


@read(
    "/<guild_id>/variables",
    VariableSchema(many=True),
    Permission.PLAYERS_READ,
    refuses=unknown,
)
def list_guild_variables(guild_id: str) -> list[Document]:
    """List the variables of a guild

    All that are set, in order of id.
    """
    guild = guilds.get(path_guid("guildId", guild_id), "Variables")
    return variable_records(guild.get("Variables", {}))


@read("/<guild_id>/bank", SlotSchema(many=True), Permission.PLAYERS_READ, refuses=unknown)
def list_guild_bank(guild_id: str) -> list[Document]:
    """List what the bank of a guild holds

    The filled slots, in slot order.
    """
    return filled(guilds.get(path_guid("guildId", guild_id), "Bank").get("Bank", {}))
