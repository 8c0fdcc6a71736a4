"""All changes in the order in which they were added to history, for tools that poll."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import bson
from flask import Response

from app.auth.views import read_route
from app.core.errors import InvalidCursor
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.history.access import visible_kinds
from app.history.schemas import EntrySchema
from app.history.store import history
from app.http.api import Blueprint, Schema
from app.http.cursors import cursors
from app.http.examples import CURSOR_EXAMPLE
from app.http.fields import Integer, List, Nested, Text
from app.http.lists import CursorListArgs, cursor_response, page_size
from app.storage.client import storage
from app.storage.events import BEGINNING, Position, entries_after, last_event

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
    Next = Text(
        x_optional=True,
        example=CURSOR_EXAMPLE,
        description="The `after` of the next request; never null.",
    )


class EventListArgs(CursorListArgs):
    after = Text(
        pattern=rf"^({NOW}|[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$",
        description=(
            "The Next of the previous answer. Empty: from the oldest on. "
            f"`{NOW}`: only new changes."
        ),
    )


LIST_NAME = b"events "
# How many entries of the log one request reads at most, if the caller may see few of them.
MOST_READ = 2000


def read(cursor: bytes, size: int, kinds: Sequence[str]) -> CursorPage:
    """Return some entries about some kinds of documents after a cursor, the oldest first.

    It ends after the first ``size`` entries among which there are such.
    """
    position = BEGINNING
    if cursor:
        if not cursor.startswith(LIST_NAME):
            raise InvalidCursor("Belongs to another list.")
        fields: Document = bson.decode(cursor.removeprefix(LIST_NAME))
        position = Position(fields["N"], fields["O"], fields["S"])

    def step() -> tuple[Sequence[Document], Position]:
        following, reached = islice(entries_after(storage.db, position), MOST_READ), position
        entries: list[Document] = []
        while not entries and (some := dict(islice(following, size))):
            # A missing entry has expired, which happens before its position in the log expires.
            found = history.get_many([*some], {"Subject.Kind": {"$in": list(kinds)}})
            entries = [found[entry_id] for entry_id in some if entry_id in found]
            reached = [*some.values()][-1]
        return entries, reached

    entries, reached = storage.transactions.run(step)
    events = [
        {**event, "Version": entry.get("Version"), "Number": entry.get("Number")}
        for event, entry in zip(history.present(entries), entries, strict=True)
    ]
    return CursorPage(events, _cursor(reached))


def _cursor(position: Position) -> bytes:
    return LIST_NAME + bson.encode(
        {"N": position.number, "O": position.offset, "S": position.stamp}
    )


blp = Blueprint("Events", __name__, url_prefix="/api/v1/events", group="History")


@read_route(blp, "", EventPageSchema, Permission.HISTORY_READ, args=EventListArgs())
def list_events(args: Document) -> Response:
    """List changes in the order in which they became history

    Oldest first, the same ones as `listHistory` shows. `Next` is always present: send it as
    `after` to get what is new. Each change comes exactly once.
    """
    after = args.get("after", "")
    if after == NOW:
        last = last_event(storage.db)
        end = Position(last["_id"], len(last["Entries"]), last["Stamp"])
        return cursor_response(CursorPage([], _cursor(end)))
    return cursor_response(read(cursors.read(after), page_size(args), visible_kinds()))
