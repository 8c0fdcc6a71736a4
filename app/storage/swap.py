"""The compare-and-swap by which every change to a stored document is made.

Read the document once, let a pure rule decide, and write with one atomic update (decisions.py). If
the filter of the update no longer matches, read and decide again. The entry of the change later
moves from the document's Journal to history (journal.py). If a request is repeated with the same
Idempotency-Key, it gets the first answer from there, as long as history is kept.

Answers are based on majority-committed data. A primary that is cut off by a network split still
accepts writes that will be rolled back. So a refusal is also confirmed by a majority write: a
no-op.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError, WriteError

from app import metrics
from app.changes import JOURNAL_LENGTH, Applied, Intent, Rule, SubjectKind, field_changes
from app.errors import (
    Busy,
    Damaged,
    NotFound,
    OutcomeUnknown,
    QuartermasterError,
    TooLarge,
)
from app.request_scope import wait_deadline
from app.storage.clock import Clock
from app.storage.committed import NO_CHANGE, majority_holds
from app.storage.decisions import (
    Decision,
    Decisions,
    add_empty_maps,
    find_earlier,
    parent_of,
    projection_of,
    replay,
    require_undoable,
)
from app.storage.errors import explain, is_forbidden
from app.storage.journal import Journals
from app.storage.turns import Turns
from app.types import Document

log = logging.getLogger("quartermaster")

# Less than the database timeout of a request, so that the last try is not cut short.
PATIENCE_SECONDS = 4.0
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
# How often a write may fail on a document that is unchanged since it was read. Two failures may be
# due to a full Journal that another process has emptied, and to a write since.
MOST_FAILURES = 2
# PathNotViable and DocumentValidationFailure: the document was changed since it was read.
NOT_APPLICABLE = (28, 121)
# BSONObjectTooLarge, before and after the update is applied.
TOO_LARGE_CODES = (10334, 17419)


class Swapper(Decisions):
    """Changes the documents of one collection."""

    def __init__(
        self,
        collection: Collection[Document],
        kind: SubjectKind,
        journals: Journals,
        clock: Clock,
    ) -> None:
        super().__init__(kind, clock)
        self._collection = collection
        self._journals = journals
        self._turns = Turns()

    def swap(
        self,
        where: Document,
        reads: tuple[str, ...],
        rule: Rule,
        intent: Intent,
        patience: float = PATIENCE_SECONDS,
    ) -> Applied:
        """Apply a rule to one document, exactly once per Idempotency-Key."""
        with self._turns.take(str(where), wait_deadline(patience) - time.monotonic()):
            return self._swap(where, reads, rule, intent, patience)

    def _swap(
        self,
        where: Document,
        reads: tuple[str, ...],
        rule: Rule,
        intent: Intent,
        patience: float,
    ) -> Applied:
        failed: list[Document] = []
        for pause in _pauses(patience):
            if document := self._read(where, reads, intent):
                decision = self.decide(document, rule, intent, self._journals.find_moved([intent]))
                if failed.count(decision.based_on) > MOST_FAILURES:
                    raise Damaged(self._kind.name)
                if self._try_to_write(decision, intent):
                    return self._outcome_of(decision.outcome)
                self._prepare_retry(document["_id"], reads, decision.based_on, failed)
                metrics.SWAP_RETRIES.labels(self._collection.name).inc()
                time.sleep(pause)
        raise Busy(self._kind.name)

    def _read(self, where: Document, reads: tuple[str, ...], intent: Intent) -> Document | None:
        """Read a document or raise NotFound; return None if a majority has one to be read again."""
        document = self._collection.find_one(where, projection_of(reads, intent))
        if document is not None:
            add_empty_maps(document, reads)
        elif not majority_holds(self._collection, where):
            raise NotFound(self._kind.name, next(iter(where.values())))
        return document

    def _prepare_retry(
        self, id_: Any, reads: tuple[str, ...], based_on: Document, failed: list[Document]
    ) -> None:
        """After a second failure on the same values, remove what may prevent the write."""
        if based_on in failed:
            if self._is_full(id_):
                # Uncommitted entries do not move yet: this is not a failure, only too early.
                self._journals.move(self._kind, [id_])
                return
            self._add_missing_parts(id_, reads)
        failed.append(based_on)

    def preview(
        self, where: Document, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Document:
        """Return the entry that a change would have, without id and time, and change nothing."""
        document = self._read(where, reads, intent)
        if document is None:
            raise Busy(self._kind.name)
        change = rule(document)
        changes = field_changes(self._kind, document, change.fields)
        return self.preview_entry(document, change.intent_with_warning(intent), changes)

    def find_earlier(self, where: Document, intent: Intent) -> Applied | None:
        """Return the earlier result of the same request, confirmed by a majority; None if new."""
        while document := self._collection.find_one(where, projection_of((), intent)):
            earlier = find_earlier(document, intent, self._journals.find_moved([intent]))
            if earlier is None:
                break
            # If the write matches nothing, the entry has just moved to history, or was rolled back.
            if self._try_to_write(earlier, intent):
                return self._outcome_of(earlier.outcome)
        return None

    def find_moved(self, id_: Any, intent: Intent) -> Applied | None:
        """Return the result of the same request, even if its document no longer exists."""
        entry = self._journals.find_moved([intent]).find_key(id_, intent.key)
        return self._outcome_of(replay({}, entry, intent).outcome) if entry else None

    def require_undoable(self, intent: Intent) -> None:
        """Raise if, according to history, the change to undo was already undone."""
        if intent.undoes is not None:
            require_undoable([], intent.undoes, self._journals.find_moved([intent]))

    def insert(
        self,
        document: Document,
        intent: Intent,
        changes: Sequence[Document] = (),
        is_checked: bool = True,
    ) -> Document:
        """Insert a document together with its entry, and return the entry.

        With is_checked=False, skip the validator if the database account may: a restored document
        may be older than its validator.
        """
        with_entry = self.with_entry(document, intent, list(changes))
        try:
            self._insert(with_entry, is_checked)
        except PyMongoError as error:
            if intent.key is None and explain(error):
                raise OutcomeUnknown from error
            raise
        self._count_entry(intent.operation, document["_id"])
        entry: Document = with_entry["Journal"][-1]
        return entry

    def _insert(self, document: Document, is_checked: bool) -> None:
        try:
            self._collection.insert_one(document, bypass_document_validation=not is_checked)
        except OperationFailure as error:
            if is_checked or not is_forbidden(error):
                raise
            self._collection.insert_one(document)

    def _count_entry(self, operation: str, id_: Any) -> None:
        metrics.HISTORY_ENTRIES.labels(operation).inc()
        self._journals.note(self._kind, id_)

    def _outcome_of(self, outcome: Applied | QuartermasterError) -> Applied:
        if isinstance(outcome, QuartermasterError):
            raise outcome
        if outcome.replayed:
            metrics.SWAP_REPLAYS.labels(self._collection.name).inc()
        elif outcome.entry:
            self._count_entry(outcome.entry["Operation"], outcome.entry["Subject"]["Id"])
        return outcome

    def _try_to_write(self, decision: Decision, intent: Intent) -> bool:
        try:
            return self._update(decision, is_undo=intent.undoes is not None)
        except WriteError as error:
            if error.code in TOO_LARGE_CODES:
                raise TooLarge(self._kind.name) from error
            if error.code not in NOT_APPLICABLE:
                raise
            log.warning("The stored data does not allow a change: %s", error)
            return False
        except PyMongoError as error:
            if intent.key is None and decision.update is not NO_CHANGE and explain(error):
                raise OutcomeUnknown from error
            raise

    def _update(self, decision: Decision, is_undo: bool) -> bool:
        """Update a document, and return whether it matched.

        An undo skips the validator if the database account may: it restores what was stored, and
        a field may have been missing or invalid.
        """
        update = partial(self._collection.update_one, decision.based_on, decision.update)
        try:
            return bool(update(bypass_document_validation=is_undo).matched_count)
        except OperationFailure as error:
            if not is_undo or not is_forbidden(error):
                raise
            return bool(update().matched_count)

    def _is_full(self, id_: Any) -> bool:
        """Return whether a Journal has no room for another entry."""
        last = {"_id": id_, f"Journal.{JOURNAL_LENGTH - 1}": {"$exists": True}}
        return self._collection.find_one(last, {"_id": 1}) is not None

    def _add_missing_parts(self, id_: Any, reads: tuple[str, ...]) -> None:
        """Add the missing parts of a document whose filter fails without a concurrent write.

        Older releases stored no Journal, and a game may have removed a map or set it to null. If
        this does not help, the document is damaged.
        """
        has_no_journal = {"_id": id_, "Journal": {"$not": {"$type": "array"}}}
        self._collection.update_one(has_no_journal, {"$set": {"Journal": []}})
        for parent in filter(None, map(parent_of, reads)):
            self._collection.update_one({"_id": id_, parent: None}, {"$set": {parent: {}}})


def _pauses(patience: float) -> Iterator[float]:
    """Yield the pauses of an exponential backoff with jitter, to spread concurrent writers."""
    deadline = wait_deadline(patience)
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0, pause)  # nosec B311 # noqa: S311 (nothing secret about a pause)
        if time.monotonic() >= deadline:
            return
        pause = min(pause * 2, LONGEST_PAUSE)
