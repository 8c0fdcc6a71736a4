"""The collections: what their documents must look like, and their indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database
from pymongo.errors import CollectionInvalid, OperationFailure

from app.storage.client import LONG_WORK_SECONDS
from app.storage.page_starts import KEPT_SECONDS
from app.storage.swap import JOURNAL_LENGTH

Document = dict[str, Any]

NAMESPACE_EXISTS = 48
INDEX_OPTIONS_CONFLICT = 85
INDEX_KEY_CONFLICT = 86

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
    }
)
BAG = _document({"_id": GUID, "SlotCount": {**COUNT, "maximum": 10_000}, "Slots": SLOTS, **CHANGED})
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
    }
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


class CollectionPlan(NamedTuple):
    """What db init makes of one collection."""

    validator: Document
    indexes: list[IndexModel]


def _index(name: str, *keys: str, **options: Any) -> IndexModel:
    """Name an index by its keys; a leading minus is descending."""
    order = [
        (key.removeprefix("-"), DESCENDING if key.startswith("-") else ASCENDING) for key in keys
    ]
    return IndexModel(order, name=name, **options)


ONLINE = {"partialFilterExpression": {"Online": True}}

COLLECTIONS = {
    "players": CollectionPlan(
        PLAYER,
        [
            _index("name", "NameKey", unique=True),
            _index("name_tails", "NameTails", "NameKey"),
            _index("user", "UserId", "CreationDate", "_id"),
            # Ties go by name in both directions, so neither order is the other read backwards.
            _index("rank", "-Level", "-Exp", "NameKey"),
            _index("rank_ascending", "Level", "Exp", "NameKey"),
            _index("last_online", "LastOnline", "NameKey"),
            # Online is among the keys, though always true here, so that a count needs no document.
            _index("online_by_name", "Online", "NameKey", "LastSeen", **ONLINE),
            _index("online_by_time", "Online", "LastSeen", **ONLINE),
        ],
    ),
    "bags": CollectionPlan(BAG, []),
    "users": CollectionPlan(
        USER,
        [
            _index("name", "NameKey", unique=True),
            _index("name_tails", "NameTails", "NameKey"),
            _index("email", "EmailKey", unique=True),
        ],
    ),
    "refresh_tokens": CollectionPlan(
        REFRESH_TOKEN,
        [
            _index("chain", "Chain"),
            _index("user", "UserId"),
            _index("expiry", "ExpiresAt", expireAfterSeconds=0),
        ],
    ),
    "page_starts": CollectionPlan(
        _document({"_id": {"bsonType": "object"}, "Keys": {"bsonType": "array"}, "At": MOMENT}),
        [_index("expiry", "At", expireAfterSeconds=KEPT_SECONDS)],
    ),
    "quotas": CollectionPlan(
        _document({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT}),
        [_index("expiry", "ExpiresAt", expireAfterSeconds=0)],
    ),
    "attempts": CollectionPlan(ATTEMPTS, [_index("expiry", "ExpiresAt", expireAfterSeconds=0)]),
}


def init(db: Database[Document]) -> None:
    """Create what is missing and bring the rest up to date; safe to repeat, at any time."""
    init_collections(db)
    with pymongo.timeout(LONG_WORK_SECONDS):
        for name, plan in COLLECTIONS.items():
            if plan.indexes:
                _create_indexes(db, name, plan.indexes)


def init_collections(db: Database[Document]) -> None:
    """Create the collections with their validators; documents in bulk come before indexes."""
    for name, plan in COLLECTIONS.items():
        _set_validator(db, name, validation(plan))


def validation(plan: CollectionPlan) -> Document:
    """Return a collection's options: what is sound must stay so, and what is not can be changed.

    Were a document older than its validator held to it as well, nothing of it could be changed
    any more, not even for the better.
    """
    return {"validator": {"$jsonSchema": plan.validator}, "validationLevel": "moderate"}


def _set_validator(db: Database[Document], name: str, wanted: Document) -> None:
    try:
        db.create_collection(name, **wanted)
    except CollectionInvalid:
        _update_validator(db, name, wanted)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:  # somebody else was just faster
            raise
        _update_validator(db, name, wanted)
    except NotImplementedError:  # mongomock knows no validators
        db.get_collection(name)


def _update_validator(db: Database[Document], name: str, wanted: Document) -> None:
    """Change a validator that is another; for what is there already, nobody has to wait."""
    if not wanted.items() <= db[name].options().items():
        db.command("collMod", name, **wanted)


def _create_indexes(db: Database[Document], name: str, indexes: list[IndexModel]) -> None:
    try:
        db[name].create_indexes(indexes)
    except OperationFailure as error:
        if error.code not in (INDEX_OPTIONS_CONFLICT, INDEX_KEY_CONFLICT):
            raise
        for index in indexes:
            _drop_conflicting(db, name, index)
        db[name].create_indexes(indexes)


def _drop_conflicting(db: Database[Document], name: str, index: IndexModel) -> None:
    """Remove an older form of an index: the same name or the same keys, made otherwise."""
    wanted = index.document
    for existing in list(db[name].list_indexes()):
        has_name = existing["name"] == wanted["name"]
        has_keys = list(existing["key"].items()) == list(wanted["key"].items())
        if has_name != has_keys or (has_name and _options(existing) != _options(wanted)):
            db[name].drop_index(existing["name"])


def _options(index: Mapping[str, Any]) -> Document:
    return {key: value for key, value in index.items() if key not in ("v", "ns", "name", "key")}
