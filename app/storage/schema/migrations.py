"""From a database that an older program made to today's: a few steps, in order.

How many of them a database has behind it is its SchemaVersion. A step finds by itself what is left
to do. So it may be killed and begun again, and several processes may take it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from app.errors import QuartermasterError
from app.keys import email_key, name_key, name_tails
from app.storage import password_costs
from app.storage.bulk import batches, is_of_keys_alone
from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import COUNT, TEXT, object_shape
from app.types import Document

Step = Callable[[Database[Document]], None]

VERSIONS = "schema"
SCHEMA_VERSIONS = CollectionPlan(VERSIONS, object_shape({"_id": TEXT, "SchemaVersion": COUNT}))
ONLY = {"_id": "schema"}
INDEX_NOT_FOUND = 27


class DatabaseTooNew(QuartermasterError):
    """A newer program has been here; what it made is not ours to judge."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            f"The database '{name}' is at SchemaVersion {version}, and this program knows none "
            f"above {CURRENT}: run the newer program, or restore a backup from before it."
        )
        self.version = version


def search_names_by_their_tails(db: Database[Document]) -> None:
    """Names were searched by pieces of three letters once."""
    for kind in ("players", "users"):
        for batch in batches(db[kind].find({"NameTails": {"$exists": False}}, ["Name"])):
            named = [document for document in batch if isinstance(document.get("Name"), str)]
            _write(db[kind], [_with_tails(document) for document in named])
        db[kind].update_many({"NameParts": {"$exists": True}}, {"$unset": {"NameParts": ""}})
        drop_index(db[kind], "name_parts")


def keep_journals(db: Database[Document]) -> None:
    """Bags had no journal at first, and nor had documents that others stored."""
    for kind in ("players", "users", "bags"):
        _complete(db[kind], "Journal", [])


def count_credentials(db: Database[Document]) -> None:
    """Changes of passwords were not counted at first, and places of attempts had no holder."""
    _complete(db["users"], "Credentials", 0)
    _complete(db["users"], "Reset", None)
    _complete(db["refresh_tokens"], "Credentials", 0)
    _complete(db["attempts"], "Places", [])


def know_domains_as_they_are_sent(db: Database[Document]) -> None:
    """Two spellings of a domain in another script were two mailboxes once."""
    in_another_script = {"EmailKey": {"$regex": "[^\\x00-\\x7f]"}}
    for batch in batches(db["users"].find(in_another_script, ["Email"])):
        addressed = [document for document in batch if isinstance(document.get("Email"), str)]
        _write(db["users"], [_with_email_key(document) for document in addressed])


def answer_the_trials(db: Database[Document]) -> None:
    """What independent trials of the service found wanting in its documents."""
    # Keys of addresses were made by IDNA 2003, to which straße.de and strasse.de are one domain.
    in_another_script = {"Email": {"$regex": "[^\\x00-\\x7f]"}}
    for batch in batches(db["users"].find(in_another_script, ["Email", "EmailKey"])):
        addressed = [document for document in batch if isinstance(document.get("Email"), str)]
        stale = [d for d in addressed if d.get("EmailKey") != email_key(d["Email"])]
        _write(db["users"], [_with_email_key(document) for document in stale])
    password_costs.learn(db)
    # Where pages start was kept once, and was not true any more when others had moved.
    db.drop_collection("page_starts")


def name_the_password_version(db: Database[Document]) -> None:
    """The count of password changes was called Credentials. What still has that is void."""
    for kind in ("users", "refresh_tokens"):
        db[kind].update_many(
            {"Credentials": {"$exists": True}}, {"$rename": {"Credentials": "PasswordVersion"}}
        )


STEPS: list[Step] = [
    search_names_by_their_tails,
    keep_journals,
    count_credentials,
    know_domains_as_they_are_sent,
    answer_the_trials,
    name_the_password_version,
]
# A change of a validator or an index is a step as well, even one that does nothing: by the number,
# an older program knows that the database is no longer for it.
CURRENT = len(STEPS)


def version_of(db: Database[Document]) -> int:
    """Return the SchemaVersion of a database; one from before there were any has 0."""
    found = db[VERSIONS].find_one(ONLY)
    return int(found["SchemaVersion"]) if found else 0


def refuse_newer(db: Database[Document]) -> int:
    """Return the SchemaVersion of a database, or raise where this program does not know it."""
    version = version_of(db)
    if version > CURRENT:
        raise DatabaseTooNew(db.name, version)
    return version


def migrate(db: Database[Document], steps: Sequence[Step] = STEPS) -> None:
    """Take the steps that a database has not behind it yet."""
    for number in range(refuse_newer(db), CURRENT):
        steps[number](db)
        _note(db, number + 1)


def _note(db: Database[Document], version: int) -> None:
    """Say how far a database is; whoever was slower must not take it back."""
    further = {"$max": {"SchemaVersion": version}}
    try:
        db[VERSIONS].update_one(ONLY, further, upsert=True)
    except DuplicateKeyError:  # another process has just made it
        db[VERSIONS].update_one(ONLY, further)


def _write(collection: Collection[Document], updates: list[UpdateOne]) -> None:
    """Write updates; a key that is another's already stays as it is, and db check reports it."""
    try:
        if updates:
            collection.bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        if not is_of_keys_alone(error):
            raise


def _with_tails(document: Document) -> UpdateOne:
    tails = name_tails(name_key(document["Name"]))
    return UpdateOne(document, {"$set": {"NameTails": tails}, "$unset": {"NameParts": ""}})


def _with_email_key(document: Document) -> UpdateOne:
    return UpdateOne(document, {"$set": {"EmailKey": email_key(document["Email"])}})


def _complete(collection: Collection[Document], field: str, value: Any) -> None:
    collection.update_many({field: {"$exists": False}}, {"$set": {field: value}})


def drop_index(collection: Collection[Document], name: str) -> None:
    """Remove an index, if it is there."""
    try:
        if name in collection.index_information():
            collection.drop_index(name)
    except OperationFailure as error:
        if error.code != INDEX_NOT_FOUND:  # another process has just dropped it
            raise
