"""Erases people in MongoDB: fence, wait, sweep.

One transaction stores the record of the erasure and closes the account. No transaction that begins
later stores anything about the person (app/storage/fence.py). When those that began before have
ended, the sweep deletes and masks what there is (app/privacy/traces.py), in transactions of at most
200 documents. Each step searches for what is left, so the sweep may be killed at any point,
repeated, and carried out by several workers at once. Records are kept, and are part of every backup
and export: with them, db check finds erased people whose data has returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from pymongo import UpdateOne
from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference

from app.core import metrics
from app.core.changes import ABSENT, Applied, Intent
from app.core.errors import NotFound, Unavailable
from app.core.limits import Limiter
from app.core.request_scope import renew_time_limit, working
from app.core.types import Document
from app.players import domain as players
from app.players.items.store import BAGS, Bags
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    CLOSED_FIELDS,
    ERASE,
    ERASED_AT,
    ErasureUnderWay,
    close,
    texts_naming,
)
from app.privacy.traces import RETURNED, TRACES, Person, Trace
from app.storage.bulk import batches
from app.storage.changes import Changes
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people
from app.storage.history import HISTORY
from app.users import domain as users
from app.users.store import USERS

# The maximum number of documents in one transaction.
PORTION = 200
# How many documents are searched for names between two looks at the clock.
SEARCHED_AT_ONCE = 1000
# How long one request works on an erasure: where the lifetime of transactions is 3 seconds, this
# is enough for most.
REQUEST_SECONDS = 10.0
CHORE_SECONDS = 5.0
# How long transactions may still run: in lifetimes, and in seconds beside them. MongoDB looks for
# old ones twice in a lifetime, but at most once a second.
LIFETIMES, ROUNDING_SECONDS = 1.5, 1.0
# MongoDB's default, if the lifetime cannot be read.
UNKNOWN_LIFETIME = 60.0
NAMED_BY = ("Name", "FormerNames", "Email", "FormerEmails")
# What a record needs only until the erasure has finished.
UNTIL_THE_END = ("Texts", "Step", "SettledAt", "Lifetime")


class Returned(NamedTuple):
    """A document with data of an erased person."""

    collection: str
    id: str
    user_id: str


class Erasures:
    """The erasures of one application: their records, and their execution."""

    def __init__(
        self, storage: Storage, waiters: int = 1, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._db = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._erasures = self._db[ERASURES.name]
        self._users = self._db[USERS.name]
        self._players = self._db[PLAYERS.name]
        self._deleted = self._db[DELETED_PLAYERS.name]
        self._history = self._db[HISTORY.name]
        self._changes = Changes(storage, users.SUBJECT)
        self._bags = Bags(storage)
        self._entries = storage.entries
        self._clock = storage.clock
        self._lifetime = storage.lifetime
        self._transactions = storage.transactions
        self._waiters = Limiter("Too many people are being erased", waiters)
        self.request_seconds = request_seconds

    def find(self, user_id: str | None) -> Document | None:
        return self._erasures.find_one({"_id": user_id})

    def find_earlier(self, intent: Intent) -> Document | None:
        """Return the erasure that the same request has begun before."""
        for entry in self._entries.with_keys([intent.key] if intent.key else []):
            if entry["Operation"] == ERASE:
                return self.find(entry["Subject"]["Id"])
        return None

    def online_characters(self, user_id: str, since: datetime | None) -> list[str]:
        """Return the names of a person's online characters."""
        found = self._players.find({"UserId": user_id}, ["Name", "Online", "LastSeen"])
        return [str(player.get("Name")) for player in found if players.is_online(player, since)]

    def begin(self, user_id: str, intent: Intent) -> Applied:
        """Store the record of an erasure, and close the account, unless that is done."""
        return self._transactions.run(partial(self._begin, user_id, intent), "user")

    def _begin(self, user_id: str, intent: Intent) -> Applied:
        former = self.find(user_id) or {}
        if former and not former.get("FinishedAt"):
            return Applied(None)
        now, lifetime = self._clock.now(), self._seconds()
        found = self._belongings(user_id)
        record: Document = {
            **{"_id": user_id, "BegunAt": now, "By": intent.origin.user_id, **former},
            **{name: sorted({*former.get(name, ()), *found[name]}) for name in found},
            **{"FinishedAt": None, "Step": 0, "Lifetime": lifetime},
            "SettledAt": now + timedelta(seconds=_longest(lifetime)),
        }
        applied = Applied(None)
        if self._users.find_one({"_id": user_id}, ["_id"]):
            user = self._changes.read({"_id": user_id}, (*CLOSED_FIELDS, ERASED_AT))
            decision = self._changes.decide(user, partial(close, now=now), intent)
            applied = self._changes.write(decision, is_erasure=True)
            counts = record.get("Counts", {})
            keys = counts.get("Keys", 0) + applied.answer["Keys"]
            record["Counts"] = {**counts, "Keys": keys}
        for collection in (self._players, self._deleted):
            collection.update_many({"UserId": user_id}, {"$set": {ERASED_AT: now}})
        self._erasures.replace_one({"_id": user_id}, record, upsert=True)
        return applied

    def _seconds(self) -> float:
        seconds = self._lifetime.seconds()
        return UNKNOWN_LIFETIME if seconds is None else seconds

    def _belongings(self, user_id: str) -> dict[str, Iterable[str]]:
        """Return the ids of what belongs to a person, and the texts that identify them."""
        user = self._users.find_one({"_id": user_id}, [*NAMED_BY]) or {}
        characters = self._characters(user_id)
        ids = [character["_id"] for character in characters]
        renamed = {"Subject.Id": {"$in": ids}, "Operation": "rename"}
        entries = self._history.find(renamed, ["Changes"]).hint("subject")
        former = [change["Before"] for entry in entries for change in entry["Changes"]]
        return {
            "Players": ids,
            "Bags": [bag["_id"] for bag in self._bags.carried_by(characters)],
            # Rows of batches and reasons may refer to a character by its id.
            "Texts": texts_naming(user, characters, [*former, *ids]),
        }

    def _characters(self, user_id: str) -> Sequence[Document]:
        """Return the characters of a person, including deleted ones."""
        own, fields = {"UserId": user_id}, ["Name", "FormerNames", "Inventory", "Bank"]
        copies = {**own, "Player._id": {"$type": "string"}}
        kept = self._deleted.find(copies, ["Player._id", *(f"Player.{name}" for name in fields)])
        return [*self._players.find(own, fields), *(copy["Player"] for copy in kept)]

    def finish(
        self,
        user_id: str,
        deadline: float | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Document:
        """Carry out the rest of an erasure; raise ErasureUnderWay at the deadline."""
        while True:
            # In a transaction: so what the step reads next is not older than this.
            record = self._transactions.run(partial(self._record, user_id))
            if record.get("FinishedAt"):
                return record
            if (left := self._seconds_to_settle(record)) > 0:
                self._wait(left, deadline)
                continue
            try:
                for count in self._sweep(record):
                    advance(count)
                    if deadline is not None and time.monotonic() > deadline:
                        raise ErasureUnderWay
            except PyMongoError as error:
                # One step may read much more than a request has time for.
                if deadline is None or not error.timeout:
                    raise
                raise ErasureUnderWay from error
            self._advance(record)

    def _record(self, user_id: str) -> Document:
        record = self.find(user_id)
        if record is None:
            raise NotFound("erasure", user_id)
        return record

    def _seconds_to_settle(self, record: Document) -> float:
        """Return for how long transactions may still run that began before the record."""
        if record.get("Step") or "SettledAt" not in record:
            return 0.0
        left: float = (record["SettledAt"] - self._clock.now()).total_seconds()
        if left <= 0:
            # The lifetime may have been changed since, or another server has become the primary.
            left += max(0.0, _longest(self._seconds()) - _longest(record["Lifetime"]))
        return left

    def _wait(self, seconds: float, deadline: float | None) -> None:
        under_way = ErasureUnderWay(retry_after=int(seconds) + 1)
        if deadline is not None and time.monotonic() + seconds > deadline:
            raise under_way
        try:
            with working(self._waiters):
                time.sleep(seconds)
            renew_time_limit()
        except Unavailable:
            raise under_way from None

    def _sweep(self, record: Document) -> Iterator[int]:
        """Take the step of a sweep that is next; yield numbers of changed documents."""
        step, user_id = record.get("Step", 0), record["_id"]
        if step == 0:
            yield self._transactions.run(partial(self._note_belongings, user_id))
            yield from self._portions(partial(self._delete_bags, user_id))
            return
        trace, person = TRACES[step - 1], self._person(record)
        if trace.rule is None:
            yield from self._portions(partial(self._delete, trace, person))
            return
        for ids in batches(self._changing(trace, person), PORTION):
            yield self._transactions.run(partial(self._rewrite, trace, person, ids))

    def _portions(self, step: Callable[[], int]) -> Iterator[int]:
        while count := self._transactions.run(step):
            yield count

    def _note_belongings(self, user_id: str) -> int:
        """Record what a transaction stored that began before the record."""
        found = self._belongings(user_id)
        more = {name: {"$each": sorted(values)} for name, values in found.items()}
        self._erasures.update_one({"_id": user_id}, {"$addToSet": more})
        return 0

    def _delete_bags(self, user_id: str) -> int:
        """Delete inner bags before outer ones, through which they are found."""
        found = self._bags.carried_by(self._characters(user_id))
        ids = [bag["_id"] for bag in found[-PORTION:]]
        return self._db[BAGS.name].delete_many({"_id": {"$in": ids}}).deleted_count if ids else 0

    def _person(self, record: Document) -> Person:
        own = erased_people(self._erasures, [record["_id"], *record["Players"]])
        return Person(record["_id"], [*own, *record["Bags"]], record.get("Texts", ()))

    def _delete(self, trace: Trace, person: Person) -> int:
        collection = self._db[trace.collection]
        ids = [
            found["_id"] for found in collection.find(trace.where(person), ["_id"]).limit(PORTION)
        ]
        if not ids:
            return 0
        count = collection.delete_many({"_id": {"$in": ids}}).deleted_count
        if trace.counted_as:
            more = {"$inc": {f"Counts.{trace.counted_as}": count}}
            self._erasures.update_one({"_id": person.id}, more)
        return count

    def _changing(self, trace: Trace, person: Person) -> Iterator[str]:
        """Yield the ids of documents that a trace changes."""
        # Between batches, a request's time limit is checked.
        found = self._db[trace.collection].find(trace.where(person), batch_size=SEARCHED_AT_ONCE)
        for document in found.hint(trace.hint) if trace.hint else found:
            if trace.rule and trace.rule(document, person):
                yield document["_id"]

    def _rewrite(self, trace: Trace, person: Person, ids: list[str]) -> int:
        collection, updates = self._db[trace.collection], []
        for document in collection.find({"_id": {"$in": ids}}):
            if trace.rule and (values := trace.rule(document, person)):
                updates.append(UpdateOne({"_id": document["_id"]}, _update_to(values)))
        if updates:
            collection.bulk_write(updates, ordered=False)
        return len(updates)

    def _advance(self, record: Document) -> None:
        """Go on to the next step, unless the erasure has begun again meanwhile."""
        step = record.get("Step", 0)
        update: Document = {"$set": {"Step": step + 1}}
        if step == len(TRACES):
            ids = self._person(record).ids
            entries = self._history.count_documents({"Subject.Id": {"$in": ids}})
            done = {"FinishedAt": self._clock.now(), "Counts.Entries": entries}
            update = {"$set": done, "$unset": dict.fromkeys(UNTIL_THE_END, "")}
        same = {name: record.get(name) for name in ("_id", "Step", "SettledAt")}
        self._erasures.update_one(same, update)

    def continue_all(self) -> None:
        """Continue, each for a moment, the erasures that no request is working on any more."""
        metrics.ERASURES.labels("unfinished").set(len(self.unfinished()))
        left = self._clock.now() - timedelta(seconds=self.request_seconds)
        for user_id in self.unfinished(SettledAt={"$not": {"$gt": left}}):
            with suppress(ErasureUnderWay):
                self.finish(user_id, time.monotonic() + CHORE_SECONDS)

    def unfinished(self, **where: Document) -> list[str]:
        """Return the ids of accounts whose erasure is not finished."""
        return [record["_id"] for record in self._erasures.find({"FinishedAt": None, **where})]

    def find_returned(self) -> Iterator[Returned]:
        """Yield data of erased people that has returned."""
        for record in self._erasures.find({"FinishedAt": {"$ne": None}}, sort=[("_id", 1)]):
            person = self._person(record)
            for trace in RETURNED:
                for found in self._db[trace.collection].find(trace.where(person), ["_id"]):
                    yield Returned(trace.collection, str(found["_id"]), person.id)

    def erase_again(self, returned: Iterable[Returned], intent: Intent) -> None:
        """Erase people whose data has returned."""
        ids = {found.user_id for found in returned}
        for user_id in ids:
            self.begin(user_id, intent)
        for user_id in ids:
            self.finish(user_id)


def _longest(lifetime: float) -> float:
    """Return for how many seconds a transaction may run, given their lifetime; 0 for mongomock."""
    return LIFETIMES * lifetime + ROUNDING_SECONDS if lifetime else 0.0


def _update_to(values: Document) -> Document:
    """Return the update to these values by path."""
    gone = {path: "" for path, value in values.items() if value is ABSENT}
    new = {path: value for path, value in values.items() if value is not ABSENT}
    update = {"$set": new, "$unset": gone}
    return {operator: fields for operator, fields in update.items() if fields}
