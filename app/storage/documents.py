"""What the stores of players and users share: lists of documents, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.core.changes import SubjectKind
from app.core.errors import NotFound
from app.core.naming import KEY_PATH, Lookup, former_names, name_key, only_one
from app.core.paging import Page, Window, map_page
from app.core.types import Document
from app.storage.changes import Changes
from app.storage.client import Storage, begins
from app.storage.paging.orders import Order, order
from app.storage.paging.pages import Pages
from app.storage.schema.plan import index

# The indexes of all such collections.
NAME_INDEXES = (
    index("name", "NameKey", unique=True),
    index("name_tails", "NameTails", "NameKey"),
    index("former_name", KEY_PATH, sparse=True),
)
# The orders of all such lists, by field and direction (True is ascending), each with its index.
BY_NAME = {("name", True): order("name", "NameKey"), ("name", False): order("name", "-NameKey")}


class NamedDocuments(Changes):
    """The documents of a kind with unique names, which can be listed and searched by name."""

    orders: Mapping[tuple[str, bool], Order]
    # The projection of a record, and the same with former names.
    record: Document
    record_with_former_names: Document

    def __init__(
        self,
        storage: Storage,
        kind: SubjectKind,
        total_seconds: float,
        taken: Mapping[str, Callable[[Document], Exception]],
    ) -> None:
        super().__init__(storage, kind, taken)
        self._pages = Pages(self._documents, total_seconds)
        self.count = self._pages.total

    def list(
        self,
        window: Window,
        search: str | None = None,
        order: str = "name",
        ascending: bool = True,
    ) -> Page:
        """Return a page of records; with a search text, of those whose name contains it."""
        wanted = self.orders[order, ascending]
        if search:
            page = self._pages.search(window, wanted, self.record, search)
        else:
            page = self._pages.read(window, wanted, self.record)
        return map_page(self.present, page)

    def get_id(self, key: Lookup) -> str:
        id_: str = self._read(key, {"_id": 1})["_id"]
        return id_

    # Also of what was deleted, if a copy is kept.
    get_id_ever = get_id

    def get_id_by_any_name(self, key: Lookup) -> str:
        """Return the id of a document, or of a copy, by its name or a former name only it had."""
        try:
            return self.get_id_ever(key)
        except NotFound:
            ids = (document["_id"] for document in self.find_former(key))
            if id_ := only_one(self._kind.name, key.text, ids):
                return id_
            raise

    def find_former(self, key: Lookup) -> Sequence[Document]:
        """Return what had this name before."""
        return list(self._documents.find({KEY_PATH: key.name_key}, ["_id"]))

    def find_by_former_name(self, text: str, limit: int) -> Sequence[tuple[Document, str]]:
        """Return records with a former name that starts with a text, each with that name."""
        fields = self.record_with_former_names
        found = self._documents.find({KEY_PATH: begins(text)}, fields, sort=[("NameKey", 1)])
        named = []
        for document in found.hint("former_name").limit(limit):
            fitting = (name for name in former_names(document) if name_key(name).startswith(text))
            del document["FormerNames"]
            named.append((self.present(document), next(fitting, "")))
        return named

    def get_many(self, ids: Sequence[str], *fields: str) -> dict[str, Document]:
        """Return these fields of documents, by id."""
        found = self._documents.find({"_id": {"$in": ids}}, [*fields]) if ids else ()
        return {document["_id"]: self.readable(document, fields) for document in found}

    def present(self, document: Document) -> Document:
        """Return the record of a document that was read with the projection of a record."""
        return self.readable(document, self.record)
