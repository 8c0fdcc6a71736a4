"""Guilds, as the game stores them. Only an erasure and an import change them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from marshmallow import INCLUDE
from pymongo.database import Database

from app.auth.views import read_route
from app.catalogue.domain import public_object
from app.core.errors import NotFound
from app.core.paging import Page, Window, map_page
from app.core.permissions import Permission
from app.core.services import current
from app.core.types import Document
from app.http.api import Blueprint, Schema
from app.http.examples import GUILD
from app.http.fields import Guid, Integer, Moment, Nested, Text
from app.http.lists import PageNumberArgs, page_of, paged_list
from app.players.domain import SLOTS, VARIABLE
from app.players.items.domain import filled
from app.players.items.schemas import SlotSchema
from app.players.schemas import PlayerSchema
from app.players.store import players
from app.players.variables.domain import variable_records
from app.players.variables.schemas import VariableSchema
from app.storage.client import Storage
from app.storage.paging.orders import order
from app.storage.paging.pages import Pages
from app.storage.schema.plan import CollectionPlan, index
from app.storage.schema.shapes import ARRAY, GUID, INTEGER, MOMENT, TEXT, map_of, object_shape

# What a guild needs and may have; a game may store further fields, which are served.
SHAPE = object_shape(
    {"_id": GUID, "Name": TEXT, "NameKey": TEXT, "FoundingDate": MOMENT},
    {
        "Members": {**ARRAY, "items": object_shape({"PlayerId": GUID, "Rank": INTEGER})},
        "Variables": map_of(GUID["pattern"], VARIABLE),
        "Bank": SLOTS,
    },
)
# The projection of a record: all but the parts that have their own paths.
RECORD = dict.fromkeys(("NameKey", "Members", "Variables", "Bank"), 0)


def ranks_of(guild: Document) -> dict[str, int]:
    """Return the rank of each member by the id of its player."""
    return {member["PlayerId"]: member["Rank"] for member in guild.get("Members", ())}


class GuildSchema(Schema):
    """A guild, with all further fields that the game stores."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(example=GUILD)
    Name = Text(example="The Lanterns")
    FoundingDate = Moment(example="2025-03-01T18:00:00Z")


class ListedGuildSchema(Schema):
    Key = Nested(GuildSchema)
    Value = Integer(0, example=12, description="The number of members.")


class GuildMemberSchema(PlayerSchema):
    GuildRank = Integer(example=0, description="In the guild; usually, 0 is the owner.")


GuildPageSchema = page_of(ListedGuildSchema, name="GuildPageSchema")
GuildMemberPageSchema = page_of(GuildMemberSchema)


BY_NAME = order("name", "NameKey")
MEMBER = "Members.PlayerId"
GUILDS = CollectionPlan(
    "guilds", SHAPE, (index("name", "NameKey", unique=True), index("member", MEMBER))
)


def listed_guild(stored: Document) -> Document:
    guild = GUILDS.readable(stored, ("Name",))
    members = guild.pop("Members", ())
    return {"Key": public_object(guild), "Value": len(members)}


class Guilds:
    def __init__(self, storage: Storage, total_seconds: float) -> None:
        self._guilds = storage.db[GUILDS.name]
        self._transactions = storage.transactions
        self._pages = Pages(self._guilds, total_seconds)

    def get(self, guild_id: str, *fields: str) -> Document:
        """Return a guild, or only these fields of it."""
        shown = [*fields] if fields else RECORD
        found = self._transactions.find(lambda: self._guilds.find_one({"_id": guild_id}, shown))
        if found is None:
            raise NotFound("guild", guild_id)
        return GUILDS.readable(found, fields or ("Name", "FoundingDate"))

    def list(self, window: Window) -> Page:
        """Return a page of guilds, by name."""
        fields = {name: shown for name, shown in RECORD.items() if name != "Members"}
        return map_page(listed_guild, self._pages.read(window, BY_NAME, fields))


def guilds_of(db: Database[Document], ids: Sequence[str]) -> Iterator[Document]:
    """Yield the guilds of these players, with the ranks of these players alone."""
    for guild in db[GUILDS.name].find({MEMBER: {"$in": list(ids)}}, ["Name", "Members"]):
        guild = GUILDS.readable(guild, ("Name",))
        ranks = {id_: rank for id_, rank in ranks_of(guild).items() if id_ in ids}
        yield {"Id": guild["_id"], "Name": guild.get("Name"), "Ranks": ranks}


guilds = current(Guilds)


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
    return public_object(guilds.get(guild_id))


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
    ranks = ranks_of(guilds.get(guild_id, "Members"))

    def members(window: Window) -> Page:
        page = players.list_of_ids(list(ranks), window)
        return map_page(lambda player: {**player, "GuildRank": ranks[player["Id"]]}, page)

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
    guild = guilds.get(guild_id, "Variables")
    return variable_records(guild.get("Variables", {}))


@read("/<guild_id>/bank", SlotSchema(many=True), Permission.PLAYERS_READ, refuses=unknown)
def list_guild_bank(guild_id: str) -> list[Document]:
    """List what the bank of a guild holds

    The filled slots, in slot order.
    """
    return filled(guilds.get(guild_id, "Bank").get("Bank", {}))
