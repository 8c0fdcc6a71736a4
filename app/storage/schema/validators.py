"""What the documents of each collection must look like, as MongoDB is told."""

from __future__ import annotations

from app.storage.swap import JOURNAL_LENGTH
from app.types import Document

GUID: Document = {"bsonType": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
INTEGER: Document = {"bsonType": ["int", "long"]}
COUNT: Document = {"bsonType": ["int", "long"], "minimum": 0}
TEXT: Document = {"bsonType": "string"}
FLAG: Document = {"bsonType": "bool"}
MOMENT: Document = {"bsonType": "date"}
TEXT_OR_NULL: Document = {"bsonType": ["string", "null"]}
MOMENT_OR_NULL: Document = {"bsonType": ["date", "null"]}


def _integers(length: int | None = None) -> Document:
    size = {} if length is None else {"minItems": length, "maxItems": length}
    return {"bsonType": "array", "items": INTEGER, **size}


def _map(key: str, value: Document) -> Document:
    return {"bsonType": "object", "patternProperties": {key: value}, "additionalProperties": False}


def _document(required: Document, optional: Document | None = None) -> Document:
    properties = {**required, **(optional or {})}
    return {"bsonType": "object", "required": list(required), "properties": properties}


SLOT: Document = {
    **_document(
        {"ItemId": GUID, "Quantity": {**COUNT, "minimum": 1, "maximum": 2**31 - 1}},
        {"BagId": GUID, "StatBuffs": _integers(5)},
    ),
    "additionalProperties": False,
}
SLOT_NUMBER = "^(0|[1-9][0-9]{0,3})$"
SLOTS = _map(SLOT_NUMBER, SLOT)
# What the compare-and-swap keeps on every document that it changes.
CHANGED: Document = {
    "Version": COUNT,
    "Journal": {"bsonType": "array", "maxItems": JOURNAL_LENGTH},
}
# From the first change on; of any type, since the next change replaces what is odd.
STAMPED: Document = {"Stamp": {}, "JournalCount": {}}
NAMED: Document = {"_id": GUID, "Name": TEXT, "NameKey": TEXT, "NameTails": {"bsonType": "array"}}

PLAYER = _document(
    {
        **NAMED,
        **{"UserId": GUID, "ClassId": GUID, "ClassName": TEXT, "Gender": INTEGER},
        **{"Level": COUNT, "Exp": COUNT, "ExperienceToNextLevel": INTEGER, "StatPoints": INTEGER},
        **{"Vitals": _integers(), "MaxVitals": _integers()},
        **{"BaseStats": _integers(5), "StatPointAllocations": _integers(5)},
        **{"Equipment": {"bsonType": "array"}, "MapId": GUID, "MapName": TEXT},
        **{"X": INTEGER, "Y": INTEGER, "Dir": INTEGER, "Sprite": TEXT, "Face": TEXT},
        **{"Online": FLAG, "InBank": FLAG, "LastOnline": MOMENT_OR_NULL},
        **{"LastSeen": MOMENT_OR_NULL, "CreationDate": MOMENT, "PlayTimeSeconds": COUNT},
        **{"Inventory": SLOTS, "Bank": SLOTS, "Spells": _map(SLOT_NUMBER, GUID)},
        "Variables": _map(GUID["pattern"], {"bsonType": ["int", "long", "bool"]}),
        **CHANGED,
    },
    STAMPED,
)
BAG = _document(
    {"_id": GUID, "SlotCount": {**COUNT, "maximum": 10_000}, "Slots": SLOTS, **CHANGED}, STAMPED
)
POWER = _document(
    dict.fromkeys(
        (
            *("Editor", "Ban", "Kick", "Mute"),
            *("Api", "ApiPersonalInformation", "ApiUserManagement"),
        ),
        FLAG,
    )
)
RESET: Document = {
    **_document({"Code": TEXT, "ExpiresAt": MOMENT, "Failures": COUNT}),
    "bsonType": ["object", "null"],
}
USER = _document(
    {
        **NAMED,
        **{"Email": TEXT, "EmailKey": TEXT, "Power": POWER, "PasswordHash": TEXT_OR_NULL},
        **{"IsMuted": FLAG, "MuteReason": TEXT_OR_NULL, "CreationDate": MOMENT},
        **{"Credentials": COUNT, "Reset": RESET},
        **CHANGED,
    },
    STAMPED,
)
REFRESH_TOKEN = _document(
    {
        **{"_id": TEXT, "Chain": GUID, "UserId": GUID, "Credentials": COUNT},
        **{"Used": FLAG, "ExpiresAt": MOMENT},
    }
)
ATTEMPTS = _document(
    {
        **{"_id": TEXT, "Taken": INTEGER, "Failures": COUNT},
        **{"Places": {"bsonType": "array"}, "ExpiresAt": MOMENT},
    }
)
QUOTA = _document({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT})
PASSWORD_COST = _document({"_id": TEXT})
SCHEMA_VERSION = _document({"_id": TEXT, "SchemaVersion": COUNT})
