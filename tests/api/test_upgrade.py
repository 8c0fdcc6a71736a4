"""Databases with Journals become databases with transactions: nothing is lost, and nothing doubled.

The fixtures were written by the releases themselves, and so was what is expected of them
(tests/older/README.rst).
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import chain, count
from types import SimpleNamespace

import bson
import pytest
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, WriteError

import config
from app.database import COLLECTIONS
from app.storage.events import BEGINNING, entries_after, last_event, missing
from app.storage.schema import migrations, upgrade
from app.storage.schema.collections import differences, init_database
from tests import older_databases
from tests.callers import Caller
from tests.changes import Killed
from tests.factories import World, guid, make_entry
from tests.tiers import some

FIRST, LAST = "release_0_3_0", "before_transactions"
BOTH = pytest.mark.parametrize("name", [FIRST, LAST])
# What later versions have added.
ADDED = {"FormerNames", "Scopes", "Invitation"}


@pytest.fixture
def db(real_storage):
    """A database of its own, which does not outlive the test."""
    yield real_storage.client["upgraded"]
    real_storage.client.drop_database("upgraded")


@pytest.fixture(scope="module", params=[FIRST, LAST])
def upgraded(real_storage, request):
    """A database that was upgraded, its documents before, what was said, and former answers."""
    db, said = real_storage.client["upgraded_once"], []
    before = older_databases.make(db, request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            *(upgrade.log, "warning", lambda text, *args: said.append(text % args)),
        )
        init_database(db, COLLECTIONS)
    yield SimpleNamespace(
        **{"db": db, "name": request.param, "said": said},
        before={kind: by_id(documents) for kind, documents in before.items()},
        answers=older_databases.answers(request.param),
    )
    real_storage.client.drop_database(db.name)


def by_id(documents):
    return {document["_id"]: document for document in documents}


def contents(db):
    """Return all documents, without what differs from one upgrade to the next."""
    found = {name: by_id(db[name].find()) for name in sorted(db.list_collection_names())}
    for event in found["events"].values():
        # The documents of the log that the upgrade has appended.
        event.pop("ExpiresAt", None), event.pop("Stamp")
    found["locks"] = None
    return found


def test_the_database_becomes_todays(upgraded):
    db = upgraded.db
    assert migrations.version_of(db) == migrations.CURRENT
    assert [*differences(db, COLLECTIONS)] == []
    for plan in COLLECTIONS:
        planned = {index.document["name"] for index in plan.indexes}
        assert db[plan.name].index_information().keys() - {"_id_"} == planned
        assert db[plan.name].find_one({"$nor": [{"$jsonSchema": plan.shape}]}) is None
    assert not {*upgrade.GONE_COLLECTIONS} & {*db.list_collection_names()}


# Others are compared below, or keep nothing.
KEPT_AS_THEY_ARE = {
    *("actions", "approvals", "bags", "batch_rows", "budgets", "game_events", "games", "guilds"),
    *("erasures", "objects", "players", "quotas", "refresh_tokens", "roles", "users"),
}


NEVER_GONE = {"Version", "ChangedAt", "Players", "FinishedAt"}


def test_documents_keep_all_that_is_not_of_journals(upgraded):
    gone_of = {**upgrade.GONE, "erasures": upgrade.GONE_OF_ERASURES}
    for kind in KEPT_AS_THEY_ARE & upgraded.before.keys():
        gone = {*gone_of.get(kind, ())} - NEVER_GONE
        after = by_id(upgraded.db[kind].find())
        assert after.keys() == upgraded.before[kind].keys()
        for id_, former in upgraded.before[kind].items():
            may_differ = {*gone, *ADDED, "Keys"}
            assert without(after[id_], may_differ) == without(former, may_differ), kind
            assert not after[id_].keys() & gone
    for entry in upgraded.db.history.find():
        assert {"Authors", "ExpiresAt"} <= entry.keys()


def without(document, names):
    return {name: value for name, value in document.items() if name not in names}


def test_deleted_players_can_be_restored(upgraded):
    gone = {*upgrade.GONE["players"]}
    # Without those that stood in for characters of somebody who was erased.
    former = [copy for copy in upgraded.before["deleted_players"].values() if copy["Player"]]
    expected = [
        {**without(copy, gone), "Player": without(copy["Player"], gone)}
        | {"DeletedAt": copy["DeletedAt"]}
        for copy in former
    ]
    found = [
        {**copy, "Player": without(copy["Player"], ADDED)}
        for copy in upgraded.db.deleted_players.find()
    ]
    assert by_id(found) == by_id(expected)


def test_events_follow_in_their_order(upgraded):
    db, before = upgraded.db, upgraded.before["events"]
    for number, event in before.items():
        assert db.events.find_one({"_id": number}) == event
    logged = [id_ for event in before.values() for id_ in event["Entries"]]
    every = [id_ for id_, _ in entries_after(db, BEGINNING)]
    expected = list(chain.from_iterable(page["Ids"] for page in upgraded.answers["Events"]))
    assert every[: len(logged)] == logged == expected[: len(logged)]
    # Those that a release never moved itself, it had not logged either.
    by_hand = [id_ for id_ in every if id_.endswith(":double") and id_ not in expected]
    assert sorted(every) == sorted([*expected, *by_hand])
    # Of each document, changes come in the order in which they were made.
    times = {}
    entries = by_id(db.history.find())
    for id_ in every[len(logged) :]:
        times.setdefault(entries[id_]["Subject"]["Id"], []).append(entries[id_]["At"])
    assert all(of_one == sorted(of_one) for of_one in times.values())


def test_the_log_goes_on_behind_its_last_document(upgraded):
    db, new, found = upgraded.db, make_entry({"_id": guid()}), []
    lease = db.locks.find_one({"_id": "events"})
    assert lease["Number"] == last_event(db)["_id"]
    # Who takes the lease follows the stream from there.
    with db.history.watch([{"$match": {"operationType": "insert"}}], **lease["Start"]) as stream:
        db.history.insert_one(new)
        while change := stream.try_next():
            found.append(change["documentKey"]["_id"])
    assert found[-1] == new["_id"]
    assert missing(db, found) == [new["_id"]]
    db.history.delete_one({"_id": new["_id"]})


def test_doubles_are_reported_and_kept(upgraded):
    history, reports = upgraded.db.history, upgraded.said
    for report in (
        *("the same IdempotencyKey, 'welcome 1'", "the same IdempotencyKey, 'welcome 2'"),
        *("the same Undoes", "contains 1 values that are no entries"),
    ):
        assert [report in one for one in reports].count(True) == 1
    assert len(reports) == 4
    (first,) = history.find({"IdempotencyKey": "welcome 1"})
    double = history.find_one({"_id": f"{first['_id']}:double"})
    assert first["At"] < double["At"]
    # The one that was still in a Journal is the younger one.
    assert history.find_one({"IdempotencyKey": "welcome 2"})["Answer"] != {"Twin": True}
    assert history.count_documents({"Answer.Twin": True}) == 1
    (undo,) = history.find({"IdempotencyKey": "undo 8"})
    assert history.count_documents({"Undoes": undo["Undoes"]}) == 1
    for twin in (first, undo):
        with pytest.raises(DuplicateKeyError):
            history.insert_one({**twin, "_id": "another"})


def test_batches_are_paused_and_counted(upgraded):
    for batch in upgraded.db.batches.find():
        former = upgraded.before["batches"][batch["_id"]]
        if former["State"] != "running":
            assert batch == former
            continue
        rows = upgraded.answers["As it is"][f"batches/{batch['_id']}/rows?pageSize=100"]
        verdicts = [row["Verdict"] for row in rows["Values"]]
        assert (batch["State"], batch["PausedWhy"]) == ("paused", upgrade.PAUSED_WHY)
        assert batch["Counts"]["Ready"] == verdicts.count("ready")
        assert batch["Counts"]["Done"] == verdicts.count("done")
    assert set(upgraded.db.batches.distinct("State")) == {"planned", "done", "paused"}


def fill(db, name):
    """Store the documents of a fixture, without what takes longer: validators and indexes."""
    for kind in db.list_collection_names():
        db[kind].delete_many({})
    for kind, plan in older_databases.read(name).items():
        if plan["documents"]:
            db[kind].insert_many(plan["documents"])


WRITES = {
    Collection: (
        *("insert_one", "insert_many", "update_one", "update_many", "delete_many"),
        *("bulk_write", "drop_index"),
    ),
    Database: ("drop_collection",),
}


def migrate_until(db, last):
    """Migrate, and die at the write of this number; return how many there were.

    Of a write of many documents, half are written; of one of a single document, nothing is.
    """
    writes = count()

    def dying(plain):
        def write(target, first, *args, **options):
            if next(writes) != last:
                return plain(target, first, *args, **options)
            if isinstance(first, list) and first[1:]:
                plain(target, first[: len(first) // 2], *args, **options)
            raise Killed

        return write

    with pytest.MonkeyPatch.context() as patch:
        for kind, names in WRITES.items():
            for name in names:
                patch.setattr(kind, name, dying(getattr(kind, name)))
        migrations.migrate(db)
    return next(writes)


@BOTH
def test_it_may_be_killed_at_any_write_and_started_again(db, name):
    fill(db, name)
    writes = migrate_until(db, None)
    expected = contents(db)
    for number in some(range(writes), 7):
        fill(db, name)
        with pytest.raises(Killed):
            migrate_until(db, number)
        migrations.migrate(db)
        assert contents(db) == expected


def test_processes_that_start_together_upgrade_it_together(db):
    found = []
    for processes in (1, 3):
        db.client.drop_database(db.name)
        older_databases.make(db, LAST)
        with ThreadPoolExecutor(processes) as pool:
            for future in [pool.submit(init_database, db, COLLECTIONS) for _ in range(processes)]:
                future.result()
        after = contents(db)
        events = after.pop("events").values()
        found.append((after, sorted(chain.from_iterable(e["Entries"] for e in events))))
    assert found[0] == found[1]


def test_an_entry_that_comes_meanwhile_stays_until_it_has_moved(db, monkeypatch):
    """A worker that nobody has stopped: what it writes between two looks is moved as well."""
    older_databases.make(db, LAST)
    player = db.players.find_one({"Name": "Hero05"})
    late = {**player["Journal"][0], "_id": f"player:{player['_id']}:77", "Stamp": bson.ObjectId()}
    late.pop("IdempotencyKey")
    catch_up = upgrade.catch_up

    def log_and_write(*args):
        catch_up(*args)
        if db.history.find_one({"_id": late["_id"]}) is None:
            more = {"$push": {"Journal": late}, "$set": {"Stamp": late["Stamp"]}}
            db.players.update_one({"_id": player["_id"]}, more, bypass_document_validation=True)

    monkeypatch.setattr(upgrade, "catch_up", log_and_write)
    init_database(db, COLLECTIONS)
    assert db.history.find_one({"_id": late["_id"]})
    assert missing(db, [late["_id"]]) == []
    player = db.players.find_one({"_id": player["_id"]})
    assert "Journal" not in player
    # Later, it can write no entry any more.
    db.players.update_one({"_id": player["_id"]}, {"$set": {"Journal": []}})
    with pytest.raises(WriteError, match="failed validation"):
        db.players.update_one({"_id": player["_id"]}, {"$push": {"Journal": late}})


# What is refused: the release, what is changed in one of its documents, and the refusal.
NOW = datetime.now(timezone.utc)
UNFINISHED = {
    "deletion of a player": ("players", {"DeletedAt": NOW}),
    "undo of a deletion": ("players", {"RestoredFrom": bson.ObjectId()}),
    "transfer of items": ("players", {"TransferPending": {"Id": bson.ObjectId(), "To": "x"}}),
    "approval": ("approvals", {"State": "approved"}),
    "erasure": ("erasures", {"FinishedAt": None}),
    "cancelled batch": ("batches", {"State": "cancelled", "IsAbandoned": True}),
}
REFUSED = [
    (
        *(LAST, "locks", {"Until": NOW + timedelta(days=1)}),
        *(upgrade.WorkersAlive, "stop the service on all machines"),
    ),
    (
        *(LAST, "users", {"ErasureDue": {"At": NOW, "By": "x"}}),
        *(upgrade.ErasuresDue, "begin or withdraw"),
    ),
    (
        *(FIRST, "schema", {"SchemaVersion": 11}),
        *(migrations.DatabaseTooOld, "quartermaster db init of 0.3.0 first"),
    ),
    *(
        (LAST, *UNFINISHED[what], upgrade.WorkUnfinished, rf"\({what}: 1\): run quartermaster db")
        for what in upgrade.UNFINISHED
    ),
]


@pytest.mark.parametrize(("name", "kind", "values", "error", "sentence"), REFUSED)
def test_what_the_older_release_must_finish_is_refused(db, name, kind, values, error, sentence):
    def everything():
        names = sorted(db.list_collection_names())
        return [(one, list(db[one].find()), db[one].options()) for one in names]

    older_databases.make(db, name)
    db[kind].update_one({}, {"$set": values}, bypass_document_validation=True)
    before = everything()
    with pytest.raises(error, match=sentence):
        init_database(db, COLLECTIONS)
    assert everything() == before


def test_a_mark_of_a_finished_transfer_or_a_value_of_a_game_is_none(db):
    older_databases.make(db, LAST)
    odd = {"TransferPending": None, "DeletedAt": "never", "RestoredFrom": 5}
    db.players.update_many({}, {"$set": odd}, bypass_document_validation=True)
    init_database(db, COLLECTIONS)
    assert db.players.count_documents({"$or": [{name: {"$exists": True}} for name in odd]}) == 0


@pytest.fixture
def clerk(upgraded, real_storage, make_app):
    """A caller of the service on the upgraded database."""
    options = {"MONGODB_URI": real_storage.uri, "MONGODB_DATABASE": upgraded.db.name}
    app = make_app(config.load({"QM_ENV": "testing"}, **options))
    headers = World(app).headers(user=upgraded.db.users.find_one({"Name": "Clerk"}))
    return Caller(app.test_client(), headers, "/api/v1/")


def agrees(answer, former):
    """Return whether an answer has all that a former one had; it may have further fields."""
    if isinstance(former, dict):
        return isinstance(answer, dict) and all(
            name in answer and agrees(answer[name], value) for name, value in former.items()
        )
    if isinstance(former, list):
        return len(answer) == len(former) and all(map(agrees, answer, former))
    return answer == former


# What the upgrade changes on purpose, and what counts requests.
CHANGED = {"LastUsedAt", "LastSignInAt", "Scopes", "PausedWhy", "State", "Counts", "IndexedAt"}


def comparable(value):
    """Return an answer without what may differ, and without empty slots."""
    if isinstance(value, dict):
        return {name: comparable(v) for name, v in value.items() if name not in CHANGED}
    if isinstance(value, list):
        return [
            comparable(one)
            for one in value
            if not (isinstance(one, dict) and "StatBuffs" in one and one.get("Quantity") == 0)
        ]
    return value


def test_the_service_answers_as_the_release_did(upgraded, clerk):
    for path, former in upgraded.answers["As it is"].items():
        assert agrees(comparable(clerk(f"GET {path}").json), comparable(former)), path
    after = ""
    for page in upgraded.answers["History"]:
        # Cursors of history, unlike those of events, are not valid beyond the next release.
        answer = clerk(f"GET history?pageSize=40&after={after}").json
        after = answer["Next"]
        assert [entry["Id"] for entry in answer["Values"]] == [e["Id"] for e in page["Values"]]
        for entry, former in zip(answer["Values"], page["Values"], strict=True):
            # Of two undos of one change, one is its undo.
            gone = {"UndoneBy", "Undoes"} if "double" in str(former) else set()
            assert agrees(entry, {n: v for n, v in former.items() if n not in gone})
    assert after is None
    for page in upgraded.answers["Events after a cursor"]:
        answer = clerk(f"GET events?pageSize=40&after={page['After']}").json
        assert [event["Id"] for event in answer["Values"]][: len(page["Ids"])] == page["Ids"]


# Undos of 0.3.0 had other fingerprints, so the last release refused them, too.
REFUSED_KEYS = {FIRST: {"undo 8", "restore 12", "left undo"}, LAST: set()}
REPEATED = {FIRST: 45, LAST: 51}


def test_a_request_with_a_former_key_is_answered_from_history(upgraded, clerk):
    history = upgraded.db.history
    entries = history.count_documents({})
    # Those about somebody who was erased have no key any more, and others never had one.
    keys = {*history.distinct("IdempotencyKey")} - {"by key", "undo of transfer"}
    repeated = 0
    for request in upgraded.answers["Keys"]:
        key, path = request["Key"], request["Path"]
        # Renamed since, the player has another path.
        if key in keys - REFUSED_KEYS[upgraded.name] and "Hero07" not in path:
            answer = clerk(f"{request['Method']} {path}", request["Body"], Idempotency_Key=key)
            assert "Idempotency-Replayed" in answer.headers, (path, key)
            assert agrees(answer.json, request["Answer"]), (path, key)
            repeated += 1
    assert repeated == REPEATED[upgraded.name]
    assert history.count_documents({}) == entries
