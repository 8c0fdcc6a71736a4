"""All changes in the order in which they were added to history, for tools that poll."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

import bson
from flask import Response
from pymongo.read_preferences import ReadPreference

from app.auth.views import read_route
from app.core.errors import InvalidCursor, Unavailable
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.services import current
from app.core.types import Document
from app.history.access import visible_kinds
from app.history.schemas import EntrySchema
from app.history.store import History
from app.http.api import Blueprint, Schema
from app.http.cursors import cursors
from app.http.examples import CURSOR_EXAMPLE
from app.http.fields import Integer, List, Nested, Text
from app.http.lists import CursorListArgs, cursor_response, page_size
from app.storage.client import Storage
from app.storage.events import BEGINNING, EVENTS, EventLog, Place, PlaceLost
from app.storage.history import HISTORY

# The value of "after" that means the end of the list.
NOW = "now"


class EventSchema(EntrySchema):
    """A change, with what tells a receiver whether one is missing."""

    Version = Integer(
        0,
        allow_none=True,
        example=7,
        description="The Version of the subject after the change. Games increment it, too.",
    )
    Number = Integer(
        1,
        allow_none=True,
        example=3,
        description="Of changes before release 0.4.0: the number of the change of its subject.",
    )


class EventPageSchema(Schema):
    Values = List(Nested(EventSchema))
    Next = Text(example=CURSOR_EXAMPLE, description="The `after` of the next request; never null.")


class EventListArgs(CursorListArgs):
    after = Text(
        pattern=rf"^({NOW}|[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$",
        description=(
            "The Next of the previous answer. Empty: from the oldest on. `{NOW}`: only new changes."
        ),
    )


LIST_NAME = b"events "
# How many entries of the log one request reads at most, if the caller may see few of them.
MOST_READ = 2000


class Events:
    def __init__(self, storage: Storage, history: History) -> None:
        self._log = EventLog(storage.db)
        self._events = storage.db[EVENTS.name]
        self._transactions = storage.transactions
        self._entries = storage.db[HISTORY.name].with_options(
            read_preference=ReadPreference.PRIMARY
        )
        self._history = history

    def end(self) -> bytes:
        """Return the cursor for a reader who wants only new entries."""
        return _cursor(self._log.end())

    def list(self, cursor: bytes, size: int, kinds: Sequence[str]) -> CursorPage:
        """Return the entries about some kinds of documents after a cursor, the oldest first."""
        place = BEGINNING
        if cursor:
            if not cursor.startswith(LIST_NAME):
                raise InvalidCursor("Belongs to another list.")
            fields: Document = bson.decode(cursor.removeprefix(LIST_NAME))
            place = Place(fields["N"], fields["O"], fields["S"])
        following = islice(self._log.after(place), MOST_READ)
        entries: list[Document] = []
        try:
            while len(entries) < size and (some := dict(islice(following, size))):
                found = self._read(list(some))
                for entry_id, reached in some.items():
                    if len(entries) < size:
                        place = reached
                        if entry_id in found and found[entry_id]["Subject"]["Kind"] in kinds:
                            entries.append(found[entry_id])
        except PlaceLost:
            # A primary that is cut off may not know the place yet. It commits nothing.
            at_place = {"_id": place.number, "Stamp": place.stamp}
            if self._transactions.holds(self._events, at_place):
                raise Unavailable("The events are not complete yet; please try again.") from None
            raise InvalidCursor(
                "Is older than what is kept, or from before a backup was restored: begin anew."
            ) from None
        events = [
            {**event, "Version": entry.get("Version"), "Number": entry.get("Number")}
            for event, entry in zip(self._history.serve(entries), entries, strict=True)
        ]
        return CursorPage(events, _cursor(place))

    def _read(self, entry_ids: Sequence[str]) -> dict[str, Document]:
        found = self._find(entry_ids)
        # A missing entry has normally expired, which happens before its place in the log expires.
        # But a primary that is cut off may lack it. It commits nothing, so that none is skipped.
        if len(found) < len(entry_ids):
            found = self._transactions.run(partial(self._find, entry_ids))
        return found

    def _find(self, entry_ids: Sequence[str]) -> dict[str, Document]:
        found = self._entries.find({"_id": {"$in": entry_ids}})
        return {entry["_id"]: entry for entry in found}


def _cursor(place: Place) -> bytes:
    return LIST_NAME + bson.encode({"N": place.number, "O": place.offset, "S": place.stamp})


events = current(Events)


blp = Blueprint("Events", __name__, url_prefix="/api/v1/events", group="History")


@read_route(blp, "", EventPageSchema, Permission.HISTORY_READ, args=EventListArgs())
def list_events(args: Document) -> Response:
    """List changes in the order in which they became history

    Oldest first, the same ones as `listHistory` shows. `Next` is always present: send it as
    `after` to get what is new. Each change comes exactly once.
    """
    after = args.get("after", "")
    if after == NOW:
        return cursor_response(CursorPage([], events.end()))
    return cursor_response(events.list(cursors.read(after), page_size(args), visible_kinds()))
