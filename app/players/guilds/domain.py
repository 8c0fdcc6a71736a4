"""Guilds: what a game stores of them, and their records. Pure."""

from __future__ import annotations

from typing import Any

from app.core.types import Document, whole
from app.players.domain import SLOTS, VARIABLE
from app.players.items.domain import filled
from app.players.variables.domain import variable_records
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
RECORD = dict.fromkeys(("NameKey", "Variables", "Bank"), 0)


def public_guild(guild: Document) -> Document:
    """Return the record of a guild: its own fields and those that the game added."""
    record = {"Id": None, **guild}
    record["Id"] = record.pop("_id")
    record.pop("Members", None)
    return record


def listed_guild(guild: Document) -> Document:
    """Return a guild as lists have it, with the number of its members."""
    return {"Key": public_guild(guild), "Value": len(ranks_of(guild))}


def ranks_of(guild: Document) -> dict[str, int]:
    """Return the rank of each member by the id of its player."""
    members = guild.get("Members")
    return {
        member["PlayerId"]: whole(member.get("Rank")) or 0
        for member in (members if isinstance(members, list) else ())
        if isinstance(member, dict) and isinstance(member.get("PlayerId"), str)
    }


def bank_slots(guild: Document) -> list[Document]:
    """Return the filled slots of the bank, in slot order."""
    return filled(_map(guild, "Bank"))


def guild_variables(guild: Document) -> list[Document]:
    return variable_records(_map(guild, "Variables"))


def _map(guild: Document, field: str) -> dict[str, Any]:
    stored = guild.get(field)
    return stored if isinstance(stored, dict) else {}
