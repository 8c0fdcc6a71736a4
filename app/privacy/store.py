"""Erases a person in MongoDB.

An erasure changes several documents (app/storage/unfinished.py). Its record is the document that
decides, and the mark: it contains the ids of everything that belongs to the person. Each step finds
by itself what remains to be done. So an erasure may be killed at any point, repeated, and carried
out by several workers at once. Concurrent and later writes check the record
(app/storage/erasure_records.py). Records are kept, and are part of every backup and export: with
them, db check finds erased people whose data has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple

from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from app.approvals.store import APPROVALS
from app.auth.permissions import RIGHTS
from app.batches.collections import BATCH_ROWS, BATCHES
from app.changes import Intent, Origin, SubjectKind
from app.errors import Busy, NotFound
from app.game.actions.store import ACTIONS
from app.guilds.store import GUILDS, guilds_of, remove_members
from app.items.domain import BAG_SUBJECT
from app.items.store import Bags
from app.oauth.store import REFRESH_TOKENS
from app.objects import domain as objects
from app.players import domain as players
from app.players.deletion.store import Deletions
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    CLOSED_FIELDS,
    DUE,
    ERASE,
    ERASED_AT,
    SCHEDULE,
    ErasureUnderWay,
    anonymous,
    close,
    digest_of,
    is_caller,
    schedule,
    without_approver,
    without_author,
)
from app.privacy.mentions.store import Mentions
from app.storage.client import Storage
from app.storage.decisions import fresh_stamp
from app.storage.erasure_records import WITH_DIGESTS, ErasureRecords
from app.storage.journal import HISTORY
from app.storage.limits import BUDGETS, OF_ACCOUNTS, QUOTAS
from app.storage.mentions import find_names
from app.storage.update_from_difference import as_read
from app.types import Document
from app.users import domain as users
from app.users.store import USERS

UNFINISHED: Document = {"FinishedAt": None}
BATCH = 200
# How long one request works on an erasure: enough for most, and well below the request timeout.
REQUEST_SECONDS = 4.0
# The maximum number of passes over data that others may have added meanwhile.
MOST_PASSES = 10
CHORE_SECONDS = 5.0
DAY = timedelta(days=1)
# The fields of a record for finding names in texts.
FINDING_NAMES = ("NameShapes", "NameDigests", "NamesUntil")
# The fields of an account that identify a person.
NAMED_BY = ["Name", "FormerNames", "Email", "FormerEmails"]


class Trace(NamedTuple):
    """Remaining data of an erased person: the collection, the id, and the names in the document."""

    collection: str
    id: str
    user_id: str
    names: tuple[str, ...] = ()


class Erasures(ErasureRecords):
    """The erasures of one application: their records, and their execution."""

    def __init__(
        self,
        storage: Storage,
        deletions: Deletions,
        settling_seconds: float,
        delay_days: int = 0,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        # A primary that is cut off has stale data, and its writes are rolled back.
        self._db = storage.db.with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
        )
        super().__init__(self._db)
        self.request_seconds = request_seconds
        self._storage = storage
        self._journals, self._clock = storage.journals, storage.clock
        self._deletions = deletions
        self._bags = Bags(storage)
        self._mentions = Mentions(self._db)
        self._users = self._db[USERS.name]
        self._deleted = self._db[DELETED_PLAYERS.name]
        # For this long, workers may still have the person cached as a caller, and write the name.
        self._settling = timedelta(seconds=settling_seconds)
        self.delay = timedelta(days=delay_days)

    def find(self, user_id: str | None, name: str | None) -> Document | None:
        """Return the erasure of an account by id, or by name until a day after it finished."""
        if user_id is not None:
            return self._erasures.find_one({"_id": user_id})
        return self._erasures.find_one({"NameDigest": digest_of(name or "")})

    def online_characters(self, user_id: str, since: datetime | None) -> list[str]:
        """Return the names of a person's online characters."""
        found = self._players.find({"UserId": user_id}, ["Name", "Online", "LastSeen"])
        return [str(player.get("Name")) for player in found if players.is_online(player, since)]

    def schedule(self, user_id: str, intent: Intent) -> Document:
        """Let a person be erased after the delay; return what a record would contain."""
        at = (self._clock.now() + self.delay).replace(microsecond=0)
        approver = (intent.origin.approved_by or {}).get("UserId")
        rule = partial(schedule, at=at, by=intent.origin.user_id, approved_by=approver)
        meant = intent._replace(operation=SCHEDULE)
        swapper = self._storage.swapper(users.SUBJECT)
        applied = swapper.swap({"_id": user_id}, (DUE, *RIGHTS), rule, meant)
        return {"_id": user_id, "DueAt": applied.answer, "BegunAt": None}

    def due(self) -> list[str]:
        """Return the ids of accounts whose erasure has waited long enough."""
        where = {f"{DUE}.At": {"$lte": self._clock.now()}, ERASED_AT: {"$exists": False}}
        return [user["_id"] for user in self._users.find(where, ["_id"])]

    def begin_due(self, user_id: str, online_since: Callable[[], datetime | None]) -> None:
        """Begin an erasure that has waited, unless it is withdrawn or the person is online.

        The claim and a withdrawal change the same field, so one of them finds it changed.
        """
        due = (self._users.find_one({"_id": user_id}, [DUE]) or {}).get(DUE)
        if due is None or due["At"] > self._clock.now():
            return
        if self.online_characters(user_id, online_since()):
            return
        rights = {name: as_read(due["Rights"], name) for name in RIGHTS}
        same = {"_id": user_id, f"{DUE}.At": due["At"], **rights}
        claim = {"$set": {f"{DUE}.IsBegun": True, "Stamp": fresh_stamp()}}
        if self._users.update_one(same, claim).matched_count:
            author, approver = (self._named(due.get(name)) for name in ("By", "ApprovedBy"))
            origin = Origin(author["UserId"], author["Name"], "service")
            if approver["UserId"]:
                origin = origin._replace(approved_by=approver)
            self.begin(user_id, Intent(ERASE, origin))
            self.continue_erasure(user_id)

    def _named(self, user_id: str | None) -> Document:
        """Return an account's id, and its name if it still exists."""
        found = self._users.find_one({"_id": user_id}, ["Name"]) or {}
        return {"UserId": user_id, "Name": str(found.get("Name") or "")}

    def begin(self, user_id: str, intent: Intent) -> None:
        """Record that a person is being erased, and close the account."""
        user = self._users.find_one({"_id": user_id}, ["Name", "Power", "Keys"])
        if user is None:
            raise NotFound("user", user_id)
        now = self._clock.now()
        fresh: Document = {"BegunAt": now, "By": intent.origin.user_id, "Players": [], "Bags": []}
        # A person who returned with a restored backup is erased again.
        again: Document = {
            "FinishedAt": None,
            "NameDigest": digest_of(str(user.get("Name"))),
            "Stamp": fresh_stamp(),
        }
        if is_caller(user):
            # Set before the account is closed: a worker that continues after a crash needs it.
            again["SettledAt"] = now + self._settling
        anew = {"$setOnInsert": fresh, "$set": again, "$unset": {"NamesUntil": ""}}
        self._erasures.update_one({"_id": user_id}, anew, upsert=True)
        applied = self._storage.swapper(users.SUBJECT).swap(
            {"_id": user_id}, (*CLOSED_FIELDS, ERASED_AT), partial(close, now=now), intent
        )
        self._add(user_id, Keys=applied.answer["Keys"])

    def finish(
        self,
        user_id: str,
        deadline: float | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Document:
        """Carry out the rest of an erasure; raise ErasureUnderWay at the deadline."""
        take = partial(_take, deadline=deadline, advance=advance)
        for _ in range(MOST_PASSES):
            record = self._record(user_id)
            if record.get("FinishedAt"):
                return record
            take(self._mask_mentions(user_id))
            if take(self._erase(user_id)):
                continue  # the next pass finds what others have added meanwhile
            if (left := self._seconds_to_settle(record)) > 0:
                raise ErasureUnderWay(retry_after=int(left) + 1)
            if self._note_finished(record):
                return self._record(user_id)
            now = self._record(user_id)
            if now.get("Stamp") == record.get("Stamp"):
                # Others keep writing the name. Each such text is masked as soon as it is stored.
                return {**now, "FinishedAt": self._clock.now()}
        # Others add data faster than this deletes it.
        raise ErasureUnderWay

    def _seconds_to_settle(self, record: Document) -> float:
        settled = record.get("SettledAt")
        return (settled - self._clock.now()).total_seconds() if settled else 0.0

    def _note_finished(self, record: Document) -> bool:
        """Mark an erasure as finished, unless it was reopened meanwhile."""
        # $min keeps the first time: texts that name the person again must not extend it.
        until = {"$min": {"NamesUntil": self._clock.now() + DAY}}
        self._erasures.update_one({"_id": record["_id"]}, until)
        entries = self._db[HISTORY.name].count_documents({"Subject.Id": {"$in": _ids(record)}})
        done = {"FinishedAt": self._clock.now(), "Counts.Entries": entries}
        unchanged = {name: as_read(record, name) for name in ("_id", "Stamp", "Mentioned")}
        update = {"$set": done, "$unset": {"Texts": ""}}
        return bool(self._erasures.update_one(unchanged, update).matched_count)

    def erase_again(self, traces: Iterable[Trace], intent: Intent) -> set[str]:
        """Erase people whose data has returned; return the ids of those that are not finished."""
        names: dict[str, list[str]] = {}
        for trace in traces:
            names.setdefault(trace.user_id, []).extend(trace.names)
        unfinished = set()
        for user_id in names:
            try:
                with suppress(NotFound):
                    self.begin(user_id, intent)
                self.reopen(user_id, *names[user_id])
                self.finish(user_id)
            except ErasureUnderWay:
                unfinished.add(user_id)
        return unfinished

    def continue_erasure(self, user_id: str) -> None:
        """Continue for a moment an erasure that another worker has not finished."""
        self.finish(user_id, monotonic() + CHORE_SECONDS)

    def forget_names(self) -> None:
        """Drop the digests for finding an erasure by name, and names in texts, after a day."""
        now = self._clock.now()
        former = {"NameDigest": {"$exists": True}, "FinishedAt": {"$lt": now - DAY}}
        self._erasures.update_many(former, {"$unset": {"NameDigest": "", "SettledAt": ""}})
        recent = {**WITH_DIGESTS, "NamesUntil": {"$lt": now}}
        self._erasures.update_many(recent, {"$unset": dict.fromkeys(FINDING_NAMES, "")})

    def unfinished(self) -> list[str]:
        """Return the ids of accounts whose erasure is not finished."""
        return [record["_id"] for record in self._erasures.find(UNFINISHED, ["_id"])]

    def find_returned(self) -> Iterator[Trace]:
        """Yield data of erased people that has returned, and texts that name them again."""
        for record in self._erasures.find({"FinishedAt": {"$ne": None}}, sort=[("_id", 1)]):
            for name, where in _traces(record["_id"]):
                for found in self._db[name].find(where, ["_id"]):
                    yield Trace(name, str(found["_id"]), record["_id"])
            for guild in guilds_of(self._db, list(self.owners(record["Players"]))):
                yield Trace(GUILDS.name, guild["Id"], record["_id"])
            for id_ in self._mentions.batches.erased_among([record["_id"], *record["Players"]]):
                yield Trace(BATCH_ROWS.name, id_, record["_id"])
        # History is not searched: entries are checked before they leave their Journals.
        recent = self.recent_records()
        for traces in self._mentions.traces if recent else ():
            for name, id_, texts in traces.texts():
                for user_id, names in find_names(texts, recent).items():
                    yield Trace(name, id_, user_id, tuple(names))

    def _record(self, user_id: str) -> Document:
        record = self._erasures.find_one({"_id": user_id})
        if record is None:
            raise NotFound("erasure", user_id)
        return record

    def _add(self, user_id: str, **counts: int) -> None:
        more = {f"Counts.{name}": count for name, count in counts.items() if count}
        if more:
            self._erasures.update_one({"_id": user_id}, {"$inc": more})

    def _mask_mentions(self, user_id: str) -> Iterator[int]:
        """Mask the names and the address of a person in texts of other people.

        Once is enough: later writes of such a text are checked against the record.
        """
        # Store the names first: later passes need them after the account is deleted.
        if user := self._users.find_one({"_id": user_id}, NAMED_BY):
            self._move_entries()
            self.add_names(user_id, self._mentions.texts_naming(user))
        return self._mentions.mask(user_id, set(self._record(user_id).get("Texts", ())))

    def _erase(self, user_id: str) -> Iterator[int]:
        """Erase a person; yield the number of changes of each step.

        The account is deleted after everything that is found through it. History comes last, when
        all entries have moved there.
        """
        yield self._erase_sign_ins(user_id)
        yield self._note_belongings(user_id)
        ids = _ids(self._record(user_id))
        yield remove_members(self._db, ids)
        yield from self._mentions.actions.erase(ids, user_id)
        yield from self._mentions.batches.erase(ids, user_id)
        yield from self._mentions.approvals.erase(ids, user_id)
        yield self._mentions.events.erase(ids)
        # Inner bags first: after a crash, they are still found through the outer ones.
        for bag in reversed(self._bags.carried_by(self._characters(user_id))):
            yield self._delete(BAG_SUBJECT, bag["_id"])
        yield self._bury_characters(user_id)
        for player in list(self._players.find({"UserId": user_id}, ["_id"])):
            # A character that is being restored no longer has the copy that it was restored from.
            self._deletions.finish_restoration(player["_id"])
            yield self._delete(players.SUBJECT, player["_id"])
        yield self._delete(users.SUBJECT, user_id)
        yield from self._strip_history(user_id)

    def _erase_sign_ins(self, user_id: str) -> int:
        tokens = self._db[REFRESH_TOKENS.name].delete_many({"UserId": user_id}).deleted_count
        self._add(user_id, Tokens=tokens)
        self._db[BUDGETS.name].delete_many({"_id": {"$regex": f"^{user_id} "}})
        counts = [f"{kind} {user_id}" for kind in OF_ACCOUNTS]
        self._db[QUOTAS.name].delete_many({"_id": {"$in": counts}})
        return tokens

    def _note_belongings(self, user_id: str) -> int:
        """Record the ids of characters and bags before any of them is deleted."""
        characters = self._characters(user_id)
        ids = sorted(player["_id"] for player in characters)
        bags = sorted(bag["_id"] for bag in self._bags.carried_by(characters))
        if ids or bags:
            more = {"Players": {"$each": ids}, "Bags": {"$each": bags}}
            self._erasures.update_one({"_id": user_id}, {"$addToSet": more})
            # Rows of batches and reasons may refer to a character by its id.
            self.add_names(user_id, ids)
        return len(ids) + len(bags)

    def _characters(self, user_id: str) -> list[Document]:
        """Return the characters of a person, including deleted ones."""
        own = {"UserId": user_id}
        kept = [kept["Player"] for kept in self._deleted.find(own, ["Player"])]
        return [*self._players.find(own, ["Inventory", "Bank"]), *kept]

    def _bury_characters(self, user_id: str) -> int:
        """Replace copies of characters by tombstones: inserting a copy later then fails.

        So none of the characters can be kept or restored.
        """
        ids = self._record(user_id)["Players"]
        buried = self._deleted.find({"_id": {"$in": ids}, "ErasedUserId": user_id}, ["_id"])
        left = set(ids) - {tombstone["_id"] for tombstone in buried}
        return sum(self._bury(id_, user_id) for id_ in sorted(left))

    def _bury(self, player_id: str, user_id: str) -> bool:
        nobodys = dict.fromkeys(("NameKey", "UserId", "Player"))
        stamp = {"DeletedAt": self._clock.now(), "Stamp": fresh_stamp(), "ErasedUserId": user_id}
        own = {"_id": player_id, "UserId": {"$in": [user_id, None]}}
        try:
            self._deleted.replace_one(own, {**nobodys, **stamp}, upsert=True)
        except DuplicateKeyError:
            # In a restored backup, the character belongs to another account.
            return False
        return True

    def _delete(self, kind: SubjectKind, id_: str) -> int:
        """Delete a document after its entries have moved to history."""
        collection = self._db[kind.collection]
        for _ in range(MOST_PASSES):
            self._journals.move(kind, [id_])
            if collection.delete_one({"_id": id_, "Journal.0": {"$exists": False}}).deleted_count:
                return 1
            if collection.find_one({"_id": id_}, ["_id"]) is None:
                return 0
        raise Busy(kind.name)

    def _strip_history(self, user_id: str) -> Iterator[int]:
        """Remove names and texts from the entries about and by a person."""
        ids = _ids(self._record(user_id))
        self._move_entries()
        for some in range(0, len(ids), BATCH):
            about = {"Subject.Id": {"$in": ids[some : some + BATCH]}, "IsErased": {"$ne": True}}
            yield from self._mentions.rewrite_history(about, anonymous, "subject")
        by = {"Authors": user_id, "By.Name": {"$ne": None}}
        yield from self._mentions.rewrite_history(by, without_author, "author")
        approved = {"ApprovedBy.UserId": user_id, "ApprovedBy.Name": {"$ne": None}}
        yield from self._mentions.rewrite_history(approved, without_approver, "approver")

    def _move_entries(self) -> None:
        """Move all entries that are still in Journals to history, where names are removed."""
        self._journals.move_noted()
        for kind in (players.SUBJECT, users.SUBJECT, BAG_SUBJECT, objects.SUBJECT):
            self._journals.move_all(kind, self._clock.now())


def _take(steps: Iterable[int], deadline: float | None, advance: Callable[[int], None]) -> int:
    """Run steps until the deadline; return the number of changes."""
    changed = 0
    for count in steps:
        changed += count
        advance(count)
        if deadline is not None and monotonic() > deadline:
            raise ErasureUnderWay
    return changed


def _ids(record: Document) -> list[str]:
    """Return the ids of an account and of everything that belonged to it."""
    return [record["_id"], *record["Players"], *record["Bags"]]


def _traces(user_id: str) -> list[tuple[str, Document]]:
    """Return the collections and filters that would find an erased person or their data.

    Ids of characters and bags are not used: in a restored backup, they may belong to another
    account.
    """
    own = {"UserId": user_id}
    by = {"By.UserId": user_id, "By.Name": {"$ne": None}}
    return [
        (USERS.name, {"_id": user_id}),
        (PLAYERS.name, own),
        (DELETED_PLAYERS.name, own),
        (REFRESH_TOKENS.name, own),
        (ACTIONS.name, by),
        (BATCHES.name, by),
        (APPROVALS.name, by),
        (HISTORY.name, {"Authors": user_id, "By.Name": {"$ne": None}}),
    ]
