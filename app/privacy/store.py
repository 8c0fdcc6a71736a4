"""Erasing a person in MongoDB.

An erasure is a change of several documents (app/storage/unfinished.py). Its record decides, and is
the mark: it holds the ids of all that belongs to the person. Each step finds by itself what is left
to do, so an erasure may be killed anywhere, repeated, and be carried out by several at once. What
others store meanwhile, or an hour later, meets the record (app/storage/erasure_records.py). The
records stay, and are part of every backup and export: by them db check finds who came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from app.batches.collections import BATCH_ROWS, BATCHES
from app.batches.store import BatchTraces
from app.changes import Intent, SubjectKind
from app.errors import Busy, NotFound
from app.game.actions.store import ACTIONS, ActionTraces
from app.items.domain import BAG_SUBJECT
from app.items.store import BAGS, Bags
from app.moderation.penalties import BAN, MUTE
from app.oauth.store import REFRESH_TOKENS
from app.objects import domain as objects
from app.players import domain as players
from app.players.deletion.store import Deletions
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    CLOSED_FIELDS,
    ERASED_AT,
    ErasureUnderWay,
    action_without,
    anonymous,
    batch_without,
    close,
    digest_of,
    is_caller,
    masked,
    notes_without,
    quoting_operations,
    texts_naming,
    without_author,
    without_mentions,
)
from app.storage.bulk import guarded_update, rewrite
from app.storage.client import Storage
from app.storage.erasure_records import ERASURES, LATELY, ErasureRecords
from app.storage.journal import HISTORY
from app.storage.limits.attempts import ATTEMPTS
from app.storage.limits.quotas import QUOTAS
from app.storage.limits.reset_mails import RESET_MAILS
from app.storage.mentions import named_in
from app.storage.search_fields import words
from app.storage.swap import fresh_stamp
from app.storage.update_from_difference import as_read, value_at
from app.types import Document
from app.users import domain as users
from app.users.store import USERS

UNFINISHED: Document = {"FinishedAt": None}
BATCH = 200
# How long one request works at it: longer than most take, and well within the time of a request.
REQUEST_SECONDS = 4.0
# Passes over what others may have added meanwhile.
MOST_PASSES = 10
CHORE_SECONDS = 5.0
DAY = timedelta(days=1)
# What a record holds by which names are found in texts.
FINDING_NAMES = ("NameShapes", "NameDigests", "NamesUntil")
# What an account is named by.
NAMED_BY = ["Name", "FormerNames", "Email", "FormerEmails"]
# How often notes are read again that others keep changing.
NOTE_ATTEMPTS = 5


class Trace(NamedTuple):
    """What is left of somebody who was erased: the collection and the id, and the names in it."""

    collection: str
    id: str
    user_id: str
    names: tuple[str, ...] = ()


class Erasures:
    """The erasures of one application."""

    def __init__(
        self,
        storage: Storage,
        deletions: Deletions,
        settling_seconds: float,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.request_seconds = request_seconds
        self._storage = storage
        # A primary that is cut off may miss what is left to do, or have done it in vain.
        self._db = storage.db.with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
        )
        self._erasures = self._db[ERASURES.name]
        self._records = ErasureRecords(storage.db)
        self.erased, self.meet, self.reopen = (
            self._records.erased,
            self._records.meet,
            self._records.reopen,
        )
        self._users = self._db[USERS.name]
        self._players = self._db[PLAYERS.name]
        self._deleted = self._db[DELETED_PLAYERS.name]
        self._deletions = deletions
        self._bags = self._db[BAGS.name]
        self._bag_store = Bags(storage)
        self._action_traces = ActionTraces(self._db)
        self._batch_traces = BatchTraces(self._db)
        self._history = self._db[HISTORY.name]
        self._journals = storage.journals
        self._clock = storage.clock
        # For so long, workers may still take the person for a caller, and write the name.
        self._settling = timedelta(seconds=settling_seconds)
        # The account goes after all that is found by it, and history last, when all is in it.
        self._steps = (
            self._erase_sign_ins,
            self._note_belongings,
            self._erase_actions,
            self._erase_batches,
            self._erase_bags,
            self._erase_players,
            self._erase_user,
            self._strip_history,
        )

    def find(self, user_id: str | None, name: str | None) -> Document | None:
        """Return the erasure of an account by id, or by name until a day after it is finished."""
        if user_id is not None:
            return self._erasures.find_one({"_id": user_id})
        return self._erasures.find_one({"NameDigest": digest_of(name or "")})

    def online_characters(self, user_id: str, since: datetime | None) -> list[str]:
        """Return the names of a person's characters that are online."""
        found = self._players.find({"UserId": user_id}, ["Name", "Online", "LastSeen"])
        return [str(player.get("Name")) for player in found if players.is_online(player, since)]

    def begin(self, user_id: str, intent: Intent) -> None:
        """Record that a person is being erased, and close the account."""
        user = self._users.find_one({"_id": user_id}, ["Name", "Power", "Keys"])
        if user is None:
            raise NotFound("user", user_id)
        now = self._clock.now()
        fresh: Document = {
            "BegunAt": now,
            "By": intent.origin.user_id,
            "Players": [],
            "Bags": [],
        }
        # Somebody who came back with a restored backup is erased anew.
        again: Document = {
            "FinishedAt": None,
            "NameDigest": digest_of(str(user.get("Name"))),
            "Stamp": fresh_stamp(),
        }
        if is_caller(user):
            # Before the account is closed: whoever goes on after a crash must know it.
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
        """Carry out what is left of an erasure; raise ErasureUnderWay when the time is over."""
        for _ in range(MOST_PASSES):
            record = self._record(user_id)
            if record.get("FinishedAt"):
                return record
            self._take(self._hide_mentions(user_id), deadline, advance)
            # What others have added during one pass, the next one finds.
            if sum(self._take(step(user_id), deadline, advance) for step in self._steps):
                continue
            if (left := self._seconds_to_settle(record)) > 0:
                raise ErasureUnderWay(retry_after=int(left) + 1)
            if self._note_finished(record):
                return self._record(user_id)
            now = self._record(user_id)
            if now.get("Stamp") == record.get("Stamp"):
                # Others keep writing the name. What they store is hidden as soon as it is stored.
                return {**now, "FinishedAt": self._clock.now()}
        # Others add faster than this takes away.
        raise ErasureUnderWay

    @staticmethod
    def _take(step: Iterator[int], deadline: float | None, advance: Callable[[int], None]) -> int:
        """Take a step, and return how much it has changed."""
        changed = 0
        for count in step:
            changed += count
            advance(count)
            _require_time(deadline)
        return changed

    def _note_finished(self, record: Document) -> bool:
        """Note that an erasure is finished, unless somebody has let it be carried out once more."""
        # From the first time on: whoever is named again and again is forgotten all the same.
        until = {"$min": {"NamesUntil": self._clock.now() + DAY}}
        self._erasures.update_one({"_id": record["_id"]}, until)
        ids = [record["_id"], *record["Players"], *record["Bags"]]
        entries = self._history.count_documents({"Subject.Id": {"$in": ids}})
        done = {"FinishedAt": self._clock.now(), "Counts.Entries": entries}
        unchanged = {name: as_read(record, name) for name in ("_id", "Stamp", "Mentioned")}
        update = {"$set": done, "$unset": {"Texts": ""}}
        return bool(self._erasures.update_one(unchanged, update).matched_count)

    def finish_left(self, user_id: str) -> None:
        """Go on with an erasure that others have left, for a moment."""
        self.finish(user_id, monotonic() + CHORE_SECONDS)

    def forget_names(self) -> None:
        """Drop by what an erasure is found by name, and names in texts, a day after its end."""
        now = self._clock.now()
        former = {"NameDigest": {"$exists": True}, "FinishedAt": {"$lt": now - DAY}}
        self._erasures.update_many(former, {"$unset": {"NameDigest": "", "SettledAt": ""}})
        lately = {**LATELY, "NamesUntil": {"$lt": now}}
        self._erasures.update_many(lately, {"$unset": dict.fromkeys(FINDING_NAMES, "")})

    def unfinished(self) -> list[str]:
        """Return the ids of accounts whose erasure is not finished."""
        return [record["_id"] for record in self._erasures.find(UNFINISHED, ["_id"])]

    def returned(self) -> Iterator[Trace]:
        """Yield where somebody who was erased is back, or is named again."""
        for record in self._erasures.find({"FinishedAt": {"$ne": None}}, sort=[("_id", 1)]):
            for name, where in self._traces(record):
                for found in self._db[name].find(where, ["_id"]):
                    yield Trace(name, str(found["_id"]), record["_id"])
            for id_ in self._batch_traces.erased_among([record["_id"], *record["Players"]]):
                yield Trace(BATCH_ROWS.name, id_, record["_id"])
        # Entries of history are looked at before they leave their Journals, with their documents.
        lately = self._records.lately()
        for traces in (self._action_traces, self._batch_traces) if lately else ():
            for name, id_, texts in traces.texts():
                for user_id, names in named_in(texts, lately).items():
                    yield Trace(name, id_, user_id, tuple(names))

    def _record(self, user_id: str) -> Document:
        record = self._erasures.find_one({"_id": user_id})
        if record is None:
            raise NotFound("erasure", user_id)
        return record

    def _ids(self, user_id: str) -> list[str]:
        """Return the ids of an account and of all that belonged to it."""
        record = self._record(user_id)
        return [user_id, *record["Players"], *record["Bags"]]

    def _seconds_to_settle(self, record: Document) -> float:
        settled: Any = record.get("SettledAt")
        if not isinstance(settled, datetime):
            return 0.0
        return (settled - self._clock.now()).total_seconds()

    def _traces(self, record: Document) -> list[tuple[str, Document]]:
        """Return where an erased person, or what belonged to one, would be found."""
        user_id = record["_id"]
        own = {"UserId": user_id}
        by = {"By.UserId": user_id, "By.Name": {"$ne": None}}
        # Not by the ids of characters and bags: they may be somebody else's in a restored backup.
        return [
            (USERS.name, {"_id": user_id}),
            (PLAYERS.name, own),
            (DELETED_PLAYERS.name, own),
            (REFRESH_TOKENS.name, own),
            (ACTIONS.name, by),
            (BATCHES.name, by),
            (HISTORY.name, {"Authors": user_id, "By.Name": {"$ne": None}}),
        ]

    def _erase_sign_ins(self, user_id: str) -> Iterator[int]:
        tokens = self._db[REFRESH_TOKENS.name].delete_many({"UserId": user_id}).deleted_count
        self._add(user_id, Tokens=tokens)
        self._db[QUOTAS.name].delete_many({"_id": {"$regex": f"^{user_id} "}})
        named = [f"{kind} {user_id}" for kind in ("account", "caller")]
        self._db[ATTEMPTS.name].delete_many({"_id": {"$in": named}})
        self._db[RESET_MAILS.name].delete_one({"_id": user_id})
        yield tokens

    def _note_belongings(self, user_id: str) -> Iterator[int]:
        """Record the ids of characters and bags, before any of them is deleted."""
        ids = [player["_id"] for player in self._belongings(user_id)]
        bags = self._bags_of(user_id)
        if ids or bags:
            more = {"Players": {"$each": sorted(ids)}, "Bags": {"$each": sorted(bags)}}
            self._erasures.update_one({"_id": user_id}, {"$addToSet": more})
            # Rows of batches and reasons may name a character by its id.
            self._records.add_names(user_id, ids)
            yield len(ids) + len(bags)

    def _belongings(self, user_id: str) -> list[Document]:
        """Return the characters of a person, those included that were deleted."""
        own = {"UserId": user_id}
        kept = [kept["Player"] for kept in self._deleted.find(own, ["Player"])]
        return [*self._players.find(own, ["Inventory", "Bank"]), *kept]

    def _bags_of(self, user_id: str) -> list[str]:
        carried = self._bag_store.carried_by(self._belongings(user_id))
        return [bag["_id"] for bag in carried]

    def _hide_mentions(self, user_id: str) -> Iterator[int]:
        """Hide the names and the address of a person where others have written them.

        Once is enough: whoever stores such a text later looks at the record after that.
        """
        # What is erased in this pass, the next ones must still know.
        if user := self._users.find_one({"_id": user_id}, NAMED_BY):
            self._move_entries()
            self._records.add_names(user_id, self._texts_of(user))
        texts = set(self._record(user_id).get("Texts", ()))
        hide = partial(without_mentions, texts=texts)
        for text in sorted(texts):
            if wanted := words(text):
                yield from self._rewrite({"Words": {"$all": wanted}}, hide, "word")
        if not texts:
            return
        yield from self._rewrite({"Operation": {"$in": quoting_operations()}}, hide, "operation")
        yield from self._hide_in_penalties(texts)
        for collection, path in (
            (self._users, "Notes"),
            (self._players, "Notes"),
            (self._deleted, "Player.Notes"),
        ):
            found = collection.find({path: {"$exists": True}}, ["_id", path])
            # Of the deleted ones there are few.
            found = found if collection is self._deleted else found.hint("noted")
            for noted in found:
                yield self._hide_in_notes(collection, path, noted, user_id, texts)
        yield from self._action_traces.rewrite(partial(action_without, texts=texts))
        yield from self._batch_traces.rewrite(partial(batch_without, texts=texts))

    def _texts_of(self, user: Document) -> set[str]:
        """Return what names a person: the account, its address, and its characters ever since."""
        own = {"UserId": user["_id"]}
        characters = list(self._players.find(own, ["Name", "FormerNames"]))
        kept = self._deleted.find(own, ["Player._id", "Player.Name", "Player.FormerNames"])
        characters += [found["Player"] for found in kept]
        renamed = {
            "Subject.Id": {"$in": [character["_id"] for character in characters]},
            "Operation": "rename",
        }
        former = [
            change["Before"]
            for entry in self._history.find(renamed).hint("subject")
            for change in entry["Changes"]
        ]
        return texts_naming(user, characters, former)

    def _hide_in_penalties(self, texts: set[str]) -> Iterator[int]:
        """Hide names in the bans and mutes of other accounts: who imposed them, and why."""
        for penalty, hint in ((BAN, "banned"), (MUTE, "muted")):
            found = self._users.find(
                {penalty.by: {"$type": "string"}}, [penalty.by, penalty.reason]
            )
            for other in found.hint(hint):
                told = {n: v for n, v in other.items() if n != "_id" and isinstance(v, str)}
                hidden = {name: masked(value, texts) for name, value in told.items()}
                if hidden != told:
                    self._users.update_one({"_id": other["_id"], **told}, {"$set": hidden})
                    yield 1

    def _hide_in_notes(
        self,
        collection: Collection[Document],
        path: str,
        noted: Document | None,
        user_id: str,
        texts: set[str],
    ) -> int:
        """Hide the name of an author, and names in what others have noted."""
        for _ in range(NOTE_ATTEMPTS):
            notes = value_at(noted or {}, path)
            hidden = notes_without(notes, user_id, texts)
            if noted is None or hidden == notes:
                return 0
            unchanged = {"_id": noted["_id"], path: {"$eq": notes}}
            if collection.update_one(unchanged, {"$set": {path: hidden}}).matched_count:
                return 1
            noted = collection.find_one({"_id": noted["_id"]}, ["_id", path])
        raise Busy("note")

    def _erase_actions(self, user_id: str) -> Iterator[int]:
        yield from self._action_traces.erase(self._ids(user_id), user_id)

    def _erase_batches(self, user_id: str) -> Iterator[int]:
        yield from self._batch_traces.erase(self._ids(user_id), user_id)

    def _erase_bags(self, user_id: str) -> Iterator[int]:
        # The inner ones first: who goes on after a crash finds them by the outer ones.
        for bag in reversed(self._bags_of(user_id)):
            yield self._delete(self._bags, BAG_SUBJECT, bag)

    def _erase_players(self, user_id: str) -> Iterator[int]:
        """Delete the characters of a person, and let nobody keep or bring back one of them."""
        yield self._bury(user_id)
        for player in list(self._players.find({"UserId": user_id}, ["_id"])):
            # One that is being brought back has lost the copy that it was made of.
            self._deletions.finish_restoration(player["_id"])
            yield self._delete(self._players, players.SUBJECT, player["_id"])

    def _bury(self, user_id: str) -> int:
        """Replace copies of characters by tombs, with which a copy that comes late collides."""
        ids = self._record(user_id)["Players"]
        buried = self._deleted.find({"_id": {"$in": ids}, "ErasedUserId": user_id}, ["_id"])
        left = set(ids) - {tomb["_id"] for tomb in buried}
        return sum(self._bury_one(id_, user_id) for id_ in sorted(left))

    def _bury_one(self, player_id: str, user_id: str) -> bool:
        tomb = {
            "NameKey": None,
            "UserId": None,
            "DeletedAt": self._clock.now(),
            "Player": None,
            "Stamp": fresh_stamp(),
            "ErasedUserId": user_id,
        }
        own = {"_id": player_id, "UserId": {"$in": [user_id, None]}}
        try:
            self._deleted.replace_one(own, tomb, upsert=True)
        except DuplicateKeyError:
            # In a restored backup, the character is somebody else's.
            return False
        return True

    def _erase_user(self, user_id: str) -> Iterator[int]:
        yield self._delete(self._users, users.SUBJECT, user_id)

    def _delete(self, collection: Collection[Document], kind: SubjectKind, id_: str) -> int:
        """Delete a document after its entries have moved to history."""
        for _ in range(MOST_PASSES):
            self._journals.move(kind, [id_])
            has_none = {"_id": id_, "Journal.0": {"$exists": False}}
            if collection.delete_one(has_none).deleted_count:
                return 1
            if collection.find_one({"_id": id_}, ["_id"]) is None:
                return 0
        raise Busy(kind.name)

    def _strip_history(self, user_id: str) -> Iterator[int]:
        """Take names and texts out of the entries about and by a person."""
        ids = self._ids(user_id)
        self._move_entries()
        for some in range(0, len(ids), BATCH):
            about = {"Subject.Id": {"$in": ids[some : some + BATCH]}, "IsErased": {"$ne": True}}
            yield from self._rewrite(about, anonymous, "subject")
        by = {"Authors": user_id, "By.Name": {"$ne": None}}
        yield from self._rewrite(by, without_author, "author")

    def _rewrite(
        self, where: Document, rule: Callable[[Document], Document], hint: str
    ) -> Iterator[int]:
        """Replace entries by what a rule makes of them; yields how many were changed."""
        entries = self._history.find(where).hint(hint)
        yield from rewrite(self._history, entries, lambda entry: _replacement(entry, rule(entry)))

    def _move_entries(self) -> None:
        """Move all entries that are still in Journals to history, where names are taken out."""
        self._journals.move_noted()
        for kind in (players.SUBJECT, users.SUBJECT, BAG_SUBJECT, objects.SUBJECT):
            self._journals.move_all(kind, self._clock.now())

    def _add(self, user_id: str, **counts: int) -> None:
        more = {f"Counts.{name}": count for name, count in counts.items() if count}
        if more:
            self._erasures.update_one({"_id": user_id}, {"$inc": more})


def _replacement(entry: Document, new: Document) -> UpdateOne | None:
    if new == entry:
        return None
    changed = {name: value for name, value in new.items() if entry.get(name) != value}
    return guarded_update(entry, changed, [name for name in entry if name not in new])


def _require_time(deadline: float | None) -> None:
    if deadline is not None and monotonic() > deadline:
        raise ErasureUnderWay
