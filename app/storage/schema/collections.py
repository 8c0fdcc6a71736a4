"""Updates the collections of a database to their plans: validators, indexes and migrations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pymongo
from pymongo import IndexModel, MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import CollectionInvalid, DuplicateKeyError, OperationFailure

from app.core.types import Document
from app.storage.client import LONG_WORK_SECONDS
from app.storage.errors import is_forbidden
from app.storage.schema import migrations
from app.storage.schema.plan import CollectionPlan
from app.storage.schema.upgrade import UnfitDatabase

# IndexOptionsConflict and IndexKeySpecsConflict: the same name with other keys or options, and
# the same keys under another name.
INDEX_CONFLICTS = (85, 86)
# docs/deploy.rst lists the tested versions.
OLDEST_SERVER = (5, 0)
SINGLE_SERVER = (
    "This MongoDB is a single server; Quartermaster needs a replica set, of which one member is "
    "enough. Restart mongod with --replSet qm (replication.replSetName: qm in its configuration), "
    "and then run rs.initiate() in mongosh."
)
# How many documents a refusal lists.
MOST_LISTED = 20
# How often another process that prepares the database may be in the way.
MOST_TRIES = 4

Plans = Sequence[CollectionPlan]


class UnfitServer(UnfitDatabase):
    """The MongoDB server is too old, or not a member of a replica set."""


class FieldTaken(UnfitDatabase):
    """Games have stored a field that is new in a validator, with another type."""

    sentence = (
        "This release stores the field {name} in '{collection}', which has another type in these "
        "documents; change them first: {ids}."
    )


def init_database(db: Database[Document], plans: Plans, is_restore: bool = False) -> None:
    """Create what is missing and update the rest; idempotent, and safe at any time."""
    if not is_restore:
        migrations.refuse_unfinished_restore(db)
    init_for_bulk_load(db, plans)
    with pymongo.timeout(LONG_WORK_SECONDS):
        for plan in plans:
            _repeat(_create_indexes, db, plan)


def init_for_bulk_load(db: Database[Document], plans: Plans) -> None:
    """Create all but the indexes; documents that are added now need no migration."""
    refuse_unfit_server(db)
    migrations.refuse_newer(db)
    migrations.refuse_older(db)
    for plan in plans:
        _repeat(_set_validator, db, plan)
    with pymongo.timeout(LONG_WORK_SECONDS):
        _repeat(migrations.migrate, db)


def _repeat(step: Callable[..., None], *args: Any) -> None:
    """Take a step again after an error: another process may take the same one."""
    for tries in range(1, MOST_TRIES + 1):
        try:
            step(*args)
        except DuplicateKeyError:
            raise
        except OperationFailure as error:
            if tries == MOST_TRIES or is_forbidden(error):
                raise
        else:
            return


def refuse_unfit_server(db: Database[Document]) -> None:
    """Raise UnfitServer if the server is older than OLDEST_SERVER, or a single one."""
    server = db.client.server_info()
    if tuple(server["versionArray"]) < OLDEST_SERVER:
        needed = ".".join(map(str, OLDEST_SERVER))
        version = server["version"]
        raise UnfitServer(f"This is MongoDB {version}; Quartermaster needs {needed} or newer.")
    with contextlib.suppress(NotImplementedError):  # mongomock
        hello = db.client.admin.command("hello")
        # A mongos is accepted: the sets behind it have their names.
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise UnfitServer(SINGLE_SERVER)


def init_despite_duplicates(db: Database[Document], plans: Plans) -> None:
    """Prepare a database in which duplicates may prevent a unique index."""
    with contextlib.suppress(DuplicateKeyError):
        init_database(db, plans)


def differences(db: Database[Document], plans: Plans) -> Iterator[tuple[str, str]]:
    """Yield by collection what db init would change."""
    version = migrations.refuse_newer(db)
    if version < migrations.CURRENT:
        yield migrations.VERSIONS, f"SchemaVersion is {version}, not {migrations.CURRENT}"
    for plan in plans:
        if not validation(plan).items() <= db[plan.name].options().items():
            yield plan.name, "the validator is missing or different"
        there = [_definition(index) for index in db[plan.name].list_indexes()]
        for index in plan.indexes:
            if _definition(index.document) not in there:
                yield plan.name, f"the index '{index.document['name']}' is missing or different"


def validation(plan: CollectionPlan) -> Document:
    """Return the validation options of a collection.

    The level is moderate: a valid document must stay valid, but an invalid one may be changed. With
    strict, a document older than its validator could not be changed at all, not even repaired.
    """
    validator = {"$jsonSchema": plan.shape}
    return {"validator": validator, "validationLevel": "moderate", "validationAction": "error"}


def _set_validator(db: Database[Document], plan: CollectionPlan) -> None:
    wanted = validation(plan)
    try:
        db.create_collection(plan.name, **wanted)
    except CollectionInvalid:
        # Only if it differs: collMod takes an exclusive lock.
        former = db[plan.name].options()
        if not wanted.items() <= former.items():
            # A migration may still change them.
            if migrations.version_of(db) == migrations.CURRENT:
                _refuse_taken_fields(db[plan.name], plan.shape, former.get("validator", {}))
            db.command("collMod", plan.name, **wanted)
    except NotImplementedError:  # mongomock has no validators
        db.get_collection(plan.name)


def _refuse_taken_fields(
    collection: Collection[Document], shape: Document, former: Document
) -> None:
    """Raise FieldTaken if documents do not fit a field that the former validator did not have."""
    known = former.get("$jsonSchema", shape).get("properties", {})
    for name in sorted(shape["properties"].keys() - known.keys()):
        fitting = {"$jsonSchema": {"properties": {name: shape["properties"][name]}}}
        found = collection.find({"$nor": [fitting]}, ["_id"]).limit(MOST_LISTED)
        if ids := [str(one["_id"]) for one in found]:
            raise FieldTaken(name, collection.name, ", ".join(ids))


def _create_indexes(db: Database[Document], plan: CollectionPlan) -> None:
    collection = db[plan.name]
    wanted = list(plan.indexes)
    if not isinstance(db.client, MongoClient):
        # To mongomock, a partial index is a whole one.
        unique = [one for one in wanted if one.document.get("unique")]
        unfit = [one for one in unique if "partialFilterExpression" in one.document]
        wanted = [one for one in wanted if one not in unfit]
    try:
        if wanted:
            collection.create_indexes(wanted)
    except OperationFailure as error:
        if error.code in INDEX_CONFLICTS:
            for index in wanted:
                _drop_conflicting(collection, index)
        raise


def _drop_conflicting(collection: Collection[Document], index: IndexModel) -> None:
    """Drop an older version of an index: the same name or keys, with other options."""
    name, keys, options = _definition(index.document)
    for existing in list(collection.list_indexes()):
        other_name, other_keys, other_options = _definition(existing)
        is_other = (name == other_name) != (keys == other_keys)
        if is_other or (name == other_name and options != other_options):
            collection.drop_index(other_name)


def _definition(index: Mapping[str, Any]) -> tuple[Any, ...]:
    options = {key: value for key, value in index.items() if key not in ("v", "ns", "name", "key")}
    return index["name"], list(index["key"].items()), options
