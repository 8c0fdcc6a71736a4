"""Guilds: what a game stores of them, and their records. Pure."""

from __future__ import annotations

from app.catalogue.domain import public_object
from app.core.types import Document
from app.players.domain import SLOTS, VARIABLE
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
# The projection of a guild in lists, which have the number of its members.
LISTED = {name: shown for name, shown in RECORD.items() if name != "Members"}


def listed_guild(guild: Document) -> Document:
    members = guild.pop("Members", ())
    return {"Key": public_object(guild), "Value": len(members)}


def ranks_of(guild: Document) -> dict[str, int]:
    """Return the rank of each member by the id of its player."""
    return {member["PlayerId"]: member["Rank"] for member in guild.get("Members", ())}
