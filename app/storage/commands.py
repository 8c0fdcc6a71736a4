"""What the service adds to each command: the transaction of its thread, and the request's id.

MongoDB shows the id in its log and profiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pymongo.collection import Collection
from pymongo.database import Database

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
