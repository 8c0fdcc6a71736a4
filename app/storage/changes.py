"""Changes documents by pure rules: each change is one transaction that also inserts its entry.

A reader of ``Changes.change`` sees all of it: look for the same request of before, read the
document, let the rule decide, write the difference, insert the entry. Changes of several documents
call the same steps inside a transaction of their own.

The write needs no condition: if anybody else, such as a game, has written the document since it was
read, MongoDB refuses the write, and the whole transaction runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import OperationFailure, WriteError

from app.core import metrics
from app.core.changes import (
    ABSENT,
    Applied,
    Change,
    Intent,
    Rule,
    SubjectKind,
    changed_at,
    field_changes,
    new_entry,
    within_size,
)
from app.core.errors import Damaged, NotFound, QuartermasterError, TooLarge, Unavailable
from app.core.types import Document, whole
from app.storage.client import Storage
from app.storage.commands import read_one
from app.storage.errors import is_forbidden
from app.storage.fence import require_not_erased
from app.storage.history import replay
from app.storage.transactions import RunAgain, after_commit
from app.storage.update_from_difference import difference

# PathNotViable and DocumentValidationFailure: what is stored does not allow the change.
NOT_APPLICABLE = (28, 121)
# BSONObjectTooLarge, before and after the update is applied.
TOO_LARGE_CODES = (10334, 17419)
# A larger number cannot result from counting, and would soon overflow an int64.
LARGEST_COUNT = 2**62
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


class Outcome(NamedTuple):
    """The outcome of one change among many, and the Version of the document that was read."""

    outcome: Applied | QuartermasterError
    version: int | None = None
    # The warning of a change that was only judged; a change that was made has it in its entry.
    warning: str | None = None


class Changes:
    """Changes the documents of one kind."""

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

    def change(
        self, where: Document, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Applied:
        """Apply a rule to one document, once per Idempotency-Key."""
        step = partial(self._change, where, reads, rule, intent)
        return self.in_transaction(step, intent, turn=f"{self._kind.name} {where}")

    def in_transaction(
        self, step: Callable[[], Result], intent: Intent, turn: Hashable = None
    ) -> Result:
        """Take a step that may change several documents, as one transaction."""
        return self._transactions.run(step, self._kind.name, intent.key is not None, turn)

    def _change(
        self, where: Document, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Applied:
        if earlier := self.find_earlier(where, intent):
            return earlier
        return self.write(self.decide(self.read(where, reads), rule, intent))

    def find_earlier(self, where: Document, intent: Intent) -> Applied | None:
        """Return the result of the same request from before; None if it is new."""
        if intent.key is None:
            return None
        entry = self._entries.with_key(intent.key, self._kind.name, where)
        if entry is None and "_id" not in where:
            # It may have another name since.
            document = self._documents.find_one(where, ["_id"])
            entry = document and self._entries.with_key(intent.key, self._kind.name, document)
        if entry is None:
            return None
        after_commit(metrics.REPLAYS.labels(self._documents.name).inc)
        return replay(entry, intent)

    def read(self, where: Document, reads: tuple[str, ...]) -> Document:
        """Return what a change reads of a document, or raise NotFound."""
        document = read_one(self._documents, where, projection_of(reads))
        if document is None:
            raise NotFound(self._kind.name, next(iter(where.values())))
        return document

    def decide(self, document: Document, rule: Rule, intent: Intent) -> Decision:
        """Apply a rule to a document as read; nothing is written yet."""
        if intent.undoes is not None:
            self._entries.require_undoable([intent.undoes])
        return self._decision(document, rule(document), intent)

    def _decision(self, document: Document, change: Change, intent: Intent) -> Decision:
        update = difference(document, change.fields)
        self._require_free(document["_id"], update.get("$set", {}))
        if not update and intent.key is None and not change.is_noted:
            return Decision(document, {}, Applied(change.answer))
        version = next_version(document)
        if not change.has_entry:
            update.setdefault("$set", {})["Version"] = version
            return Decision(document, update, Applied(change.answer, version=version))
        at = changed_at(self._clock.now(), document.get("ChangedAt"))
        update.setdefault("$set", {}).update(Version=version, ChangedAt=at)
        changes = change.recorded
        if changes is None:
            changes = field_changes(self._kind, document, change.fields)
        if change.is_large:
            changes = within_size(changes)
        intent = change.intent_with_warning(intent)
        entry = new_entry(new_id(), at, self._kind, document, intent, changes, version)
        if intent.key is not None:
            entry["Answer"] = change.answer
        is_undo = intent.undoes is not None
        return Decision(document, update, Applied(change.answer, entry=entry), is_undo)

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
        if decision.update:
            self.require_not_erased([decision])
            self._update(decision)
            if decision.outcome.entry:
                self._entries.add(decision.outcome.entry)
        return decision.outcome

    def require_not_erased(self, decisions: Sequence[Decision]) -> None:
        """Raise if the owner of a document, or the author of its change, is being erased."""
        owners: list[Any] = []
        for decision in decisions:
            new_owner = decision.update.get("$set", {}).get("UserId")
            owners += [_owner_of(decision.document), new_owner]
        require_not_erased(self._erasures, owners, *(d.outcome.entry for d in decisions))

    def _update(self, decision: Decision) -> None:
        bypass = decision.may_be_invalid and self._may_bypass
        where = {"_id": decision.document["_id"]}
        try:
            self._documents.update_one(where, decision.update, bypass_document_validation=bypass)
        except WriteError as error:
            raise self.refusal_of(error) from error
        except OperationFailure as error:
            self._refuse_bypass(error, bypass)

    def _refuse_bypass(self, error: OperationFailure, bypass: bool) -> None:
        """Run again with validation if the database account may not skip it."""
        if not bypass or not is_forbidden(error):
            raise error
        self._may_bypass = False
        raise RunAgain from error

    def refusal_of(self, error: WriteError) -> Exception:
        """Return why the database does not accept a document."""
        if error.code in TOO_LARGE_CODES:
            return TooLarge(self._kind.name)
        return Damaged(self._kind.name) if error.code in NOT_APPLICABLE else error

    def insert(
        self,
        document: Document,
        intent: Intent,
        changes: Sequence[Document] = (),
        answer: Any = None,
        may_be_invalid: bool = False,
    ) -> Applied:
        """Insert a document and the entry about it."""
        step = partial(self._insert, document, intent, changes, answer, may_be_invalid)
        return self.in_transaction(step, intent)

    def _insert(
        self,
        document: Document,
        intent: Intent,
        changes: Sequence[Document],
        answer: Any,
        may_be_invalid: bool,
    ) -> Applied:
        if intent.undoes is not None:
            self._entries.require_undoable([intent.undoes])
        self._require_free(document["_id"], document)
        version, entry = self.versioned(document, intent, changes)
        if intent.key is not None:
            entry["Answer"] = answer
        stored = {**document, "Version": version, "ChangedAt": entry["At"]}
        owners, ids = [_owner_of(document)], [document["_id"]]
        require_not_erased(self._erasures, owners, entry, players=ids)
        bypass = may_be_invalid and self._may_bypass
        try:
            self._documents.insert_one(stored, bypass_document_validation=bypass)
        except WriteError as error:
            raise self.refusal_of(error) from error
        except OperationFailure as error:
            self._refuse_bypass(error, bypass)
        self._entries.add(entry)
        return Applied(answer, entry=entry)

    def delete(
        self, document: Document, intent: Intent, changes: Sequence[Document], answer: Any
    ) -> Applied:
        """Delete a document, and insert the entry about it; in a transaction of the caller."""
        _, entry = self.versioned(document, intent, changes)
        if intent.key is not None:
            entry["Answer"] = answer
        require_not_erased(self._erasures, [_owner_of(document)], entry)
        self._documents.delete_one({"_id": document["_id"]})
        self._entries.add(entry)
        return Applied(answer, entry=entry)

    def versioned(
        self, document: Document, intent: Intent, changes: Sequence[Document]
    ) -> tuple[int, Document]:
        """Return the next version of a document that is written as a whole, and its entry."""
        version = next_version(document)
        at = changed_at(self._clock.now(), document.get("ChangedAt"))
        recorded = within_size([*changes])
        entry = new_entry(new_id(), at, self._kind, document, intent, recorded, version)
        return version, entry

    def preview(
        self, where: Document, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Document:
        """Return the entry that a change would have, without id and time, and change nothing."""
        document = self.read(where, reads)
        change = rule(document)
        changes = field_changes(self._kind, document, change.fields)
        return self.preview_entry(document, change.intent_with_warning(intent), changes)

    def preview_entry(
        self, document: Document, intent: Intent, changes: list[Document]
    ) -> Document:
        """Return the entry that these changes would have, without id and time."""
        version = next_version(document)
        return new_entry(None, None, self._kind, document, intent, changes, version)

    def change_many(self, wanted: Sequence[Wanted]) -> list[Outcome]:
        """Change different documents, each by its own rule, in a transaction of the caller.

        A refused change has its refusal as its outcome, and does not keep the others from being
        made. An error of the database concerns all of them.
        """
        documents, earlier = self.read_many(wanted), self._find_earlier_many(wanted)
        outcomes: list[Outcome] = []
        decisions: list[Decision] = []
        for one in wanted:
            document = documents.get(one.id)
            outcome = self._outcome(one, document, earlier.get((one.id, one.intent.key)))
            if isinstance(outcome, Decision):
                decisions.append(outcome)
                outcome = outcome.outcome
            outcomes.append(Outcome(outcome, version_of(document) if document else None))
        written = [decision for decision in decisions if decision.update]
        if written:
            self.require_not_erased(written)
            updates = [UpdateOne({"_id": d.document["_id"]}, d.update) for d in written]
            self._documents.bulk_write(updates, ordered=False)
            self._entries.add(*(d.outcome.entry for d in written if d.outcome.entry))
        return outcomes

    def _outcome(
        self, wanted: Wanted, document: Document | None, earlier: Document | None
    ) -> Decision | Applied | QuartermasterError:
        try:
            if earlier:
                return replay(earlier, wanted.intent)
            if document is None:
                return NotFound(self._kind.name, wanted.id)
            return self.decide(document, wanted.rule, wanted.intent)
        except Unavailable:
            raise
        except QuartermasterError as refusal:
            return refusal

    def _find_earlier_many(
        self, wanted: Sequence[Wanted]
    ) -> dict[tuple[Any, str | None], Document]:
        """Return by document and key the entries of the same requests from before."""
        found = self._entries.with_keys(one.intent.key for one in wanted if one.intent.key)
        return {(entry["Subject"]["Id"], entry["IdempotencyKey"]): entry for entry in found}

    def read_many(self, wanted: Sequence[Wanted]) -> dict[Any, Document]:
        """Return by id what these changes read of their documents."""
        reads = tuple({path: None for one in wanted for path in one.reads})
        of_these = {"_id": {"$in": list({one.id: None for one in wanted})}}
        found = self._documents.find(of_these, projection_of(reads))
        return {document["_id"]: document for document in found}

    def judge_many(self, wanted: Sequence[Wanted], documents: dict[Any, Document]) -> list[Outcome]:
        """Return the outcomes that changes would have, one after another, without making them.

        The documents, from read_many, are updated to the state that the changes would leave.
        """
        earlier = self._find_earlier_many(wanted)
        return [
            self._judge(one, documents, earlier.get((one.id, one.intent.key))) for one in wanted
        ]

    def _judge(
        self, wanted: Wanted, documents: dict[Any, Document], earlier: Document | None
    ) -> Outcome:
        document = documents.get(wanted.id)
        if document is None:
            return Outcome(NotFound(self._kind.name, wanted.id))
        version = version_of(document)
        try:
            if earlier:
                replay(earlier, wanted.intent)
            elif wanted.intent.undoes is not None:
                self._entries.require_undoable([wanted.intent.undoes])
            change = wanted.rule(document)
        except Unavailable:
            raise
        except QuartermasterError as refusal:
            return Outcome(refusal, version)
        after = {**document, **change.fields, "Version": (version or 0) + 1}
        documents[wanted.id] = {name: v for name, v in after.items() if v is not ABSENT}
        return Outcome(Applied(change.answer), version, change.warning)


def _owner_of(document: Document) -> Any:
    """Return the account that a document belongs to; an account belongs to itself."""
    return document.get("UserId", document["_id"])


def projection_of(reads: tuple[str, ...]) -> Document:
    """Return the projection of what a change reads: whole fields, also of a path into a map."""
    return dict.fromkeys((*(path.partition(".")[0] for path in reads), *ALWAYS_READ), 1)


def new_id() -> str:
    """Return the id of an entry, which nobody else can have."""
    return str(ObjectId())


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
