"""What a majority of the servers holds, on which every answer rests.

A primary that is cut off by a network split goes on for some seconds, and what it did is rolled
back. What was read from it may be no more true than what was written there. A write confirms both:
with write concern majority, MongoDB acknowledges it, also one that changes nothing, once a majority
holds all that the primary had applied before. A primary that is cut off never acknowledges it.
"""

from __future__ import annotations

from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from app.errors import Unavailable
from app.types import Document

# Without upsert, $setOnInsert is a no-op whatever is stored.
NO_CHANGE: Document = {"$setOnInsert": {"Version": 0}}
JUST_CHANGED = "What the answer rests on has just changed; please try again."


def majority_holds(collection: Collection[Document], where: Document) -> bool:
    """Tell whether a majority holds such a document."""
    return bool(collection.update_one(where, NO_CHANGE).matched_count)


def confirm(collection: Collection[Document], where: Document) -> None:
    """Raise Unavailable unless a majority holds the document that an answer rests on."""
    if not majority_holds(collection, where):
        raise Unavailable(JUST_CHANGED, retry_after=1)


def confirm_absent(collection: Collection[Document], where: Document) -> None:
    """Raise Unavailable if a majority holds a document that was not found."""
    if majority_holds(collection, where):
        raise Unavailable(JUST_CHANGED, retry_after=1)


def committed(collection: Collection[Document]) -> Collection[Document]:
    """Return a collection whose reads return only what a majority holds."""
    return collection.with_options(
        read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
    )
