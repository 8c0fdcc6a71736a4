from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Flag, Integer, Nested, Text

STATS = ("Attack", "AbilityPower", "Defense", "MagicResist", "Speed")
STAT_NAMES = {"type": "array", "items": {"type": "string"}, "example": list(STATS)}


class InfoSchema(Schema):
    name = Text(example="Quartermaster Demo")
    port = Integer(1, 65535, example=5400)


class AuthorizedSchema(Schema):
    authorized = Flag(example=True)


def _limit(example: int, about: str) -> Integer:
    return Integer(0, allow_none=True, example=example, description=about)


class LimitsSchema(Schema):
    """What the caller's roles allow; null means no limit."""

    LargestQuantity = _limit(100, "How many of an item one request may move.")
    ItemsPerDay = _limit(1000, "How many items may be moved per day, in UTC.")
    RowsPerBatch = _limit(500, "How many rows a batch may have to be run.")
    LeftToday = _limit(340, "How many items may still be moved today.")


class StatsSchema(Schema):
    uptime = Integer(0, example=86_400_000, description="Of this service, in milliseconds.")
    cps = Integer(0, example=0, description="Cycles per second; 0: this service has none.")
    connectedClients = Integer(0, example=20, description="As onlineCount.")
    onlineCount = Integer(0, example=20, description="How many players are online.")


class MetricsSchema(StatsSchema):
    players = Integer(0, example=500, description="How many characters there are.")


class PlayerLimitsSchema(Schema):
    MaxCharacters = Integer(1, example=3, description="Of one account.")
    MaxStat = Integer(1, example=255)
    MaxLevel = Integer(1, example=100)
    MaxInventory = Integer(1, example=35)
    MaxBank = Integer(1, example=100)
    MaxSpells = Integer(1, example=35)


class GameConfigSchema(Schema):
    GameName = Text(example="Quartermaster Demo")
    ServerPort = Integer(1, 65535, example=5400)
    AdminOnly = Flag(example=False, description="Whether only staff may play at the moment.")
    Player = Nested(PlayerLimitsSchema)
