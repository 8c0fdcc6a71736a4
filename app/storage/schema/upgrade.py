"""The upgrade to transactions: entries leave the Journals of documents, and marks are no more.

Up to SchemaVersion 29, the entry of a change was first written into its document, into an array
named Journal, and moved to history later. Changes of several documents left marks, by which others
finished them. Now an entry is inserted into history in the transaction of its change.

Each part of the step finds by itself what remains to be done. So it may be killed at any point and
repeated, and several processes may run it at once. The helpers are copies: what they were copied
from is gone, and a step is never changed after a release.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from app.core.errors import QuartermasterError
from app.core.permissions import permissions_of_scopes
from app.core.types import Document
from app.storage.bulk import batches
from app.storage.errors import has_only_duplicate_keys
from app.storage.events import LATEST, LEASE, LOCKS, catch_up
from app.storage.search_fields import history_document

log = logging.getLogger("quartermaster")

KINDS = ("player", "user", "bag", "object", "role")
HAS_ENTRIES: Document = {"Journal.0": {"$exists": True}}
BOOKKEEPING = ("Journal", "JournalCount", "LastVersion", "Stamp")
MARKS = ("DeletedAt", "RestoredFrom", "RestorePending", "TransferPending", "RemovalCount")
# The fields that the documents of these collections no longer have.
GONE = {f"{kind}s": BOOKKEEPING for kind in KINDS} | {
    "players": (*BOOKKEEPING, *MARKS),
    "users": (*BOOKKEEPING, "ErasureDue"),
}
GONE_OF_COPIES = ("Stamp", "RemovalCount", *(f"Player.{name}" for name in GONE["players"]))
# An erasure found names in texts by digests, for a day.
GONE_OF_ERASURES = (
    *("NameDigest", "NameShapes", "NameDigests", "NamesUntil", "Texts", "Mentioned"),
    *("Stamp", "SettledAt"),
)
GONE_COLLECTIONS = ("password_costs", "attempts", "reset_mails", "batch_parts")
GONE_INDEXES = {
    **{f"{kind}s": {"unmoved"} for kind in KINDS},
    "players": {"unmoved", "deleted", "restored", "transfer"},
    "users": {"unmoved", "erasure_due"},
    "erasures": {"name", "mentions"},
    "batches": {"abandoned"},
    "batch_rows": {"part"},
}
UNFINISHED: dict[str, tuple[str, Document]] = {
    "deletion of a player": ("players", {"DeletedAt": {"$type": "date"}}),
    "undo of a deletion": (
        "players",
        {"$or": [{"RestorePending": {"$exists": True}}, {"RestoredFrom": {"$type": "objectId"}}]},
    ),
    "transfer of items": ("players", {"TransferPending.Id": {"$exists": True}}),
    "approval": ("approvals", {"State": "approved"}),
    "erasure": ("erasures", {"FinishedAt": None}),
    "cancelled batch": ("batches", {"IsAbandoned": True}),
}
PAUSED_WHY = "The service was upgraded; run the batch again to carry out the rest."
# Fields of an entry with their types, and those that a game may have dropped.
TYPES: dict[str, Any] = {
    **{"_id": str, "At": datetime, "Subject": dict, "Operation": str, "Changes": list},
    **{"By": dict, "Arguments": dict, "Reason": str | None},
}
EMPTY_FIELDS: Document = {
    "By": {"UserId": None, "Name": None},
    "RequestId": None,
    "Reason": None,
    "Arguments": {},
}
EMPTY_CHANGE = {"Path": "", "Before": None, "After": None}
# What only one entry may have, with the fields that identify it.
UNIQUE = (("IdempotencyKey", "Subject.Id", "Subject.Kind"), ("Undoes",))


class UnfitDatabase(QuartermasterError):
    """The service cannot use this database until somebody has done something."""


class UpgradeRefused(UnfitDatabase):
    """The older release must do something first."""


class WorkersAlive(UpgradeRefused):
    sentence = (
        "Workers of an older release are using the database '{name}': stop the service on all "
        "machines, and try again after three seconds."
    )


class WorkUnfinished(UpgradeRefused):
    sentence = (
        "The database '{name}' contains unfinished work of an older release ({found}): run "
        "quartermaster db check --repair of that release, which finishes it, and try again."
    )


class ErasuresDue(UpgradeRefused):
    sentence = (
        "In the database '{name}', the erasure of some accounts is planned, which is no longer "
        "possible ({found}): begin or withdraw it with the older release, and try again."
    )


def refuse_unfit(db: Database[Document]) -> None:
    """Raise unless the older release has stopped, and has finished its work."""
    # One worker renews this lease every second. Releases up to 0.3.0 leave no such trace.
    if db[LOCKS.name].find_one({**LEASE, "$expr": {"$gt": ["$Until", "$$NOW"]}}):
        raise WorkersAlive(db.name)
    due = db["users"].find({"ErasureDue": {"$type": "object"}, "ErasedAt": None}, ["Name"])
    if names := [str(user.get("Name")) for user in due]:
        raise ErasuresDue(db.name, ", ".join(names))
    marked = {what: db[name].count_documents(where) for what, (name, where) in UNFINISHED.items()}
    if found := [f"{what}: {count}" for what, count in marked.items() if count]:
        raise WorkUnfinished(db.name, ", ".join(found))


def to_transactions(db: Database[Document]) -> None:
    """Bring a database of release 0.3.0 or later to what transactions need."""
    _expand_scopes(db)
    _move_entries(db)
    _drop_fields(db)
    _pause_batches(db)
    _separate_doubles(db)
    for name in GONE_COLLECTIONS:
        db.drop_collection(name)
    for kind, gone in GONE_INDEXES.items():
        for name in gone & db[kind].index_information().keys():
            db[kind].drop_index(name)


def _expand_scopes(db: Database[Document]) -> None:
    """Give keys the permissions that their scopes stood for."""
    for user in db["users"].find({"Keys": {"$gt": {}}}, ["Keys"]):
        for id_, key in user["Keys"].items():
            scopes = key.get("Scopes") if isinstance(key, dict) else None
            if isinstance(scopes, list):
                # A game may have stored something else.
                held = [name for name in scopes if isinstance(name, str)]
                path = f"Keys.{id_}.Scopes"
                expanded = {"$set": {path: permissions_of_scopes(held)}}
                db["users"].update_one({"_id": user["_id"], path: scopes}, expanded)


def _move_entries(db: Database[Document]) -> None:
    """Move the entries of all Journals to history and to the log of events.

    An entry leaves its document only when it is in both places.
    """
    oldest: datetime | None = None
    while oldest != LATEST:
        kept = _expiry_of_history(db)
        oldest = _archive(db, kept)
        expiry = {"ExpiresAt": datetime.now(timezone.utc) + kept} if kept else {}
        catch_up(db, expiry, oldest)
        _empty_journals(db)


def _archive(db: Database[Document], kept: timedelta | None) -> datetime:
    """Insert into history what is only in Journals; return the time of the oldest entry there."""
    oldest = LATEST
    for _, documents in _with_journals(db):
        entries = [entry for document in documents for entry in _entries_of(document)]
        new = [
            history_document(entry, kept if entry["At"] < LATEST else None)
            for entry, is_there in _with_unique_ids(db, entries)
            if not is_there
        ]
        oldest = min([oldest, *(entry["At"] for entry in entries)])
        try:
            if new:
                db["history"].insert_many(new, ordered=False)
        except BulkWriteError as error:
            # Another process that runs this step has inserted some.
            if not has_only_duplicate_keys(error):
                raise
    return oldest


def _with_journals(
    db: Database[Document],
) -> Iterator[tuple[Collection[Document], Sequence[Document]]]:
    """Yield the documents that have entries, some at a time, with their collection."""
    for name in GONE:
        for documents in batches(db[name].find(HAS_ENTRIES, ["Stamp", "Journal"])):
            yield db[name], documents


def _empty_journals(db: Database[Document]) -> None:
    """Drop the fields of documents of which all entries are in history.

    Another one, or one that somebody changes meanwhile, is left for the next round.
    """
    for collection, documents in _with_journals(db):
        gone = {"$unset": dict.fromkeys(GONE[collection.name], "")}
        updates = []
        for document in documents:
            entries = _entries_of(document)
            if all(is_there for _, is_there in _with_unique_ids(db, entries)):
                stamp = {"$eq": document["Stamp"]} if "Stamp" in document else {"$exists": False}
                updates.append(UpdateOne({"_id": document["_id"], "Stamp": stamp}, gone))
            if others := len(document["Journal"]) - len(entries):
                log.warning(
                    "The Journal of %s contains %s values that are no entries: they are dropped.",
                    *(document["_id"], others),
                )
        if updates:
            collection.bulk_write(updates, ordered=False)


def _with_unique_ids(
    db: Database[Document], entries: Sequence[Document]
) -> Iterator[tuple[Document, bool]]:
    """Yield entries with their ids in history, and whether they are there.

    Two writes may have the same version: a game that saves whole documents sets it back.
    """
    ids = [id_ for e in entries for id_ in (e["_id"], f"{e['_id']}:{e['Stamp']}")]
    found = db["history"].find({"_id": {"$in": ids}}, ["Stamp"]) if ids else ()
    stamps: dict[str, Any] = {entry["_id"]: entry.get("Stamp") for entry in found}
    for entry in entries:
        id_, stamp = entry["_id"], entry["Stamp"]
        if stamps.get(id_, stamp) != stamp:
            id_ = f"{id_}:{stamp}"
        is_there = id_ in stamps
        stamps[id_] = stamp
        yield {**entry, "_id": id_}, is_there


def _entries_of(document: Document) -> list[Document]:
    """Return the entries in a Journal, the oldest first; a game may have written anything else."""
    journal, entries = document.get("Journal"), []
    for found in journal if isinstance(journal, list) else []:
        entry = {**EMPTY_FIELDS, **found} if isinstance(found, dict) else {}
        is_entry = (
            all(isinstance(entry.get(name), kind) for name, kind in TYPES.items())
            and entry["Subject"].get("Kind") in KINDS
            and "Id" in entry["Subject"]
            and entry.get("Stamp") is not None
        )
        if is_entry:
            changes = [change for change in entry["Changes"] if isinstance(change, dict)]
            entry["Changes"] = [{**EMPTY_CHANGE, **change} for change in changes]
            entries.append(entry)
    return entries


def _expiry_of_history(db: Database[Document]) -> timedelta | None:
    """Return for how long the older release kept history, as its newest entries say."""
    newest = db["history"].find_one({}, ["At", "ExpiresAt"], sort=[("$natural", -1)]) or {}
    return newest["ExpiresAt"] - newest["At"] if "ExpiresAt" in newest else None


def _drop_fields(db: Database[Document]) -> None:
    """Drop the fields of Journals and marks, also in the copies of deleted players.

    Nothing needs the tombstones any more that stood in for erased characters: the records of
    erasures, which stay, contain their ids.
    """
    db["deleted_players"].delete_many({"ErasedUserId": {"$exists": True}})
    others = {"deleted_players": GONE_OF_COPIES, "erasures": GONE_OF_ERASURES}
    for name, fields in {**GONE, **others}.items():
        there = {"$or": [{field: {"$exists": True}} for field in fields]}
        without = {**there, "Journal.0": {"$exists": False}}
        db[name].update_many(without, {"$unset": dict.fromkeys(fields, "")})


def _pause_batches(db: Database[Document]) -> None:
    """Pause running batches, with their rows counted.

    A row that was carried out without a result is recognised by its key when it is run again.
    """
    running = {"State": "running"}
    for batch in db["batches"].find(running, ["_id"]):
        rows = {"Batch": batch["_id"]}
        counts = {
            verdict.capitalize(): db["batch_rows"].count_documents({**rows, "Verdict": verdict})
            for verdict in ("ready", "done", "refused")
        }
        counts["Replanned"] = db["batch_rows"].count_documents({**rows, "Replanned": True})
        paused = {"State": "paused", "PausedWhy": PAUSED_WHY, "Counts": counts}
        db["batches"].update_one({"_id": batch["_id"], **running}, {"$set": paused})


def _separate_doubles(db: Database[Document]) -> None:
    """Let each key be in one entry of a document, and each undone change be undone once.

    Unique indexes are about to be built. No release wrote doubles, but a rollback after a network
    split, a game or a partial restore may have left some. All entries stay.
    """
    history = db["history"]
    for fields in UNIQUE:
        name = fields[0]
        # A game may have stored null, and an index would take one for the double of another.
        history.update_many({name: {"$exists": True, "$eq": None}}, {"$unset": {name: ""}})
        stages: list[Document] = [
            {"$match": {name: {"$exists": True}}},
            {"$sort": {"At": 1, "Version": 1, "_id": 1}},
            {"$group": {"_id": [f"${field}" for field in fields], "Ids": {"$push": "$_id"}}},
            {"$match": {"Ids.1": {"$exists": True}}},
        ]
        for found in history.aggregate(stages, allowDiskUse=True):
            log.warning(
                "The entries %s have the same %s, %r: all but the first are kept without it.",
                *(", ".join(map(str, found["Ids"])), name, found["_id"][0]),
            )
            later = {"_id": {"$in": found["Ids"][1:]}}
            history.update_many(later, {"$unset": {name: ""}})
