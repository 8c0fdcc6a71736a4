"""Where the pages of long lists start, so that none has to be counted from the beginning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from pymongo import WriteConcern
from pymongo.database import Database
from pymongo.errors import PyMongoError

Document = dict[str, Any]

log = logging.getLogger("quartermaster")

KEPT_SECONDS = 60
# So soon after a page, a request for the next one is of the same walk.
WALK = timedelta(seconds=10)


class Start(NamedTuple):
    """How many records stand before a page, and the keys of the last of them."""

    offset: int
    keys: Sequence[Any]


class PageStarts:
    """What is known of one list, shared by all workers: whichever served a page, any goes on.

    A walk continues where its last page ended, and not where counting anew would lead: records
    that come or go meanwhile make it neither repeat nor lose one that stays. To a request from
    elsewhere a start is of use only while nothing has come or gone.
    """

    def __init__(self, db: Database[Document], list_name: str) -> None:
        # Lost with a failing server, a start costs time and nothing else.
        self._starts = db["page_starts"].with_options(write_concern=WriteConcern(w=1))
        self._list = list_name

    def nearest(self, order: str, offset: int, total: int) -> Start:
        """Return the last known start that is not beyond this offset."""
        now = datetime.now(timezone.utc)
        first, last = self._id(order, 0), self._id(order, offset)
        continued = {"_id": last, "At": {"$gte": now - WALK}}
        unchanged = {"_id": {"$gte": first, "$lte": last}, "Total": total}
        recent = {"At": {"$gte": now - timedelta(seconds=KEPT_SECONDS)}}
        found = self._starts.find_one(
            {"$or": [continued, {**unchanged, **recent}]}, sort=[("_id", -1)]
        )
        return Start(found["_id"]["Start"], found["Keys"]) if found else Start(0, ())

    def remember(self, order: str, start: Start, total: int) -> None:
        key = {"_id": self._id(order, start.offset)}
        known = {"Keys": start.keys, "Total": total, "At": datetime.now(timezone.utc)}
        try:
            self._starts.replace_one(key, known, upsert=True)
        except PyMongoError as error:
            log.warning("The start of a page cannot be remembered: %s", error)

    def _id(self, order: str, offset: int) -> Document:
        return {"List": f"{self._list} by {order}", "Start": offset}
