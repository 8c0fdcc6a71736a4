"""Events: all changes in the order in which they were added to history, for tools that poll."""

from __future__ import annotations

from flask import Response

from app.auth.views import read_route
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.game.events.schemas import NOW, EventListArgs, EventPageSchema
from app.game.events.store import events
from app.history.access import visible_kinds
from app.http.api import Blueprint
from app.http.cursors import cursors
from app.http.lists import cursor_response, page_size

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
