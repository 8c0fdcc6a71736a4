"""Adds the id of the current request to commands, for MongoDB's log and profiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pymongo.collection import Collection
from pymongo.database import Database

from app.request_scope import current_request_id
from app.types import Document


class CommentedDatabase(Database[Document]):
    def __getitem__(self, name: str) -> Collection[Document]:
        return CommentedCollection(self, name)


class CommentedCollection(Collection[Document]):
    """A command listener could not do this: it sees each command after its encoding."""

    def with_options(self, *args: Any, **kwargs: Any) -> Any:
        of = super().with_options(*args, **kwargs)
        options = of.codec_options, of.read_preference, of.write_concern, of.read_concern
        return CommentedCollection(self.database, self.name, False, *options)


def _commented(name: str) -> Callable[..., Any]:
    @wraps(getattr(Collection, name))
    def call(self: Collection[Document], *args: Any, **kwargs: Any) -> Any:
        if request_id := current_request_id():
            kwargs["comment"] = request_id
        # Looked up at each call: tests make the methods of pymongo fail.
        return getattr(Collection, name)(self, *args, **kwargs)

    return call


# find_one and the other methods call one of these.
for name in (
    *("find", "aggregate", "count_documents", "distinct", "bulk_write", "insert_one"),
    *("insert_many", "replace_one", "update_one", "update_many", "delete_one", "delete_many"),
    *("find_one_and_update", "find_one_and_replace", "find_one_and_delete"),
):
    setattr(CommentedCollection, name, _commented(name))
