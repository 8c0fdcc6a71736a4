"""Confirms that a majority of the servers holds the data on which a response is based.

A primary that is cut off by a network split continues for some seconds, and its writes are rolled
back later. Data read from it may be as invalid as data written there. A write confirms both: with
write concern majority, MongoDB acknowledges a write, even one that changes nothing, once a majority
holds everything that the primary applied before. A primary that is cut off never acknowledges it.
"""

from __future__ import annotations

from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from app.errors import Unavailable
from app.types import Document

# Without upsert, $setOnInsert is a no-op, whatever is stored.
NO_CHANGE: Document = {"$setOnInsert": {"Version": 0}}
JUST_CHANGED = "What the answer rests on has just changed; please try again."


def majority_holds(collection: Collection[Document], where: Document) -> bool:
    """Return whether a majority holds a document that matches."""
    return bool(collection.update_one(where, NO_CHANGE).matched_count)


def confirm(collection: Collection[Document], where: Document) -> None:
    """Raise Unavailable unless a majority holds the document on which a response is based."""
    if not majority_holds(collection, where):
        raise Unavailable(JUST_CHANGED, retry_after=1)


def confirm_absent(collection: Collection[Document], where: Document) -> None:
    """Raise Unavailable if a majority holds a document that was not found."""
    if majority_holds(collection, where):
        raise Unavailable(JUST_CHANGED, retry_after=1)


def committed(collection: Collection[Document]) -> Collection[Document]:
    """Return a collection that only reads data held by a majority."""
    return collection.with_options(
        read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
    )
