"""Changes documents by pure rules: each change is one transaction that also inserts its entry.

A reader of ``Changes.change`` sees all of it: look for the same request of before, read the
document, let the rule decide, write the difference, insert the entry. Changes of several documents
call the same steps inside a transaction of their own.

The write needs no condition: if anybody else, such as a game, has written the document since it was
read, MongoDB refuses the write, and the whole transaction runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import OperationFailure, WriteError

from app.core.changes import (
    ABSENT,
    Applied,
    Difference,
    Intent,
    Rule,
    SubjectKind,
    differences,
    new_entry,
    recorded_changes,
    time_of_change,
    within_size,
)
from app.core.errors import Damaged, NotFound, QuartermasterError, TooLarge, Unavailable
from app.core.naming import name_key
from app.core.types import Document, whole
from app.storage.client import Storage, by_key
from app.storage.commands import read_one
from app.storage.errors import is_forbidden
from app.storage.fence import require_not_erased
from app.storage.history import replay
from app.storage.schema.explain_validator import LARGEST_COUNT, readable
from app.storage.transactions import RunAgain

# PathNotViable and DocumentValidationFailure: what is stored does not allow the change.
NOT_APPLICABLE = (28, 121)
# BSONObjectTooLarge, before and after the update is applied.
TOO_LARGE_CODES = (10334, 17419)
# What every change reads, beside the fields of its rule.
ALWAYS_READ = ("Name", "UserId", "Version", "ChangedAt")

Result = TypeVar("Result")


class Decision(NamedTuple):
    """What a rule has decided for a document: the update, and the outcome with its entry."""

    document: Document
    update: Document
    outcome: Applied
    # An undo restores what was stored, even if it was missing or invalid.
    may_be_invalid: bool = False


class Wanted(NamedTuple):
    """The change of one document among many."""

    id: Any
    reads: tuple[str, ...]
    rule: Rule
    intent: Intent


class Verdict(NamedTuple):
    """That a change among many could be made: of which Version, and with which warning."""

    version: int | None
    warning: str | None


class Changes:
    """The documents of one kind, changed by rules. Their stores are subclasses."""

    def __init__(
        self,
        storage: Storage,
        kind: SubjectKind,
        taken: Mapping[str, Callable[[Document], Exception]] | None = None,
    ) -> None:
        """``taken`` has by unique field the error for a value that another document has."""
        self._kind = kind
        self._taken = taken or {}
        self._documents = storage.db[kind.collection]
        self._erasures = storage.db["erasures"]
        self._entries = storage.entries
        self._transactions = storage.transactions
        self._clock = storage.clock
        self._may_bypass = True

    def now(self) -> datetime:
        """Return the database's time."""
        return self._clock.now()

    def _where(self, key: Any) -> Document:
        """Return the filter for a key."""
        return by_key(key)

    def _with_checks(self, rule: Rule) -> Rule:
        """Return a rule with the checks that every change needs."""
        return rule

    def not_found(self, key: Any) -> NotFound:
        return NotFound(self._kind.name, key)

    def _read(self, key: Any, fields: Any) -> Document:
        """Return these fields of a document; a majority confirms a NotFound."""
        find = partial(read_one, self._documents, self._where(key), fields)
        found = self._transactions.find(find)
        if found is None:
            raise self.not_found(key)
        return self.readable(found, fields)

    def readable(self, document: Document, fields: Iterable[str]) -> Document:
        """Return a document as its validator describes it, however it was stored."""
        if self._kind.shape is None:
            return document
        read: Document = readable(self._kind.shape, document, fields)
        return read

    def change(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Applied:
        """Apply a rule to these fields of a document, once per Idempotency-Key."""

        def step() -> Applied:
            return self.write(self.decide(key, reads, rule, intent))

        return self.once(key, step, intent, f"{self._kind.name} {self._where(key)}")

    def once(
        self, key: Any, step: Callable[[], Applied], intent: Intent, turn: Hashable = None
    ) -> Applied:
        """Take a step as one transaction, or return the result of the same request from before."""
        return self.in_transaction(lambda: self.find_earlier(key, intent) or step(), intent, turn)

    def in_transaction(
        self, step: Callable[[], Result], intent: Intent, turn: Hashable = None
    ) -> Result:
        """Take a step that may change several documents, as one transaction."""
        return self._transactions.run(step, self._kind.name, intent.key is not None, turn)

    def find_earlier(self, key: Any, intent: Intent) -> Applied | None:
        """Return the result of the same request from before; None if it is new."""
        if intent.key is None:
            return None
        where = self._where(key)
        entries = self._entries.with_key(intent.key, self._kind.name, where.get("_id"))
        if entries and "_id" not in where:
            names = {e["_id"]: name_key(str(e["Subject"].get("Name"))) for e in entries}
            then = [e for e in entries if names[e["_id"]] == where["NameKey"]]
            # It may have another name since.
            now = self._documents.find_one(where, ["_id"]) or {}
            entries = then or [e for e in entries if e["Subject"]["Id"] == now.get("_id")]
        return replay(entries[0], intent) if entries else None

    def read_for_change(self, key: Any, reads: tuple[str, ...]) -> Document:
        """Return what a change reads of a document, or raise NotFound."""
        fields = projection_of(reads)
        document = read_one(self._documents, self._where(key), fields)
        if document is None:
            raise self.not_found(key)
        return self.readable(document, fields)

    def decide(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Decision:
        """Decide a change, in a transaction of the caller, who then writes it."""
        document = self.read_for_change(key, reads)
        self._entries.require_undoable(intent)
        return self.decide_on(document, self._with_checks(rule), intent)

    def decide_on(self, document: Document, rule: Rule, intent: Intent) -> Decision:
        """Apply a rule to a document as read; nothing is written yet."""
        change = rule(document)
        found = list(differences(document, change.fields))
        update = update_of(document, change.fields, found)
        self._require_free(document["_id"], update.get("$set", {}))
        has_entry = bool(update or intent.key) or change.is_noted or intent.is_preview
        if not has_entry:
            return Decision(document, {}, Applied(change.answer))
        set_fields = update.setdefault("$set", {})
        if not change.has_entry:
            version = set_fields["Version"] = next_version(document)
            return Decision(document, update, Applied(change.answer, version=version))
        changes = recorded_changes(self._kind, found)
        if change.is_large:
            changes = within_size(changes)
        if change.warning:
            intent = intent._replace(warning=change.warning)
        entry = self.new_entry(document, intent, changes, change.answer)
        set_fields.update(Version=entry["Version"], ChangedAt=entry["At"])
        written = {} if intent.is_preview else update
        is_undo = intent.undoes is not None
        return Decision(document, written, Applied(change.answer, entry=entry), is_undo)

    def new_entry(
        self, document: Document, intent: Intent, changes: Sequence[Document], answer: Any = None
    ) -> Document:
        """Return the entry of the change that makes the next version of a document."""
        entry = new_entry(self._kind, document, intent, [*changes], next_version(document))
        if not intent.is_preview:
            # Nobody else can have this id.
            entry["_id"] = str(ObjectId())
            entry["At"] = time_of_change(self.now(), document.get("ChangedAt"))
        if intent.key is not None:
            entry["Answer"] = answer
        return entry

    def _require_free(self, id_: Any, fields: Document) -> None:
        """Raise if another document has one of these values of a unique field.

        The index refuses what is stored at the same time, and then this runs again.
        """
        for name in self._taken.keys() & fields.keys():
            others = {name: fields[name], "_id": {"$ne": id_}}
            if self._documents.find_one(others, ["_id"]):
                raise self._taken[name](fields)

    def write(self, decision: Decision) -> Applied:
        """Write what was decided, and insert its entry."""
        document, update, outcome, may_be_invalid = decision
        if update:
            self._require_not_erased([decision])
            write = partial(self._documents.update_one, {"_id": document["_id"]}, update)
            self._store(write, may_be_invalid)
            if outcome.entry:
                self._entries.add(outcome.entry)
        return outcome

    def _require_not_erased(self, decisions: Sequence[Decision]) -> None:
        """Raise if the owner of a document, or the author of its change, is being erased."""
        owners: list[Any] = []
        for decision in decisions:
            new_owner = decision.update.get("$set", {}).get("UserId")
            owners += [_owner_of(decision.document), new_owner]
        require_not_erased(self._erasures, owners, *(d.outcome.entry for d in decisions))

    def _store(self, write: Callable[..., object], may_be_invalid: bool) -> None:
        """Write a document; an invalid one only if the database account may skip validation."""
        bypass = may_be_invalid and self._may_bypass
        try:
            write(bypass_document_validation=bypass)
        except WriteError as error:
            if error.code in TOO_LARGE_CODES:
                raise TooLarge(self._kind.name) from error
            if error.code in NOT_APPLICABLE:
                raise Damaged(self._kind.name) from error
            raise
        except OperationFailure as error:
            if not bypass or not is_forbidden(error):
                raise
            self._may_bypass = False
            raise RunAgain from error

    def insert(
        self,
        document: Document,
        intent: Intent,
        changes: Sequence[Document] = (),
        answer: Any = None,
        may_be_invalid: bool = False,
    ) -> Applied:
        """Insert a document and the entry about it."""

        def step() -> Applied:
            self._entries.require_undoable(intent)
            self._require_free(document["_id"], document)
            entry = self.new_entry(document, intent, within_size([*changes]), answer)
            owners, ids = [_owner_of(document)], [document["_id"]]
            require_not_erased(self._erasures, owners, entry, players=ids)
            if not intent.is_preview:
                stored = {**document, "Version": entry["Version"], "ChangedAt": entry["At"]}
                self._store(partial(self._documents.insert_one, stored), may_be_invalid)
                self._entries.add(entry)
            return Applied(answer, entry=entry)

        return self.in_transaction(step, intent)

    def delete(
        self, document: Document, intent: Intent, changes: Sequence[Document], answer: Any
    ) -> Applied:
        """Delete a document, and insert the entry about it; in a transaction of the caller."""
        entry = self.new_entry(document, intent, changes, answer)
        require_not_erased(self._erasures, [_owner_of(document)], entry)
        if not intent.is_preview:
            self._documents.delete_one({"_id": document["_id"]})
            self._entries.add(entry)
        return Applied(answer, entry=entry)

    def preview(self, key: Any, reads: tuple[str, ...], rule: Rule, intent: Intent) -> Document:
        """Return the entry that a change would have, without id and time, and change nothing."""
        return self.decide(key, reads, rule, intent).outcome.entry or {}

    def change_many(self, wanted: Sequence[Wanted]) -> list[Applied | QuartermasterError]:
        """Change different documents, each by its own rule, in a transaction of the caller.

        A refused change has its refusal as its outcome, and does not keep the others from being
        made. An error of the database concerns all of them.
        """
        written: list[Decision] = []

        def decide(one: Wanted, document: Document, rule: Rule) -> Applied:
            decision = self.decide_on(document, rule, one.intent)
            if decision.update:
                written.append(decision)
            return decision.outcome

        outcomes = self._for_each(wanted, self.read_many(wanted), decide)
        if written:
            self._require_not_erased(written)
            updates = [UpdateOne({"_id": d.document["_id"]}, d.update) for d in written]
            self._documents.bulk_write(updates, ordered=False)
            self._entries.add(*(d.outcome.entry for d in written if d.outcome.entry))
        return outcomes

    def judge_many(
        self, wanted: Sequence[Wanted], documents: dict[Any, Document]
    ) -> list[Verdict | Applied | QuartermasterError]:
        """Return the verdicts on changes that are made one after another, without making them.

        The documents, from read_many, are updated to the state that the changes would leave.
        """

        def judge(one: Wanted, document: Document, rule: Rule) -> Verdict:
            change, version = rule(document), version_of(document)
            after = {**document, **change.fields, "Version": (version or 0) + 1}
            documents[one.id] = {name: v for name, v in after.items() if v is not ABSENT}
            return Verdict(version, change.warning)

        return self._for_each(wanted, documents, judge)

    def _for_each(
        self,
        wanted: Sequence[Wanted],
        documents: Mapping[Any, Document],
        decide: Callable[[Wanted, Document, Rule], Result],
    ) -> list[Result | Applied | QuartermasterError]:
        """Return what is decided for each change, its result from before, or its refusal."""
        known = self._entries.with_keys(one.intent.key for one in wanted if one.intent.key)
        earlier = {(entry["Subject"]["Id"], entry["IdempotencyKey"]): entry for entry in known}
        undone = self._entries.undo_refusals(one.intent for one in wanted)
        found: list[Result | Applied | QuartermasterError] = []
        for one in wanted:
            try:
                if entry := earlier.get((one.id, one.intent.key)):
                    found.append(replay(entry, one.intent))
                    continue
                if one.id not in documents:
                    raise NotFound(self._kind.name, one.id)
                if one.intent.undoes and one.intent.undoes["_id"] in undone:
                    raise undone[one.intent.undoes["_id"]]
                found.append(decide(one, documents[one.id], self._with_checks(one.rule)))
            except Unavailable:
                raise
            except QuartermasterError as refusal:
                found.append(refusal)
        return found

    def read_many(self, wanted: Sequence[Wanted]) -> dict[Any, Document]:
        """Return by id what these changes read of their documents."""
        reads = tuple({path: None for one in wanted for path in one.reads})
        of_these = {"_id": {"$in": list({one.id: None for one in wanted})}}
        fields = projection_of(reads)
        found = self._documents.find(of_these, fields)
        return {document["_id"]: self.readable(document, fields) for document in found}


def _owner_of(document: Document) -> Any:
    """Return the account that a document belongs to; an account belongs to itself."""
    return document.get("UserId", document["_id"])


def projection_of(reads: tuple[str, ...]) -> Document:
    """Return the projection of what a change reads: whole fields, also of a path into a map."""
    return dict.fromkeys((*(path.partition(".")[0] for path in reads), *ALWAYS_READ), 1)


def update_of(old: Document, new: Mapping[str, Any], found: Sequence[Difference]) -> Document:
    """Return the update that makes these differences; {}: there are none.

    It sets single keys of a map if paths lead to them: a game's own map may have a key like a.b.
    """
    whole_fields = {
        field
        for field, key, _, _ in found
        if not key or "." in key or key.startswith("$") or not isinstance(old.get(field), dict)
    }
    update: Document = {}
    for field, key, _, after in found:
        path, value = (field, new[field]) if field in whole_fields else (f"{field}.{key}", after)
        if value is ABSENT:
            update.setdefault("$unset", {})[path] = ""
        else:
            update.setdefault("$set", {})[path] = value
    return update


def fresh_version() -> int:
    """Return a version for a document that is replaced as a whole: higher than all before."""
    return time.time_ns() // 1_000_000 * 64


def next_version(document: Document) -> int:
    version = version_of(document)
    return (fresh_version() if version is None else version) + 1


def version_of(document: Document) -> int | None:
    """Return the Version of a document: 0 if it is missing, None if it is not a usable number."""
    value = document.get("Version")
    count = 0 if value is None else whole(value)
    return count if count is not None and 0 <= count < LARGEST_COUNT else None
