"""Guilds in MongoDB, which the game writes; only an erasure and an import change them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pymongo.database import Database

from app.core.errors import NotFound
from app.core.paging import Page, Window
from app.core.services import current
from app.core.types import Document
from app.players.guilds.domain import LISTED, RECORD, SHAPE, listed_guild, ranks_of
from app.storage.client import Storage
from app.storage.paging.orders import order
from app.storage.paging.pages import Pages
from app.storage.schema.plan import CollectionPlan, index

BY_NAME = order("name", "NameKey")
MEMBER = "Members.PlayerId"
GUILDS = CollectionPlan(
    "guilds", SHAPE, (index("name", "NameKey", unique=True), index("member", MEMBER))
)


class Guilds:
    def __init__(self, storage: Storage, total_seconds: float) -> None:
        self._guilds = storage.db[GUILDS.name]
        self._transactions = storage.transactions
        self._pages = Pages(self._guilds, total_seconds)

    def get(self, guild_id: str, *fields: str) -> Document:
        """Return a guild, or only these fields of it."""
        shown = [*fields] if fields else RECORD
        found = self._transactions.find(lambda: self._guilds.find_one({"_id": guild_id}, shown))
        if found is None:
            raise NotFound("guild", guild_id)
        return found

    def list(self, window: Window) -> Page:
        """Return a page of guilds, by name."""
        page = self._pages.read(window, BY_NAME, LISTED)
        return page._replace(values=[listed_guild(guild) for guild in page.values])


def guilds_of(db: Database[Document], ids: Sequence[str]) -> Iterator[Document]:
    """Yield the guilds of these players, with the ranks of these players alone."""
    for guild in db[GUILDS.name].find({MEMBER: {"$in": list(ids)}}, ["Name", "Members"]):
        ranks = {id_: rank for id_, rank in ranks_of(guild).items() if id_ in ids}
        yield {"Id": guild["_id"], "Name": guild.get("Name"), "Ranks": ranks}


guilds = current(Guilds)
