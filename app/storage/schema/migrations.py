"""Migrations: ordered steps from the database of release 0.3.0 to the current schema.

The SchemaVersion of a database is the number of steps it has taken. Each step is idempotent and
finds the remaining work by itself: it may be killed and repeated, and several processes may run it
concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from app.core.errors import QuartermasterError
from app.core.former_names import carry_names
from app.core.naming import email_key, name_key, name_tails
from app.core.permissions import permissions_of_scopes
from app.core.types import Document
from app.storage.bulk import batches
from app.storage.errors import QUERY_PLAN_KILLED, has_only_duplicate_keys
from app.storage.schema import upgrade
from app.storage.schema.plan import CollectionPlan
from app.storage.schema.shapes import COUNT, TEXT, object_shape
from app.storage.schema.upgrade import UpgradeRefused
from app.storage.search_fields import history_document, row_words

Step = Callable[[Database[Document]], None]

VERSIONS = "schema"
# The SchemaVersion of release 0.3.0; a database without one is new.
FIRST = 12
SCHEMA_VERSIONS = CollectionPlan(VERSIONS, object_shape({"_id": TEXT, "SchemaVersion": COUNT}))
ONLY = {"_id": "schema"}
INDEX_NOT_FOUND = 27
# Collections of earlier releases that nothing reads any more.
SUPERFLUOUS = ("password_costs", "attempts", "reset_mails")
# This collection exists while a restore is not finished.
RESTORING = "restoring"


class RestoreUnfinished(QuartermasterError):
    sentence = (
        "A restore of the database '{name}' has not finished: run quartermaster restore again, "
        "with the same backup or another one."
    )


class DatabaseTooOld(UpgradeRefused):
    sentence = (
        "The database '{name}' is at SchemaVersion {version}, from before release 0.3.0: run "
        "quartermaster db init of 0.3.0 first, and then that of this release."
    )


class DatabaseTooNew(QuartermasterError):
    """A newer release has migrated the database to a schema that this one does not support."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            f"The database '{name}' is at SchemaVersion {version}, and this program knows none "
            f"above {CURRENT}: run the newer program, or restore a backup from before it."
        )
        self.version = version


def only_schema(db: Database[Document]) -> None:
    """Change only validators or indexes, no documents.

    From the number of the step, an older release recognises that the database is too new for it.
    """


def restore_by_stamps(db: Database[Document]) -> None:
    """Drop the counter of processes that move a deleted player: copies now have stamps.

    The validators and indexes also cover reset mails and the author of a batch.
    """
    counted = {"RemovalCount": {"$exists": True}}
    db["players"].update_many(counted, {"$unset": {"RemovalCount": ""}})


def drop_superfluous(db: Database[Document]) -> None:
    for name in SUPERFLUOUS:
        db.drop_collection(name)


def separate_invitations(db: Database[Document]) -> None:
    """The code of an invitation was a reset code with a mark."""
    for batch in batches(db["users"].find({"Reset.IsInvitation": True}, ["Reset"])):
        moved: list[UpdateOne] = []
        for user in batch:
            code = {name: user["Reset"][name] for name in ("Code", "ExpiresAt", "Failures")}
            moved.append(UpdateOne(user, {"$set": {"Invitation": code, "Reset": None}}))
        _write(db["users"], moved)


def keep_former_names(db: Database[Document]) -> None:
    """Add former names to players, from the renames in history."""
    had: dict[str, list[Document]] = {}
    renames = {"Operation": {"$in": ["rename", "undo"]}, "Changes.Path": "Name"}
    for entry in db["history"].find(renames, ["Subject", "Changes"], sort=[("At", 1)]):
        _note_names(had, entry)
    for player in db["players"].find({"Journal.Changes.Path": "Name"}, ["Journal"]):
        for entry in player["Journal"]:
            _note_names(had, entry or {})
    for batch in batches(iter(had)):
        for collection, path in ((db["players"], ""), (db["deleted_players"], "Player.")):
            unknown = {"_id": {"$in": batch}, f"{path}FormerNames": {"$exists": False}}
            found = list(collection.find(unknown, [f"{path}Name"]))
            _write(collection, [u for d in found if (u := _with_former(d, path, had[d["_id"]]))])


def compose_folded_names(db: Database[Document]) -> None:
    """Compose name keys again after case folding, so that a name in capitals has the same key."""
    for kind in ("players", "users", "objects"):
        for batch in batches(db[kind].find(_in_another_script("NameKey"), ["Name", "NameKey"])):
            _write(db[kind], [_with_name_key(found, "") for found in batch if _is_stale(found)])
    for batch in batches(db["deleted_players"].find(_in_another_script("NameKey"))):
        stale = [found for found in batch if _is_stale({**found, **found["Player"]})]
        _write(db["deleted_players"], [_with_name_key(found, "Player.") for found in stale])
    for batch in batches(db["users"].find(_in_another_script("EmailKey"), ["Email", "EmailKey"])):
        addressed = [user for user in batch if isinstance(user.get("Email"), str)]
        stale = [user for user in addressed if user["EmailKey"] != email_key(user["Email"])]
        _write(db["users"], [_with_email_key(user) for user in stale])
    words_or_authors = {"$or": [_in_another_script(name) for name in ("Words", "Authors")]}
    for batch in batches(db["history"].find(words_or_authors)):
        _write(db["history"], [update for entry in batch if (update := _with_words(entry))])


def _in_another_script(field: str) -> Document:
    return {field: {"$regex": "[^\\x00-\\x7f]"}}


def _is_stale(document: Document) -> bool:
    name = document.get("Name")
    return isinstance(name, str) and document.get("NameKey") != name_key(name)


def _with_name_key(document: Document, path: str) -> UpdateOne:
    """Return the update of a stale key; for a deleted player, also in its copy."""
    key = name_key(document["Player"]["Name"] if path else document["Name"])
    keys = {"NameKey": key, f"{path}NameKey": key, f"{path}NameTails": name_tails(key)}
    same = {"_id": document["_id"], "NameKey": document["NameKey"]}
    return UpdateOne(same, {"$set": keys})


def _with_words(entry: Document) -> UpdateOne | None:
    """Return the update of the search fields of an entry, if they are stale."""
    derived = history_document(entry, None)
    new = {name: derived.get(name) for name in ("Words", "Authors") if name in entry}
    is_same = all(entry[name] == value for name, value in new.items())
    return None if is_same else UpdateOne({"_id": entry["_id"]}, {"$set": new})


def _note_names(had: dict[str, list[Document]], entry: Document) -> None:
    """Add the former names of a player in an entry, the latest first."""
    for change in entry.get("Changes", ()):
        if change["Path"] == "Name" and entry.get("Subject", {}).get("Kind") == "player":
            names = had.setdefault(entry["Subject"]["Id"], [])
            names[:0] = [{"Name": change[side]} for side in ("After", "Before")]


def _with_former(document: Document, path: str, had: list[Document]) -> UpdateOne | None:
    holder = document.get("Player") if path else document
    name = holder.get("Name") if isinstance(holder, dict) else None
    if not isinstance(name, str):
        return None
    former = carry_names({"FormerNames": had}, {"Name": name})["FormerNames"]
    same = {"_id": document["_id"], f"{path}Name": name, f"{path}FormerNames": {"$exists": False}}
    return UpdateOne(same, {"$set": {f"{path}FormerNames": former}})


# Permissions of which a part became one of its own, and the older scopes that lacked this part.
SPLIT = {
    "moderate.mute": ("moderate.kick", "users.change"),
    "notes.write": ("notes.users", "players.change"),
}


def expand_scopes(db: Database[Document]) -> None:
    """Give keys the permissions that their scopes stood for, and keys and roles those of SPLIT."""
    for batch in batches(db["users"].find({"Keys": {"$gt": {}}}, ["Keys"])):
        _write(db["users"], [update for user in batch for update in _with_permissions(user)])
    for name, (part, _) in SPLIT.items():
        db["roles"].update_many({"Permissions": name}, {"$addToSet": {"Permissions": part}})


def _with_permissions(user: Document) -> Iterator[UpdateOne]:
    for id_, key in user["Keys"].items():
        scopes, path = key.get("Scopes") if isinstance(key, dict) else None, f"Keys.{id_}.Scopes"
        if not isinstance(scopes, list):
            continue
        # A game may have stored something else.
        held = [name for name in scopes if isinstance(name, str)]
        parts = [
            part
            for name, (part, scope) in SPLIT.items()
            # A scope that this step has expanded already included the permission without the part.
            if name in held and not {*permissions_of_scopes([scope])} <= {*held}
        ]
        expanded = permissions_of_scopes([*held, *parts])
        yield UpdateOne({"_id": user["_id"], path: scopes}, {"$set": {path: expanded}})


def find_rows_by_words(db: Database[Document]) -> None:
    """Let an erasure find the rows of unknown players that name somebody, by an index."""
    rows = db["batch_rows"]
    for batch in batches(rows.find({"Subject": None, "Words": {"$exists": False}})):
        _write(rows, [UpdateOne(row, {"$set": row_words(row)}) for row in batch])
    drop_index(rows, "unknown")


STEPS: list[Step] = [
    restore_by_stamps,
    keep_former_names,
    compose_folded_names,
    only_schema,  # mentions of erased people
    only_schema,  # second factors
    only_schema,  # guilds, and variables of users and guilds
    only_schema,  # roles of staff, and company accounts
    only_schema,  # last sign-ins
    only_schema,  # approvals
    only_schema,  # events of the game
    only_schema,  # lists of banned and muted users, and of new players
    only_schema,  # letters to players
    only_schema,  # erasures that wait, and members of guilds
    only_schema,  # rows of a batch as they were sent
    drop_superfluous,
    separate_invitations,
    expand_scopes,
    *upgrade.STEPS,  # transactions
    find_rows_by_words,
]
CURRENT = FIRST + len(STEPS)
# Older databases have Journals.
UPGRADED = FIRST + STEPS.index(upgrade.drop_fields)


def version_of(db: Database[Document], session: ClientSession | None = None) -> int:
    """Return the SchemaVersion of a database; 0 if it has none."""
    found = db[VERSIONS].find_one(ONLY, session=session)
    return int(found["SchemaVersion"]) if found else 0


def refuse_unfinished_restore(db: Database[Document]) -> None:
    """Raise RestoreUnfinished if a restore was killed: much may be missing."""
    if RESTORING in db.list_collection_names():
        raise RestoreUnfinished(db.name)


def refuse_newer(db: Database[Document]) -> int:
    """Return the SchemaVersion of a database, or raise DatabaseTooNew."""
    version = version_of(db)
    if version > CURRENT:
        raise DatabaseTooNew(db.name, version)
    return version


def migrate(db: Database[Document], steps: Sequence[Step] = STEPS) -> None:
    """Run the steps that a database has not taken yet."""
    for number in range(max(FIRST, refuse_newer(db)), CURRENT):
        _take(steps[number - FIRST], db)
        _record_version(db, number + 1)


def refuse_older(db: Database[Document]) -> None:
    """Raise UpgradeRefused if a database is too old, or if its release has not finished."""
    version = version_of(db)
    if 0 < version < FIRST:
        raise DatabaseTooOld(db.name, version)
    if 0 < version < UPGRADED:
        upgrade.refuse_unfit(db)


def _take(step: Step, db: Database[Document], more_tries: int = 3) -> None:
    try:
        step(db)
    except OperationFailure as error:
        # Another process that runs the same step has dropped an index that this query used.
        if not more_tries or error.code != QUERY_PLAN_KILLED:
            raise
        _take(step, db, more_tries - 1)


def _record_version(db: Database[Document], version: int) -> None:
    """Record the SchemaVersion with $max: a slower process must not decrease it."""
    further = {"$max": {"SchemaVersion": version}}
    try:
        db[VERSIONS].update_one(ONLY, further, upsert=True)
    except DuplicateKeyError:  # another process has just inserted it
        db[VERSIONS].update_one(ONLY, further)


def _write(collection: Collection[Document], updates: list[UpdateOne]) -> None:
    """Write updates; skip those that would duplicate a key, which db check reports."""
    try:
        if updates:
            collection.bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        if not has_only_duplicate_keys(error):
            raise


def _with_email_key(document: Document) -> UpdateOne:
    return UpdateOne(document, {"$set": {"EmailKey": email_key(document["Email"])}})


def drop_index(collection: Collection[Document], name: str) -> None:
    """Drop an index if it exists."""
    try:
        if name in collection.index_information():
            collection.drop_index(name)
    except OperationFailure as error:
        if error.code != INDEX_NOT_FOUND:  # another process has just dropped it
            raise
