"""The plans of all collections by name, and the types of docs/collections.rst."""

from app.catalogue.domain import TIME
from app.catalogue.domain import TYPES as OBJECT_TYPES
from app.database import COLLECTIONS
from app.players import domain as players
from app.storage.schema import shapes
from app.users import domain as users

PLANS = {plan.name: plan for plan in COLLECTIONS}
NAMES = PLANS.keys()
# What the types of the page are as shapes of validators.
TYPES = {
    "ObjectId": shapes.STAMP,
    "guid": shapes.GUID,
    "text": shapes.TEXT,
    "text or null": shapes.TEXT_OR_NULL,
    "int": shapes.INTEGER,
    "count": shapes.COUNT,
    "bool": shapes.FLAG,
    "date": shapes.MOMENT,
    "date or null": shapes.MOMENT_OR_NULL,
    "array": shapes.ARRAY,
    "array of text": shapes.TEXTS,
    "array of int": shapes.integers(),
    "5 int": shapes.integers(5),
    "object": {"bsonType": "object"},
    "object or null": {"bsonType": ["object", "null"]},
    "map of slots": players.SLOTS,
    "map of guid": shapes.map_of(shapes.SLOT_NUMBER, shapes.GUID),
    "map of variables": shapes.map_of(shapes.GUID["pattern"], players.VARIABLE),
    "map of notes": shapes.NOTES,
    "map of keys": users.KEYS,
    "powers": users.SHAPE["properties"]["Power"],
    "reset code": users.CODE_SHAPE,
    "second factor": users.SECOND_FACTOR,
    "members": PLANS["guilds"].shape["properties"]["Members"],
    "identity": users.OPENID,
    "items": PLANS["game_events"].shape["properties"]["Items"],
    "guid or null": PLANS["game_events"].shape["properties"]["With"],
    "object type": {"enum": [*OBJECT_TYPES, TIME]},
}
# Shapes with bounds of their own.
NARROWER = {
    "Quantity": players.SLOT["properties"]["Quantity"],
    "SlotCount": PLANS["bags"].shape["properties"]["SlotCount"],
}
