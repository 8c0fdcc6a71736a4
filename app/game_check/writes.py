"""Judges the writes of a game, and separates them from those of the service. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from app.game_check.habits import Habit
from app.game_check.report import Findings, example_of, terminal_text
from app.game_check.service_changes import ServiceChanges, Write
from app.game_check.stored import MAPS, OWN_FIELDS, PRESENCE, fault_habits
from app.moderation.penalties import BAN, MUTE
from app.storage.schema.explain_validator import Fault
from app.types import Document, whole

# The limit of remembered documents, stamps and players.
MOST_REMEMBERED = 100_000
# The same write may be found in several consecutive samples.
MOST_CAUGHT = 10_000
# A write that changes all of these without an entry has stored the whole document.
_SET_WITH_DOCUMENTS = {"Stamp", "LastVersion", "JournalCount"}
_KEY_USED = re.compile(r"Keys\.[^.]+\.LastUsedAt")
# The text that an erasure puts in place of a name.
_ERASED = "(erased)"
_PENALTY_TEXTS = {name for penalty in (BAN, MUTE) for name in (penalty.reason, penalty.by)}
# Fields that the service may write without a stamp, each set alone: it moves entries, hides erased
# people in notes, moves deleted players, rehashes passwords, and adds maps that a game removed.
_WRITTEN_ALONE = {"Journal", "Notes", "RestoredFrom", "RestorePending", "PasswordHash"}
# A write that sets all of these stores the whole document.
_OF_WHOLE_DOCUMENTS = ({"Journal", "NameKey"}, {"Journal", "SlotCount"}, {"_id"})


class Writes:
    """Judges writes one after another, in bounded memory."""

    def __init__(
        self, findings: Findings, faults_of: Callable[[str, Document], list[Fault]]
    ) -> None:
        self._findings = findings
        self._faults_of = faults_of
        self._versions: dict[str, int] = {}
        self._deleted: set[str] = set()
        self._stamps: set[str] = set()
        self.changes = ServiceChanges()
        # All writes, by collection.
        self.all: Counter[str] = Counter()
        # The writes of the game by collection, without those of presence.
        self.game: Counter[str] = Counter()
        self.presence = 0
        # The players that the game has changed.
        self.players: set[str] = set()

    def see(self, write: Write) -> None:
        """Judge a write, and remember what is needed to classify later ones."""
        key = f"{write.collection} {write.id!r}"
        self.all[write.collection] += 1
        if self._is_by_service(key, write):
            stamp = {**write.document, **write.updated}.get("Stamp")
            if stamp is not None and len(self._stamps) < MOST_REMEMBERED:
                self._stamps.add(repr(stamp))
            self.changes.add(key, write)
        elif write.kind == "insert":
            self._see_insert(write)
        elif write.kind == "replace":
            self._count(write)
            self._add(Habit.WHOLE_DOCUMENTS, write)
        elif write.kind == "update":
            self._see_update(key, write)
        self._remember(key, write)

    def _is_by_service(self, key: str, write: Write) -> bool:
        """Tell whether the service made a write: each of its changes has a unique stamp."""
        if write.kind == "delete" or is_housekeeping(write):
            return True
        values = write.updated if write.kind == "update" else write.document
        stamp, version = values.get("Stamp"), whole(values.get("Version"))
        if stamp is None or version is None or repr(stamp) in self._stamps:
            return False
        if version <= self._versions.get(key, -1):
            return False
        entry = write.added_entry()
        if write.kind == "update":
            is_counted = bool(entry) and entry.get("Version") == version
            return is_counted or not write.fields() >= _SET_WITH_DOCUMENTS
        # In the service, only an import replaces whole documents.
        is_known = write.kind == "insert" or entry.get("Operation") == "import"
        return bool(entry) and is_known

    def _see_insert(self, write: Write) -> None:
        self.game[write.collection] += 1
        found = fault_habits(self._faults_of(write.collection, write.document))
        for habit, fields in found.items():
            noun = write.collection.removesuffix("s")
            self._findings.add(habit, noun, example_of(write.document), fields)

    def _see_update(self, key: str, write: Write) -> None:
        fields = write.fields()
        if fields <= PRESENCE:
            self.presence += 1
            return
        self._count(write)
        taken_back = self.changes.taken_back_by(key, write)
        if fields >= _SET_WITH_DOCUMENTS:
            self._add(Habit.WHOLE_DOCUMENTS, write)
            return
        if taken_back:
            self._add(Habit.CHANGES_TAKEN_BACK, write, taken_back)
        if whole_maps := {name for name in MAPS if isinstance(write.updated.get(name), dict)}:
            self._add(Habit.WHOLE_MAPS, write, whole_maps)
        if fields - PRESENCE == {"Version"} and fields & PRESENCE:
            self._add(Habit.PRESENCE_COUNTED, write)
        if own := fields & OWN_FIELDS:
            self._add(Habit.OWN_FIELDS_WRITTEN, write, own)
        if "Version" not in fields:
            self._add(Habit.UNCOUNTED_WRITES, write, fields - OWN_FIELDS or fields)
        elif not self._counts_up(key, write):
            self._add(Habit.MISCOUNTED_WRITES, write)
        if key in self._deleted:
            self._deleted.discard(key)
            noun = write.collection.removesuffix("s")
            self._findings.add(Habit.DELETED_WRITTEN, noun, example_of({"_id": write.id}))

    def _count(self, write: Write) -> None:
        self.game[write.collection] += 1
        if write.collection == "players" and len(self.players) < MOST_REMEMBERED:
            self.players.add(str(write.id))

    def _counts_up(self, key: str, write: Write) -> bool:
        version, last = whole(write.updated.get("Version")), self._versions.get(key)
        return version is not None and (last is None or version == last + 1)

    def _add(self, habit: Habit, write: Write, fields: Iterable[str] = ()) -> None:
        known = write.document if write.kind != "update" else {}
        example = example_of({**known, "_id": write.id})
        self._findings.add(habit, f"write to {write.collection}", example, sorted(fields))

    def _remember(self, key: str, write: Write) -> None:
        if write.kind == "delete":
            self._versions.pop(key, None)
            self._deleted.discard(key)
            return
        values = {**write.document, **write.updated}
        version = whole(values.get("Version"))
        if version is not None and (key in self._versions or len(self._versions) < MOST_REMEMBERED):
            self._versions[key] = version
        if "DeletedAt" in values and len(self._deleted) < MOST_REMEMBERED:
            self._deleted.add(key)


def is_housekeeping(write: Write) -> bool:
    """Tell whether an update is one that the service makes without a stamp."""
    if write.kind != "update":
        return False
    fields = write.fields()
    if len(fields) == 1 and fields <= _WRITTEN_ALONE:
        return True
    if fields == {"Stamp"}:  # whoever moves a deleted player; a game has no stamps of this type
        return type(write.updated.get("Stamp")).__name__ == "ObjectId"
    if write.updated == {"Variables": {}} and not write.removed:
        return True
    if write.collection != "users" or not fields:
        return False
    is_key_used = all(map(_KEY_USED.fullmatch, (*write.updated, *write.removed)))
    is_hidden = any(isinstance(v, str) and _ERASED in v for v in write.updated.values())
    return is_key_used or (fields <= _PENALTY_TEXTS and is_hidden)


class Look(NamedTuple):
    """Digests of the fields of a document, because a game may keep megabytes in a field."""

    version: int | None
    stamp: str
    digests: dict[str, bytes]


def look_at(document: Document) -> Look:
    digests = {
        name: hashlib.sha256(repr(value).encode(errors="replace")).digest()
        for name, value in document.items()
        if name not in PRESENCE and name not in OWN_FIELDS and name != "Version"
    }
    return Look(whole(document.get("Version")), repr(document.get("Stamp")), digests)


def compare_looks(findings: Findings, document: Document, before: Look) -> bool:
    """Judge the changes of a player between two looks; return whether the game changed it."""
    after = look_at(document)
    if after.stamp != before.stamp:
        return False
    names = before.digests.keys() | after.digests.keys()
    changed = sorted(n for n in names if before.digests.get(n) != after.digests.get(n))
    example = example_of(document)
    if changed and after.version == before.version:
        findings.add(Habit.UNCOUNTED_WRITES, "write to players", example, changed)
    elif before.version is not None and (after.version or 0) < before.version:
        findings.add(Habit.VERSION_SET_BACK, "player", example)
    return bool(changed) or after.version != before.version


class RunningWrites:
    """Judges writes by their filters, as $currentOp shows them, each once."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._seen: OrderedDict[Any, None] = OrderedDict()
        # How many writes of a game were found with their filters.
        self.count = 0

    def see(self, operation: Document) -> None:
        """Judge a write that is neither the service's nor part of a transaction."""
        command = operation.get("command")
        key = (operation.get("host"), operation.get("opid"))
        if key in self._seen or not isinstance(command, dict):
            return
        self._seen[key] = None
        if len(self._seen) > MOST_CAUGHT:
            self._seen.popitem(last=False)
        where = command.get("q", command.get("query"))
        update = command.get("u", command.get("update"))
        fields = set(_fields_of(update))
        if not isinstance(where, dict) or fields <= PRESENCE | {"Version"}:
            return
        self.count += 1
        noun = f"write to {str(operation.get('ns')).rpartition('.')[2]}"
        example = terminal_text(str(where.get("_id")))
        if any(names <= fields for names in _OF_WHOLE_DOCUMENTS):
            self._findings.add(Habit.WHOLE_DOCUMENTS, noun, example)
        elif fields <= OWN_FIELDS:
            # In a change stream, this looks like the service moving entries.
            self._findings.add(Habit.OWN_FIELDS_WRITTEN, noun, example, sorted(fields))
        elif _map(update, "$inc").get("Version") == 1 and not _names_version(where):
            self._findings.add(Habit.UNFILTERED_WRITES, noun, example, [_client_of(operation)])


def _fields_of(update: Any) -> Iterable[str]:
    """Yield the top-level fields that an update names; it has operators, or is a pipeline."""
    stages = update if isinstance(update, list) else [update]
    for stage in stages:
        for operator, values in stage.items() if isinstance(stage, dict) else ():
            if not operator.startswith("$"):
                yield operator  # A replacement.
            elif isinstance(values, dict):
                yield from (str(path).partition(".")[0] for path in values)


def _names_version(where: Any) -> bool:
    """Tell whether a filter contains Version, at any depth."""
    if isinstance(where, dict):
        return "Version" in where or any(map(_names_version, where.values()))
    return isinstance(where, list) and any(map(_names_version, where))


def _client_of(operation: Document) -> str:
    """Return the application name of the client of an operation."""
    name = _map(_map(operation, "clientMetadata"), "driver").get("name")
    unnamed = f"a client without a name ({name})" if name else "a client without a name"
    return str(operation.get("appName") or unnamed)


def _map(value: Any, name: str) -> Document:
    """Return the map in a field of a map; {} if either is not a map."""
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}
