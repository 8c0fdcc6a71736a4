"""The catalogue in MongoDB: all objects of a game in one collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, NoReturn

from cachetools import TTLCache, cached

from app.catalogue.domain import RECORD, SHAPE, SUBJECT, TIME, NoTime, NotInCatalogue, public_object
from app.core.errors import NotFound, QuartermasterError
from app.core.naming import name_key
from app.core.operations import Prepared
from app.core.paging import Page, Window, map_page
from app.core.services import current
from app.core.types import Document
from app.storage.changes import Changes
from app.storage.client import Storage, name_contains
from app.storage.paging.orders import order
from app.storage.paging.pages import NAME_TAILS, Pages
from app.storage.schema.plan import CollectionPlan, index

CACHED_OBJECTS = 10_000
# Names are not unique: the id makes the order total.
BY_NAME = order("name", "NameKey", "_id")
OBJECTS = CollectionPlan(
    SUBJECT.collection,
    SHAPE,
    (
        index("name", "Type", "NameKey", "_id"),
        index(NAME_TAILS, "Type", "NameTails", "NameKey", "_id"),
    ),
)


class ObjectKey(NamedTuple):
    """The type and the id of an object."""

    type: str
    id: str


class Objects(Changes):
    def __init__(self, storage: Storage, total_seconds: float) -> None:
        super().__init__(storage, SUBJECT)
        self._pages = Pages(self._documents, total_seconds)

    def get(self, type_: str, id_: str) -> Document:
        return public_object(self._read(ObjectKey(type_, id_), RECORD))

    def get_time(self) -> Document:
        found = self._documents.find_one({"Type": TIME}, RECORD, sort=BY_NAME.sort)
        if found is None:
            raise NoTime
        return public_object(found)

    def names(self, type_: str, search: str = "", limit: int = 0) -> dict[str, str]:
        """Return the names by id of objects of a type, or of those whose name contains a text."""
        return self._names({"Type": type_, **name_contains(search)}, limit)

    def names_of(self, ids: Iterable[Any]) -> dict[str, str]:
        """Return the names of objects by id, without those that do not exist."""
        wanted = {id_ for id_ in ids if isinstance(id_, str)}
        return self._names({"_id": {"$in": [*wanted]}}) if wanted else {}

    def find_by_name(self, type_: str, name: str, limit: int = 0) -> dict[str, str]:
        """Return the objects of a type with this name, case-insensitively, as names by id."""
        return self._names({"Type": type_, "NameKey": name_key(name)}, limit)

    def _names(self, where: Document, limit: int = 0) -> dict[str, str]:
        found = self._documents.find(where, ["Name"], sort=BY_NAME.sort).limit(limit)
        return {str(one["_id"]): str(one.get("Name", "")) for one in found}

    def list(self, type_: str, window: Window) -> Page:
        """Return a page of the objects of a type, by name."""
        of_type = {"Type": type_}
        page = self._pages.read_filtered(window, BY_NAME, RECORD, of_type, BY_NAME.held_by)
        return map_page(public_object, page)

    def walk(self, type_: str, window: Window, search: str | None) -> Page:
        """Return a page of the objects of a type, or of those whose name contains a text."""
        where = {"Type": {"$eq": type_}, **name_contains(search)}
        held_by = NAME_TAILS if search else BY_NAME.held_by
        walked = f"{type_} {search or ''}"
        page = self._pages.walk(window, BY_NAME, RECORD, where, held_by, walked)
        return map_page(public_object, page)

    def _where(self, key: ObjectKey) -> Document:
        return {"_id": key.id, "Type": key.type}

    def not_found(self, key: ObjectKey) -> NotFound:
        return NotFound(*key)


class KnownObjects:
    """A cache of the objects that changes need.

    It expires after some seconds, so a change of the catalogue soon reaches all workers.
    """

    def __init__(self, storage: Storage, seconds: float, is_strict: bool) -> None:
        self._objects = storage.db[OBJECTS.name]
        self._is_strict = is_strict
        remember = cached(TTLCache(CACHED_OBJECTS, seconds), lock=Lock())
        self.find: Callable[..., Document | None] = remember(self._find)

    def _find(self, type_: str, *id_: str) -> Document | None:
        """Return an object with its stack limit; without an id, any object of the type, or None."""
        where = {"Type": type_, **({"_id": id_[0]} if id_ else {})}
        return self._objects.find_one(where, ["StackLimit"])

    def warn_if_missing(self, type_: str, id_: str, prepared: Prepared) -> Prepared:
        """Return a change, with a warning if the catalogue lacks the object that it gives.

        With strict settings, such a change is refused instead. If the catalogue has no object of
        the type, it was not imported, and there is no warning.
        """
        if self.find(type_, id_) or not self.find(type_):
            return prepared
        missing = NotInCatalogue(type_, id_)
        if self._is_strict:
            return prepared._replace(rule=partial(_refuse, missing))
        return prepared._replace(intent=prepared.intent._replace(warning=str(missing)))


def _refuse(error: QuartermasterError, _: Document) -> NoReturn:
    """Raise an error as a rule, so that a repeated request still gets its first answer."""
    raise error


objects = current(Objects)


known_objects = current(KnownObjects)


def in_catalogue(type_: str, argument: str) -> Callable[[Document, Prepared], Prepared]:
    """Return the check of an operation that gives the object in an argument."""

    def check(args: Document, prepared: Prepared) -> Prepared:
        return known_objects.warn_if_missing(type_, args[argument], prepared)

    return check
