"""Changes of the service during the watch, and whether the game reverts them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from app.changes import is_same_value
from app.game_check.stored import MAPS
from app.types import Document

# The limits of remembered entries, and of documents with remembered changes.
MOST_REMEMBERED = 100_000
# A write that restores the former value within so many seconds counts as a revert. The times of a
# change stream are whole seconds.
A_MOMENT = 1
_ENTRY_ADDED = re.compile(r"Journal\.\d+")


class Write(NamedTuple):
    """One write to a document, as a change stream reports it."""

    # insert, update, replace or delete
    kind: str
    collection: str
    id: Any
    updated: Document
    removed: tuple[str, ...]
    # The whole document after an insert or a replacement; unknown after an update.
    document: Document
    # The time, in whole seconds.
    at: int = 0

    def fields(self) -> set[str]:
        """Return the top-level fields that an update changes."""
        return {path.partition(".")[0] for path in (*self.updated, *self.removed)}

    def value_of(self, path: str, former: Any) -> Any:
        """Return the value of a map entry, such as Inventory.3, after an update."""
        field, _, name = path.partition(".")
        if field in self.updated:
            whole_map = self.updated[field]
            return whole_map.get(name) if isinstance(whole_map, dict) else None
        if path in self.updated or path in self.removed or field in self.removed:
            return self.updated.get(path)
        inner = {p[len(path) + 1 :]: v for p, v in self.updated.items() if p.startswith(f"{path}.")}
        return {**former, **inner} if inner and isinstance(former, dict) else former

    def added_entry(self) -> Document:
        """Return the Journal entry that the service adds with its Stamp; {} if there is none."""
        values = self.updated if self.kind == "update" else self.document
        journal = values.get("Journal")
        added = journal[-1:] if isinstance(journal, list) else []
        # An entry that is appended to others is stored under its index.
        added += [value for path, value in values.items() if _ENTRY_ADDED.fullmatch(path)]
        entry = added[-1] if added else None
        is_new = isinstance(entry, dict) and entry.get("Stamp") == values.get("Stamp")
        return entry if isinstance(entry, dict) and is_new and "Stamp" in values else {}


class Left(NamedTuple):
    """The value that the service wrote to a map entry, the value before, and the time."""

    before: Any
    after: Any
    at: int

    def is_taken_back_by(self, value: Any, at: int) -> bool:
        is_back = is_same_value(value, self.before) and not is_same_value(value, self.after)
        return is_back and at - self.at <= A_MOMENT


class Entry(NamedTuple):
    """A Journal entry of the service, and its document."""

    id: str
    stamp: Any
    collection: str
    subject_id: Any

    def holder(self) -> tuple[str, str]:
        """Return the collection and the id of its document."""
        return self.collection, repr(self.subject_id)


class ServiceChanges:
    """Recent changes of the service, in bounded memory."""

    def __init__(self) -> None:
        # Since the last write of the game, by document and path.
        self._left: dict[str, dict[str, Left]] = {}
        self.entries: list[Entry] = []

    def add(self, key: str, write: Write) -> None:
        """Remember a change of the service; the key is that of its document."""
        entry = write.added_entry()
        if not isinstance(entry.get("_id"), str):
            return
        if len(self.entries) < MOST_REMEMBERED:
            added = Entry(entry["_id"], entry["Stamp"], write.collection, write.id)
            self.entries.append(added)
        if key in self._left or len(self._left) < MOST_REMEMBERED:
            left = self._left.setdefault(key, {})
            for path, before, after in _changed_slots(entry):
                former = left.get(path)
                left[path] = Left(former.before if former else before, after, write.at)

    def taken_back_by(self, key: str, write: Write) -> set[str]:
        """Return the maps in which a game's first write after a change reverts the change."""
        return {
            f"{path.partition('.')[0]}.*"
            for path, left in self._left.pop(key, {}).items()
            if left.is_taken_back_by(write.value_of(path, left.after), write.at)
        }


def _changed_slots(entry: Document) -> Iterator[tuple[str, Any, Any]]:
    """Yield the changed map entries: the path, and the values before and after."""
    changes = entry.get("Changes")
    for change in changes if isinstance(changes, list) else ():
        path = change.get("Path") if isinstance(change, dict) else None
        if isinstance(path, str) and path.partition(".")[0] in MAPS and "." in path:
            yield path, change.get("Before"), change.get("After")
