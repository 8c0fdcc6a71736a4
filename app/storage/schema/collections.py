"""The collections: what their documents must look like, and their indexes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database
from pymongo.errors import CollectionInvalid, DuplicateKeyError, OperationFailure

from app.storage import password_costs
from app.storage.client import LONG_WORK_SECONDS
from app.storage.schema import migrations
from app.storage.schema.validators import (
    ATTEMPTS,
    BAG,
    PASSWORD_COST,
    PLAYER,
    QUOTA,
    REFRESH_TOKEN,
    SCHEMA_VERSION,
    USER,
)
from app.types import Document

NAMESPACE_EXISTS = 48
# The same name with other keys or options, and the same keys with another name.
CONFLICTS = (85, 86)
INDEX_BUILD_ABORTED = 276


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
            _index("chain", "Chain", "Used"),
            _index("user", "UserId", "Used", "-ExpiresAt", "_id"),
            _index("expiry", "ExpiresAt", expireAfterSeconds=0),
        ],
    ),
    "quotas": CollectionPlan(
        QUOTA,
        [_index("expiry", "ExpiresAt", expireAfterSeconds=0)],
    ),
    password_costs.COLLECTION: CollectionPlan(PASSWORD_COST, []),
    "attempts": CollectionPlan(ATTEMPTS, [_index("expiry", "ExpiresAt", expireAfterSeconds=0)]),
    migrations.VERSIONS: CollectionPlan(SCHEMA_VERSION, []),
}


def init(db: Database[Document]) -> None:
    """Create what is missing and bring the rest up to date; safe to repeat, at any time."""
    init_collections(db)
    with pymongo.timeout(LONG_WORK_SECONDS):
        migrations.migrate(db)
        for name, plan in COLLECTIONS.items():
            if plan.indexes:
                _create_indexes(db, name, plan.indexes)


def init_what_can_be(db: Database[Document]) -> None:
    """Prepare a database in which documents may stand in the way of an index."""
    with contextlib.suppress(DuplicateKeyError):
        init(db)


def differences(db: Database[Document]) -> Iterator[tuple[str, str]]:
    """Yield by collection what db init would have to do."""
    version = migrations.refuse_newer(db)
    if version < migrations.CURRENT:
        yield migrations.VERSIONS, f"SchemaVersion is {version}, not {migrations.CURRENT}"
    for name, plan in COLLECTIONS.items():
        if not validation(plan).items() <= db[name].options().items():
            yield name, "the validator is missing or another"
        there = [_defined(index) for index in db[name].list_indexes()]
        for index in plan.indexes:
            if _defined(index.document) not in there:
                yield name, f"the index '{index.document['name']}' is missing or another"
                yield from ((name, fault) for fault in _duplicates(db, name, index.document))


def _duplicates(db: Database[Document], name: str, index: Mapping[str, Any]) -> Iterator[str]:
    """Yield which documents stand in the way of an index of unique keys."""
    if not index.get("unique"):
        return
    (field,) = index["key"]
    by_value = {"_id": f"${field}", "ids": {"$push": "$_id"}, "count": {"$sum": 1}}
    stages: list[Document] = [{"$group": by_value}, {"$match": {"count": {"$gt": 1}}}]
    with pymongo.timeout(LONG_WORK_SECONDS):
        for found in db[name].aggregate(stages, allowDiskUse=True):
            yield f"{field} {found['_id']!r} is the same on {', '.join(map(str, found['ids']))}"


def init_collections(db: Database[Document]) -> None:
    """Create the collections with their validators; documents in bulk come before indexes."""
    migrations.refuse_newer(db)
    for name, plan in COLLECTIONS.items():
        _set_validator(db, name, validation(plan))


def validation(plan: CollectionPlan) -> Document:
    """Return a collection's options: what is sound must stay so, and what is not can be changed.

    Were a document older than its validator held to it as well, nothing of it could be changed
    any more, not even for the better.
    """
    validator = {"$jsonSchema": plan.validator}
    return {"validator": validator, "validationLevel": "moderate", "validationAction": "error"}


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


def _create_indexes(
    db: Database[Document], name: str, indexes: list[IndexModel], more_tries: int = 3
) -> None:
    try:
        db[name].create_indexes(indexes)
    except OperationFailure as error:
        # A process that is at the same work may drop what we make, before it makes the same.
        if not more_tries or error.code not in (*CONFLICTS, INDEX_BUILD_ABORTED):
            raise
        for index in indexes:
            _drop_conflicting(db, name, index)
        _create_indexes(db, name, indexes, more_tries - 1)


def _drop_conflicting(db: Database[Document], name: str, index: IndexModel) -> None:
    """Remove an older form of an index: the same name or the same keys, made otherwise."""
    wanted = index.document
    for existing in list(db[name].list_indexes()):
        has_name = existing["name"] == wanted["name"]
        has_keys = list(existing["key"].items()) == list(wanted["key"].items())
        if has_name != has_keys or (has_name and _options(existing) != _options(wanted)):
            migrations.drop_index(db[name], existing["name"])


def _defined(index: Mapping[str, Any]) -> tuple[Any, ...]:
    return index["name"], list(index["key"].items()), _options(index)


def _options(index: Mapping[str, Any]) -> Document:
    return {key: value for key, value in index.items() if key not in ("v", "ns", "name", "key")}
