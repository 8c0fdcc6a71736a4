"""What the stores of players, users and objects share: changing and listing documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from app.core.changes import Applied, Intent, Rule, SubjectKind
from app.core.errors import NotFound
from app.core.former_names import KEY_PATH, without_former_names
from app.core.paging import Page, Window
from app.core.types import Document
from app.storage.changes import Changes, Decision
from app.storage.client import Storage, by_key
from app.storage.paging.orders import Order
from app.storage.paging.pages import Pages


class ChangeableDocuments:
    """The documents of one kind, changed by rules."""

    def __init__(
        self,
        storage: Storage,
        kind: SubjectKind,
        total_seconds: float,
        taken: Mapping[str, Callable[[Document], Exception]] | None = None,
    ) -> None:
        self._kind = kind
        self._documents = storage.db[kind.collection]
        self._changes = Changes(storage, kind, taken)
        self.in_transaction = self._changes.in_transaction
        self._transactions = storage.transactions
        self._pages = Pages(self._documents, total_seconds)
        self.count = self._pages.total
        self._clock = storage.clock

    def now(self) -> datetime:
        """Return the database's time."""
        return self._clock.now()

    def change(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to these fields of a document, exactly once."""
        try:
            reads, rule = self._checked(reads, rule)
            return self._changes.change(self._where(key), reads, rule, intent)
        except NotFound as error:
            raise self.not_found(error, key) from None

    def decide(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Decision:
        """Decide a change, in a transaction of the caller, who then writes it."""
        try:
            reads, rule = self._checked(reads, rule)
            return self._changes.decide(self._changes.read(self._where(key), reads), rule, intent)
        except NotFound as error:
            raise self.not_found(error, key) from None

    def write(self, decision: Decision) -> Applied:
        return self._changes.write(decision)

    def preview(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document:
        """Return the entry that a change would have, without making the change."""
        try:
            reads, rule = self._checked(reads, rule)
            return self._changes.preview(self._where(key), reads, rule, intent)
        except NotFound as error:
            raise self.not_found(error, key) from None

    def find_earlier(self, key: Any, intent: Intent) -> Applied | None:
        """Return the result of the same request from before; None if it is new."""
        return self._changes.find_earlier(self._where(key), intent)

    def _read(self, key: Any, fields: Any) -> Document:
        """Return these fields of a document; a majority confirms a NotFound."""
        find = partial(self._documents.find_one, self._where(key), fields)
        found = self._transactions.find(find)
        if found is None:
            raise NotFound(self._kind.name, key)
        return found

    def _where(self, key: Any) -> Document:
        return by_key(key)

    def _checked(self, reads: tuple[str, ...], rule: Rule) -> tuple[tuple[str, ...], Rule]:
        """Return the fields to read, and the rule with the checks that every change needs."""
        return reads, rule

    def not_found(self, error: NotFound, key: Any) -> NotFound:
        """Return the error with the caller's key; errors about other kinds stay as they are."""
        return NotFound(self._kind.name, key) if error.kind == self._kind.name else error


class NamedDocuments(ChangeableDocuments):
    """The documents of a kind with unique names, which can be listed and searched by name."""

    # By field and direction (True is ascending), each with its index.
    orders: Mapping[tuple[str, bool], Order]
    # The projection of a record, and the same with former names.
    record: Document
    record_with_former_names: Document

    def list(
        self,
        window: Window,
        search: str | None = None,
        order: str = "name",
        ascending: bool = True,
        most: int | None = None,
    ) -> Page:
        """Return a page of records; with a search text, of those whose name contains it.

        With most, a search counts its total only up to one more than that.
        """
        wanted = self.orders[order, ascending]
        if search:
            page = self._pages.search(window, wanted, self.record, search, most)
        else:
            page = self._pages.read(window, wanted, self.record)
        return page._replace(values=self._serve(page.values))

    def find_by_former_name(self, text: str, limit: int) -> Sequence[tuple[Document, str]]:
        """Return records with a former name that starts with a text, each with that name."""
        had = {KEY_PATH: {"$regex": f"^{re.escape(text)}"}}
        fields = self.record_with_former_names
        found = self._documents.find(had, fields, sort=[("NameKey", 1)]).hint("former_name")
        named = [without_former_names(document, text) for document in found.limit(limit)]
        records = self._serve([document for document, _ in named])
        return [(record, name) for record, (_, name) in zip(records, named, strict=True)]

    def get_many(self, ids: Sequence[str], *fields: str) -> dict[str, Document]:
        """Return these fields of documents, by id."""
        found = self._documents.find({"_id": {"$in": ids}}, [*fields]) if ids else ()
        return {document["_id"]: document for document in found}

    def _serve(self, documents: Sequence[Document]) -> Any:
        """Return the records of documents that were read with the projection of a record."""
        return documents
