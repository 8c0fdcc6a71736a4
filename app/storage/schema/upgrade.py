"""The upgrade to transactions: entries leave the Journals of documents, and marks are no more.

Up to SchemaVersion 29, the entry of a change was first written into its document, into an array
named Journal, and moved to history later. Changes of several documents left marks, by which others
finished them. Now an entry is inserted into history in the transaction of its change.

Each step finds by itself what remains to be done. So it may be killed at any point and repeated,
and several processes may run it at once. The helpers are copies: what they were copied from is
gone, and a step is never changed after a release.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from app.core.errors import QuartermasterError
from app.core.types import Document
from app.storage.bulk import batches
from app.storage.errors import has_only_duplicate_keys
from app.storage.events import LEASE, LOCKS, LOOK_BACK, MOST_ENTRIES, EventLog
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
GONE_INDEXES = {
    **{f"{kind}s": ("unmoved",) for kind in KINDS},
    "players": ("unmoved", "deleted", "restored", "transfer"),
    "users": ("unmoved", "erasure_due"),
    "erasures": ("name", "mentions"),
    "batches": ("abandoned",),
    "batch_rows": ("part",),
}
INDEX_NOT_FOUND = (26, 27)
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
# Fields of an entry with their types; a game may have dropped those that can be null.
REQUIRED = {"_id": str, "At": datetime, "Subject": dict, "Operation": str, "Changes": list}
OPTIONAL = {"By": dict, "Arguments": dict, "Reason": str | None}
EMPTY_FIELDS: Document = {
    "By": {"UserId": None, "Name": None},
    "RequestId": None,
    "Reason": None,
    "Arguments": {},
}
ONE_REQUEST = ("IdempotencyKey", "Fingerprint", "Answer")
IN_ORDER = [("At", 1), ("Version", 1), ("_id", 1)]
# Dates near the ends of what Python can represent were written by a game.
EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST = datetime(9000, 1, 1, tzinfo=timezone.utc)


class UpgradeRefused(QuartermasterError):
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


def move_entries(db: Database[Document]) -> None:
    """Move the entries of all Journals to history and to the log of events.

    An entry leaves its document only when it is in both places.
    """
    while any(db[name].find_one(HAS_ENTRIES, ["_id"]) for name in GONE):
        oldest = min((_archive(db, db[name]) for name in GONE), default=LATEST)
        _log_missing(db, oldest)
        for name, fields in GONE.items():
            _empty_journals(db, db[name], fields)


def _archive(db: Database[Document], collection: Collection[Document]) -> datetime:
    """Insert into history what is only in Journals; return the time of the oldest entry there."""
    oldest = LATEST
    kept, erased = _expiry_of_history(db), _erased_ids(db)
    for documents in batches(collection.find(HAS_ENTRIES, ["Journal"])):
        entries = [entry for document in documents for entry in _entries_of(document)]
        new = [
            history_document(_without_erased(entry, erased), kept if entry["At"] < LATEST else None)
            for entry, is_there in _with_unique_ids(db, entries)
            if not is_there
        ]
        _insert(db["history"], new)
        oldest = min([oldest, *(entry["At"] for entry in entries)])
    return oldest


def _insert(history: Collection[Document], entries: Sequence[Document]) -> None:
    try:
        if entries:
            history.insert_many(entries, ordered=False)
    except BulkWriteError as error:
        # Another process that runs this step has inserted some.
        if not has_only_duplicate_keys(error):
            raise


def _empty_journals(
    db: Database[Document], collection: Collection[Document], fields: Sequence[str]
) -> None:
    """Drop the fields of documents of which all entries are in history.

    Another one, or one that somebody changes meanwhile, is left for the next round.
    """
    gone = {"$unset": dict.fromkeys(fields, "")}
    for documents in batches(collection.find(HAS_ENTRIES, ["Stamp", "Journal"])):
        updates = []
        for document in documents:
            entries = _entries_of(document)
            if all(is_there for _, is_there in _with_unique_ids(db, entries)):
                same = {"_id": document["_id"], "Stamp": _as_read(document, "Stamp")}
                updates.append(UpdateOne(same, gone))
            if others := len(document["Journal"]) - len(entries):
                log.warning(
                    "The Journal of %s contains %s values that are no entries: they are dropped.",
                    *(document["_id"], others),
                )
        if updates:
            collection.bulk_write(updates, ordered=False)


def _as_read(document: Document, name: str) -> Document:
    return {"$eq": document[name]} if name in document else {"$exists": False}


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
    journal = document.get("Journal")
    found = journal if isinstance(journal, list) else []
    return [_complete(entry) for entry in found if _is_entry(entry)]


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), kind) for name, kind in REQUIRED.items())
        and all(isinstance(entry[name], kind) for name, kind in OPTIONAL.items() if name in entry)
        and entry["Subject"].get("Kind") in KINDS
        and "Id" in entry["Subject"]
        and entry.get("Stamp") is not None
    )


def _complete(entry: Document) -> Document:
    changes = [change for change in entry["Changes"] if isinstance(change, dict)]
    complete = [{"Path": "", "Before": None, "After": None, **change} for change in changes]
    return {**EMPTY_FIELDS, **entry, "Changes": complete}


def _expiry_of_history(db: Database[Document]) -> timedelta | None:
    """Return for how long the older release kept history, as its newest entries say."""
    newest = db["history"].find_one({}, ["At", "ExpiresAt"], sort=[("$natural", -1)]) or {}
    return newest["ExpiresAt"] - newest["At"] if "ExpiresAt" in newest else None


def _erased_ids(db: Database[Document]) -> set[str]:
    """Return the ids of erased people, and of what belonged to them."""
    found = db["erasures"].find({}, ["Players", "Bags"])
    return {id_ for record in found for id_ in (record["_id"], *record["Players"], *record["Bags"])}


def _without_erased(entry: Document, erased: set[str]) -> Document:
    """Return an entry without the names of erased people.

    It may have been written by a worker that had the person cached, and was killed.
    """
    if _id_in(entry["By"], "UserId", erased):
        nameless = {"UserId": entry["By"]["UserId"], "Name": None}
        entry = {**entry, "By": nameless, "RequestId": None}
    if _id_in(entry.get("ApprovedBy"), "UserId", erased):
        entry = {**entry, "ApprovedBy": {**entry["ApprovedBy"], "Name": None}}
    if _id_in(entry["Subject"], "Id", erased):
        empty: Document = {"Reason": None, "Arguments": {}, "RequestId": None, "Changes": []}
        nameless = {**entry["Subject"], "Name": None}
        entry = {**entry, "Subject": nameless, **empty, "IsErased": True}
        entry = {name: value for name, value in entry.items() if name not in ONE_REQUEST}
    return entry


def _id_in(person: Any, name: str, erased: set[str]) -> bool:
    id_ = person.get(name) if isinstance(person, dict) else None
    return isinstance(id_, str) and id_ in erased


def _log_missing(db: Database[Document], oldest: datetime) -> None:
    """Append to the log of events what it lacks, from some time before the oldest moved entry."""
    events, now = EventLog(db), datetime.now(timezone.utc)
    last = events.last()
    logged = last["Stamp"].generation_time if last["Stamp"] else now
    since = max(EARLIEST, min(oldest, logged, now)) - LOOK_BACK
    kept = _expiry_of_history(db)
    expiry = {"ExpiresAt": now + kept} if kept else {}
    where = {"Subject.Kind": {"$in": KINDS}, "At": {"$gte": since}}
    found = db["history"].find(where, ["_id"], sort=IN_ORDER).allow_disk_use(True)
    number = last["_id"]
    for some in batches((entry["_id"] for entry in found), MOST_ENTRIES):
        number = events.append(events.missing(some), number, **expiry)


def drop_fields(db: Database[Document]) -> None:
    """Drop the fields of Journals and marks, also in the copies of deleted players.

    Nothing needs the tombstones any more that stood in for erased characters: the records of
    erasures, which stay, contain their ids.
    """
    for name, fields in GONE.items():
        _unset(db[name], fields, {"Journal.0": {"$exists": False}})
    db["deleted_players"].delete_many({"ErasedUserId": {"$exists": True}})
    _unset(db["deleted_players"], GONE_OF_COPIES)
    _unset(db["erasures"], GONE_OF_ERASURES)


def _unset(
    collection: Collection[Document], fields: Sequence[str], where: Mapping[str, Any] = {}
) -> None:
    there = {**where, "$or": [{field: {"$exists": True}} for field in fields]}
    collection.update_many(there, {"$unset": dict.fromkeys(fields, "")})


def pause_batches(db: Database[Document]) -> None:
    """Pause running batches, with their rows counted, and drop the parts of all.

    A row that was carried out without a result is recognised by its key when it is run again.
    """
    running = {"State": "running"}
    for batch in db["batches"].find(running, ["_id"]):
        paused = {"State": "paused", "PausedWhy": PAUSED_WHY, "Counts": _counts(db, batch["_id"])}
        db["batches"].update_one({"_id": batch["_id"], **running}, {"$set": paused})
    db.drop_collection("batch_parts")


def _counts(db: Database[Document], batch_id: str) -> Document:
    rows = db["batch_rows"]
    counts = {
        verdict.capitalize(): rows.count_documents({"Batch": batch_id, "Verdict": verdict})
        for verdict in ("ready", "done", "refused")
    }
    return {**counts, "Replanned": rows.count_documents({"Batch": batch_id, "Replanned": True})}


def separate_doubles(db: Database[Document]) -> None:
    """Let each key be in one entry of a document, and each undone change be undone once.

    Unique indexes are about to be built. No release wrote doubles, but a rollback after a network
    split, a game or a partial restore may have left some. All entries stay.
    """
    for found, first, other in _doubles(db, "IdempotencyKey", "Subject.Id", "Subject.Kind"):
        log.warning(
            "The entries %s and %s have the same Idempotency-Key, %r: the later one is kept "
            "without the key.",
            *(first["_id"], other["_id"], found["IdempotencyKey"]),
        )
        _unset_in(db, other, "IdempotencyKey")
    for found, first, other in _doubles(db, "Undoes"):
        log.warning(
            "The entries %s and %s both undo %s: the later one is kept as a change that undoes "
            "nothing.",
            *(first["_id"], other["_id"], found["Undoes"]),
        )
        _unset_in(db, other, "Undoes")


def _doubles(db: Database[Document], *fields: str) -> Iterator[tuple[Document, Document, Document]]:
    """Yield the values that entries share, the oldest entry with them, and another one."""
    history = db["history"]
    # A game may have stored null, and an index would take one for the double of another.
    history.update_many({fields[0]: {"$exists": True, "$eq": None}}, {"$unset": {fields[0]: ""}})
    values = {field.replace(".", " "): f"${field}" for field in fields}
    shared: list[Document] = [
        {"$match": {fields[0]: {"$exists": True}}},
        {"$group": {"_id": values, "Count": {"$sum": 1}}},
        {"$match": {"Count": {"$gt": 1}}},
    ]
    for group in history.aggregate(shared, allowDiskUse=True):
        same = {field: _as_read(group["_id"], field.replace(".", " ")) for field in fields}
        first, *others = history.find(same, ["_id"], sort=IN_ORDER)
        for other in others:
            yield group["_id"], first, other


def _unset_in(db: Database[Document], entry: Document, field: str) -> None:
    db["history"].update_one({"_id": entry["_id"]}, {"$unset": {field: ""}})


def drop_indexes(db: Database[Document]) -> None:
    for collection, names in GONE_INDEXES.items():
        for name in names:
            try:
                if name in db[collection].index_information():
                    db[collection].drop_index(name)
            except OperationFailure as error:
                if error.code not in INDEX_NOT_FOUND:  # another process has just dropped it
                    raise


def begin_stream(db: Database[Document]) -> None:
    """Let the log of events follow history from now on, behind its last document."""
    start = db.command("ping").get("operationTime")
    if start is None:  # mongomock
        return
    now, last = datetime.now(timezone.utc), EventLog(db).last()
    position = {"Number": last["_id"], "Start": {"start_at_operation_time": start}}
    # A worker that has the lease already follows the stream from an earlier time.
    free = {**LEASE, "Until": {"$lt": now}}
    try:
        db[LOCKS.name].update_one(free, {"$set": {"By": "", "Until": now, **position}}, upsert=True)
    except DuplicateKeyError:
        return


STEPS: list[Callable[[Database[Document]], None]] = [
    move_entries,
    drop_fields,
    pause_batches,
    separate_doubles,
    drop_indexes,
    begin_stream,
]
