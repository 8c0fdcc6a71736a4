"""What the service adds to each command: the transaction of its thread, and the request's id.

MongoDB shows the id in its log and profiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import PyMongoError

from app.core.limits import current_request_id
from app.core.types import Document
from app.storage.transactions import current_transaction


def _options(of: Database[Document] | Collection[Document]) -> tuple[Any, ...]:
    return of.codec_options, of.read_preference, of.write_concern, of.read_concern


class OurDatabase(Database[Document]):
    def __getitem__(self, name: str) -> Collection[Document]:
        return OurCollection(self, name)

    def with_options(self, *args: Any, **kwargs: Any) -> Any:
        return OurDatabase(self.client, self.name, *_options(super().with_options(*args, **kwargs)))


class OurCollection(Collection[Document]):
    """A command listener could not do this: it sees each command after its encoding."""

    def with_options(self, *args: Any, **kwargs: Any) -> Any:
        options = _options(super().with_options(*args, **kwargs))
        return OurCollection(self.database, self.name, False, *options)


def _with_session(name: str, is_write: bool) -> Callable[..., Any]:
    @wraps(getattr(Collection, name))
    def call(self: Collection[Document], *args: Any, **kwargs: Any) -> Any:
        if request_id := current_request_id():
            kwargs["comment"] = request_id
        if transaction := current_transaction():
            kwargs["session"] = transaction.session
            transaction.has_written |= is_write
        # Looked up at each call: tests make the methods of pymongo fail.
        return getattr(Collection, name)(self, *args, **kwargs)

    return call


READS = ("find", "aggregate", "count_documents", "distinct")
WRITES = (
    *("bulk_write", "insert_one", "insert_many", "replace_one", "update_one", "update_many"),
    *("delete_one", "delete_many"),
    *("find_one_and_update", "find_one_and_replace", "find_one_and_delete"),
)
# find_one and the other methods call one of these.
for name in (*READS, *WRITES):
    setattr(OurCollection, name, _with_session(name, name in WRITES))


def read_one(
    collection: Collection[Document], where: Document, fields: Any = None
) -> Document | None:
    """Return one document like find_one, for reads that many requests make.

    For find_one, the driver makes a cursor, which takes a fifth of the time of such a read.
    """
    if not isinstance(collection, OurCollection):  # mongomock has no commands
        return collection.find_one(where, fields)
    command: Document = {"find": collection.name, "filter": where, "limit": 1, "singleBatch": True}
    if fields:
        command["projection"] = fields if isinstance(fields, dict) else dict.fromkeys(fields, 1)
    transaction = current_transaction()
    if not transaction and (concern := collection.read_concern.document):
        command["readConcern"] = concern
    try:
        answer: Document = collection.database.command(
            command,
            codec_options=collection.codec_options,
            read_preference=None if transaction else collection.read_preference,
            session=transaction.session if transaction else None,
            comment=current_request_id() or None,
        )
    except PyMongoError as error:
        if transaction or error.timeout:
            raise
        # A command is sent once. The driver's own read knows after which errors to send it again.
        return collection.find_one(where, fields)
    return next(iter(answer["cursor"]["firstBatch"]), None)
