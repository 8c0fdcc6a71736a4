"""Databases with Journals become databases with transactions: nothing is lost, and nothing doubled.

The fixtures were written by the releases themselves, and so was what is expected of them
(tests/older/README.rst).
"""

import json
import logging
from base64 import urlsafe_b64decode
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, count

import bson
import pytest
from pymongo.errors import DuplicateKeyError, WriteError

import config
from app.database import COLLECTIONS
from app.privacy.store import Erasures
from app.storage.events import BEGINNING, Position, entries_after, last_event, missing
from app.storage.schema import migrations, upgrade
from app.storage.schema.collections import differences, init_database
from tests import older_databases
from tests.applications import service
from tests.changes import meant
from tests.factories import World, guid, make_entry
from tests.tiers import some

FIRST, LAST = "release_0_3_0", "before_transactions"
BOTH = pytest.mark.parametrize("name", [FIRST, LAST])
# Without the parts of batches, which the rows have no more.
TODAYS = [plan for plan in COLLECTIONS if plan.name != "batch_parts"]
ADDED = {"FormerNames", "Scopes", "Invitation"}
# What is derived anew, and what only Journals and marks needed.
NOT_KEPT = {*upgrade.MARKS, *upgrade.BOOKKEEPING, *ADDED}


@pytest.fixture
def db(real_storage):
    """A database of its own, which does not outlive the test."""
    yield real_storage.client["upgraded"]
    real_storage.client.drop_database("upgraded")


@pytest.fixture
def older(db):
    """Return what makes the database of a release, and returns its documents by id."""

    def make(name):
        found = older_databases.make(db, name)
        return {kind: by_id(documents) for kind, documents in found.items()}

    return make


@pytest.fixture
def upgraded_app(db, real_storage, make_app):
    """Return a maker of an application on an upgraded database."""

    def make():
        init_database(db, COLLECTIONS)
        settings = config.load(
            {"QM_ENV": "testing"}, MONGODB_URI=real_storage.uri, MONGODB_DATABASE=db.name
        )
        return make_app(settings)

    return make


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


def in_json(value):
    """Return a value as an answer has it."""
    return json.loads(json.dumps(value, default=lambda time: time.astimezone().isoformat()))


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def entries_of(answers):
    """Return the entries that a release serves, by id."""
    return {entry["Id"]: entry for page in answers["History"] for entry in page["Values"]}


@BOTH
def test_the_database_becomes_todays(db, older, name):
    older(name)
    init_database(db, TODAYS)
    assert migrations.version_of(db) == migrations.CURRENT
    assert [*differences(db, TODAYS)] == []
    for plan in TODAYS:
        planned = {index.document["name"] for index in plan.indexes}
        assert db[plan.name].index_information().keys() - {"_id_"} == planned
        assert db[plan.name].find_one({"$nor": [{"$jsonSchema": plan.shape}]}) is None
    assert "batch_parts" not in db.list_collection_names()


@BOTH
def test_documents_keep_all_that_is_not_of_journals(db, older, name):
    before = older(name)
    init_database(db, TODAYS)
    for kind in before.keys() - {"schema", "locks", *upgrade.GONE_COLLECTIONS}:
        after = by_id(db[kind].find())
        if kind in ("history", "events"):
            assert after.keys() >= before[kind].keys()
        elif kind == "deleted_players":
            assert after.keys() == {i for i, d in before[kind].items() if d["Player"]}
        else:
            assert after.keys() == before[kind].keys()
    for kind, gone in upgrade.GONE.items():
        for id_, document in before.get(kind, {}).items():
            after = db[kind].find_one({"_id": id_})
            assert not after.keys() & {*gone}
            kept = {n: v for n, v in document.items() if n not in {*gone, *ADDED, "Keys"}}
            assert {n: v for n, v in after.items() if n not in {*ADDED, "Keys"}} == kept
            assert {"Version", "ChangedAt"} & document.keys() <= after.keys()


@BOTH
def test_deleted_players_can_be_restored(db, older, name):
    before = older(name)["deleted_players"]
    init_database(db, TODAYS)
    copies = by_id(db.deleted_players.find())
    assert len(copies) == 2
    for id_, copy in copies.items():
        player, former = copy["Player"], before[id_]["Player"]
        assert not NOT_KEPT & {*player} - ADDED
        assert player.items() >= {n: v for n, v in former.items() if n not in NOT_KEPT}.items()
        assert (copy["DeletedAt"], copy["UserId"]) == (before[id_]["DeletedAt"], player["UserId"])
        assert "Stamp" not in copy


@BOTH
def test_each_entry_is_served_as_before(db, older, name):
    older(name)
    init_database(db, TODAYS)
    answers = older_databases.answers(name)
    served, stored = entries_of(answers), by_id(db.history.find())
    assert sorted(stored) == answers["Entries"]
    assert stored.keys() == served.keys()
    undone = {entry["Undoes"]: id_ for id_, entry in stored.items() if "Undoes" in entry}
    for id_, entry in stored.items():
        answer = served[id_]
        assert entry["At"] == moment(answer["At"])
        assert {"Key": None, **entry["By"]} == answer["By"]
        for field in ("Operation", "Via", "RequestId", "Reason", "Subject"):
            assert entry[field] == answer[field]
        for field in ("Arguments", "Changes"):
            assert without_times(entry[field]) == without_times(answer[field])
        assert "Authors" in entry
        assert "ExpiresAt" in entry
        if "double" not in id_:
            assert entry.get("Undoes") == answer["Undoes"]
            assert bool(undone.get(id_)) == bool(answer["UndoneBy"])
    newest = sorted(stored.values(), key=lambda entry: (entry["At"], entry["_id"]), reverse=True)
    assert [entry["_id"] for entry in newest] == [*served]


def without_times(value):
    """Return a value whose times are not compared: JSON has texts for them."""
    if isinstance(value, dict):
        return {name: without_times(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [*map(without_times, value)]
    if isinstance(value, datetime):
        return None
    try:
        return None if isinstance(value, str) and moment(value) else value
    except ValueError:
        return value


def place_in(cursor):
    """Return the position in the log that a cursor of events stands for."""
    encoded = cursor.partition(".")[0]
    position = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    found = bson.decode(position.removeprefix(b"events "))
    return Position(found["N"], found["O"], found["S"])


@BOTH
def test_events_follow_in_their_order_and_cursors_stay_valid(db, older, name):
    before = older(name)["events"]
    init_database(db, TODAYS)
    answers = older_databases.answers(name)
    for number, event in before.items():
        assert db.events.find_one({"_id": number}) == event
    logged = [id_ for event in before.values() for id_ in event["Entries"]]
    every = [id_ for id_, _ in entries_after(db, BEGINNING)]
    expected = list(chain.from_iterable(page["Ids"] for page in answers["Events"]))
    assert every[: len(logged)] == logged == expected[: len(logged)]
    # Those that a release never moved itself, it had not logged either.
    by_hand = [id_ for id_ in every if id_.endswith(":double") and id_ not in expected]
    assert sorted(every) == sorted([*expected, *by_hand])
    assert len({*every}) == len(every)
    # Of each document, changes come in the order in which they were made.
    entries = by_id(db.history.find())
    for subject in {entry["Subject"]["Id"] for entry in entries.values()}:
        own = [entries[id_] for id_ in every[len(logged) :]]
        times = [entry["At"] for entry in own if entry["Subject"]["Id"] == subject]
        assert times == sorted(times)
    pages = answers["Events after a cursor"]
    for page, following in zip(pages, [*pages[1:], {"Ids": []}], strict=True):
        after = [id_ for id_, _ in entries_after(db, place_in(page["After"]))]
        assert after[: len(page["Ids"])] == page["Ids"]
        assert after[len(page["Ids"]) :][: len(following["Ids"])] == following["Ids"]
    for page in answers["Events"][1:]:
        if place_in(page["After"]).number <= max(before):
            after = [id_ for id_, _ in entries_after(db, place_in(page["After"]))]
            assert set(page["Ids"]) <= {*after}


@BOTH
def test_the_log_goes_on_behind_its_last_document(db, older, name):
    older(name)
    init_database(db, TODAYS)
    lease, last = db.locks.find_one({"_id": "events"}), last_event(db)
    assert lease["Number"] == last["_id"]
    # Who takes the lease follows the stream from there.
    new = make_entry({"_id": guid()})
    start = lease["Start"]
    with db.history.watch([{"$match": {"operationType": "insert"}}], **start) as stream:
        db.history.insert_one(new)
        found = []
        while change := stream.try_next():
            found.append(change["documentKey"]["_id"])
    assert found[-1] == new["_id"]
    assert missing(db, found) == [new["_id"]]


def keyed(entries):
    """Return entries by their Idempotency-Keys and subjects."""
    return [
        ((entry["IdempotencyKey"], entry["Subject"]["Id"], entry["Subject"]["Kind"]), entry)
        for entry in entries
        if "IdempotencyKey" in entry
    ]


@BOTH
def test_each_key_is_remembered_with_its_answer(db, older, name):
    before = older(name)
    init_database(db, TODAYS)
    stored = keyed(db.history.find())
    journals = chain.from_iterable(before.get(kind, {}).values() for kind in upgrade.GONE)
    moved = chain.from_iterable(document["Journal"] for document in journals)
    expected = keyed([*before["history"].values(), *moved])
    assert sorted(key for key, _ in stored) == sorted({key for key, _ in expected})
    by_key = {key: entry for (key, *_), entry in stored}
    found = 0
    for request in older_databases.answers(name)["Keys"]:
        if request["Key"] == "plan":
            assert db.batches.count_documents({"_id": request["Answer"]["Id"]}) == 1
        elif request["Key"].startswith("ask "):
            assert db.approvals.count_documents({"_id": request["Answer"]["Id"]}) == 1
        elif entry := by_key.get(request["Key"]):
            found += 1
            assert entry["Fingerprint"]
            # The answer of a note is made from the id that is stored.
            if isinstance(entry.get("Answer"), dict):
                assert in_json(entry["Answer"]) == request["Answer"]
    assert found >= 40


@BOTH
def test_doubles_are_reported_and_kept(db, older, name, caplog):
    older(name)
    with caplog.at_level(logging.WARNING, "quartermaster"):
        init_database(db, TODAYS)
    said = [record.getMessage() for record in caplog.records]
    assert sum("the same IdempotencyKey, 'welcome 1'" in one for one in said) == 1
    assert sum("the same IdempotencyKey, 'welcome 2'" in one for one in said) == 1
    assert sum("the same Undoes" in one for one in said) == 1
    assert sum("contains 1 values that are no entries" in one for one in said) == 1
    assert len(said) == 4
    (first,) = db.history.find({"IdempotencyKey": "welcome 1"})
    double = db.history.find_one({"_id": f"{first['_id']}:double"})
    assert first["At"] < double["At"]
    assert double["Fingerprint"] == first["Fingerprint"]
    # The one that was still in a Journal is the younger one.
    assert db.history.find_one({"IdempotencyKey": "welcome 2"})["Answer"] != {"Twin": True}
    assert db.history.count_documents({"Answer.Twin": True}) == 1
    (undo,) = db.history.find({"IdempotencyKey": "undo 8"})
    assert db.history.count_documents({"Undoes": undo["Undoes"]}) == 1
    for twin in (first, undo):
        with pytest.raises(DuplicateKeyError):
            db.history.insert_one({**twin, "_id": "another"})


@BOTH
def test_batches_are_paused_and_counted(db, older, name):
    before = older(name)["batches"]
    init_database(db, TODAYS)
    served = older_databases.answers(name)["As it is"]
    for batch in db.batches.find():
        former = before[batch["_id"]]
        rows = served[f"batches/{batch['_id']}/rows?pageSize=100"]["Values"]
        verdicts = [row["Verdict"] for row in rows]
        assert batch["Counts"]["Ready"] == verdicts.count("ready")
        assert batch["Counts"]["Done"] == verdicts.count("done")
        if former["State"] == "running":
            assert (batch["State"], batch["PausedWhy"]) == ("paused", upgrade.PAUSED_WHY)
        else:
            assert batch == former
    assert {"planned", "done", "paused"} == set(db.batches.distinct("State"))


def test_who_was_erased_is_erased_again(db, older, upgraded_app):
    """A killed worker may have left a name in a Journal: db check --repair finds it."""
    before = older(LAST)
    (record,) = before["erasures"].values()
    player = db.players.find_one({"Name": "Hero05"})
    named = {**player["Journal"][0], "Stamp": bson.ObjectId(), "_id": f"player:{player['_id']}:99"}
    named |= {"By": {"UserId": record["_id"], "Name": "Mallory", "Key": "hers"}}
    db.players.update_one({"_id": player["_id"]}, {"$push": {"Journal": named}})
    about = {**named, "Stamp": bson.ObjectId(), "_id": f"player:{record['Players'][0]}:99"}
    about["Subject"] = {"Kind": "player", "Id": record["Players"][0], "Name": "Hero16"}
    db.players.update_one({"_id": player["_id"]}, {"$push": {"Journal": about}})
    app = upgraded_app()
    (after,) = db.erasures.find()
    assert not after.keys() & {*upgrade.GONE_OF_ERASURES}
    assert after["Players"] == record["Players"]
    assert after["FinishedAt"] == record["FinishedAt"]
    erasures = service(app, Erasures)
    erasures.erase_again([*erasures.find_returned()], meant("erase"))
    text = repr(contents(db))
    assert "Mallory" not in text
    assert "Hero16" not in text


class Killed(BaseException):
    """Stands in for kill -9."""


class Fragile:
    """A database that dies at one of its writes: before it, in its middle, or after it."""

    WRITES = {
        *("insert_one", "insert_many", "update_one", "update_many", "delete_many", "bulk_write"),
        *("drop_index", "drop_collection"),
    }

    def __init__(self, inner, number, moment, writes=None):
        self._inner, self._number, self._moment = inner, number, moment
        self._writes = count() if writes is None else writes

    def _wrapped(self, inner):
        return Fragile(inner, self._number, self._moment, self._writes)

    def __getitem__(self, name):
        return self._wrapped(self._inner[name])

    def with_options(self, *args, **options):
        return self._wrapped(self._inner.with_options(*args, **options))

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        return partial(self._write, value) if name in self.WRITES else value

    def _write(self, write, first, *args, **options):
        if next(self._writes) != self._number:
            return write(first, *args, **options)
        if self._moment == "after":
            write(first, *args, **options)
        elif isinstance(first, list) and first[1:]:
            write(first[: len(first) // 2], *args, **options)
        raise Killed

    def count(self):
        return next(self._writes)


def fill(db, name):
    """Store the documents of a fixture, without what takes longer: validators and indexes."""
    for kind in db.list_collection_names():
        db[kind].delete_many({})
    for kind, plan in older_databases.read(name).items():
        if plan["documents"]:
            db[kind].insert_many(plan["documents"])


# Of a write of many documents, half are written; before one of a single document, nothing is.
@BOTH
@pytest.mark.parametrize("moment", ["in the middle", "after"])
def test_it_may_be_killed_at_any_write_and_started_again(db, name, moment):
    fill(db, name)
    whole = Fragile(db, -1, moment)
    migrations.migrate(whole)
    expected, writes = contents(db), whole.count()
    for number in some(range(writes), 7):
        fill(db, name)
        with pytest.raises(Killed):
            migrations.migrate(Fragile(db, number, moment))
        migrations.migrate(db)
        assert contents(db) == expected


@BOTH
def test_processes_that_start_together_upgrade_it_together(db, older, name):
    older(name)
    init_database(db, TODAYS)
    expected = contents(db)
    db.client.drop_database(db.name)
    older(name)
    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(init_database, db, TODAYS) for _ in range(3)]:
            future.result()
    after = contents(db)
    logged = [
        sorted(chain.from_iterable(e["Entries"] for e in found.pop("events").values()))
        for found in (after, expected)
    ]
    assert logged[0] == logged[1]
    assert after == expected


def test_an_entry_that_comes_meanwhile_stays_until_it_has_moved(db, older, monkeypatch):
    """A worker that nobody has stopped: what it writes between two looks is moved as well."""
    older(LAST)
    player = db.players.find_one({"Name": "Hero05"})
    late = {**player["Journal"][0], "_id": f"player:{player['_id']}:77", "Stamp": bson.ObjectId()}
    catch_up = upgrade.catch_up

    def log_and_write(*args):
        catch_up(*args)
        if db.history.find_one({"_id": late["_id"]}) is None:
            more = {"$push": {"Journal": late}, "$set": {"Stamp": late["Stamp"]}}
            db.players.update_one({"_id": player["_id"]}, more, bypass_document_validation=True)

    monkeypatch.setattr(upgrade, "catch_up", log_and_write)
    late.pop("IdempotencyKey")
    init_database(db, TODAYS)
    assert db.history.find_one({"_id": late["_id"]})
    assert missing(db, [late["_id"]]) == []
    assert "Journal" not in db.players.find_one({"_id": player["_id"]})


@BOTH
def test_a_worker_that_nobody_has_stopped_can_write_no_entry_later(db, older, name):
    player = next(p for p in older(name)["players"].values() if p["Journal"])
    init_database(db, TODAYS)
    where = {"_id": player["_id"]}
    db.players.update_one(where, {"$set": {"Journal": []}})
    with pytest.raises(WriteError, match="failed validation"):
        db.players.update_one(where, {"$push": {"Journal": player["Journal"][0]}})


# What is refused


def refused(db, error, match):
    """Expect a refusal, which leaves the database as it is."""
    before = {name: by_id(db[name].find()) for name in db.list_collection_names()}
    options = {name: db[name].options() for name in before}
    with pytest.raises(error, match=match):
        init_database(db, TODAYS)
    assert {name: by_id(db[name].find()) for name in db.list_collection_names()} == before
    assert {name: db[name].options() for name in before} == options


def test_it_waits_until_no_worker_of_the_older_release_is_alive(db, older):
    older(LAST)
    soon = datetime.now(timezone.utc) + timedelta(seconds=60)
    db.locks.update_one({"_id": "events"}, {"$set": {"Until": soon}})
    refused(db, upgrade.WorkersAlive, "stop the service on all machines")
    db.locks.update_one({"_id": "events"}, {"$set": {"Until": soon - timedelta(minutes=2)}})
    init_database(db, TODAYS)


ID = guid()
MARKED = {
    "deletion of a player": ("players", {"DeletedAt": datetime.now(timezone.utc)}),
    "undo of a deletion": ("players", {"RestoredFrom": bson.ObjectId()}),
    "transfer of items": ("players", {"TransferPending": {"Id": bson.ObjectId(), "To": ID}}),
    "approval": ("approvals", {"State": "approved"}),
    "erasure": ("erasures", {"FinishedAt": None}),
    "cancelled batch": ("batches", {"State": "cancelled", "IsAbandoned": True}),
}


@pytest.mark.parametrize("what", upgrade.UNFINISHED)
def test_unfinished_work_is_finished_by_the_older_release(db, older, what):
    older(LAST)
    kind, mark = MARKED[what]
    id_ = db[kind].find_one()["_id"]
    db[kind].update_one({"_id": id_}, {"$set": mark}, bypass_document_validation=True)
    refused(db, upgrade.WorkUnfinished, rf"\({what}: 1\): run quartermaster db check --repair")


def test_a_mark_of_a_finished_transfer_or_a_value_of_a_game_is_none(db, older):
    older(LAST)
    odd = {"TransferPending": None, "DeletedAt": "never", "RestoredFrom": 5}
    db.players.update_many({}, {"$set": odd}, bypass_document_validation=True)
    init_database(db, TODAYS)
    assert db.players.count_documents({"$or": [{name: {"$exists": True}} for name in odd]}) == 0


def test_a_planned_erasure_is_begun_or_withdrawn_first(db, older):
    older(LAST)
    due = {"ErasureDue": {"At": datetime.now(timezone.utc), "By": ID}}
    db.users.update_one({"Name": "Alice"}, {"$set": due}, bypass_document_validation=True)
    refused(db, upgrade.ErasuresDue, r"\(Alice\): begin or withdraw")


def test_a_database_of_an_older_release_is_refused(db, older):
    older(FIRST)
    db.schema.update_one({}, {"$set": {"SchemaVersion": 11}})
    refused(db, migrations.DatabaseTooOld, "quartermaster db init of 0.3.0 first")


# What the service answers then


@pytest.fixture
def clerk(db, upgraded_app):
    """Return a maker of a caller who is signed in, on an upgraded database."""

    def sign_in():
        app = upgraded_app()
        headers = World(app).headers(user=db.users.find_one({"Name": "Clerk"}))
        client = app.test_client()

        def call(method, path, body=None, key=None):
            keyed = {"Idempotency-Key": key} if key else {}
            options = {"json": body, "headers": {**headers, **keyed}}
            return client.open(f"/api/v1/{path}", method=method, **options)

        return call

    return sign_in


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
    if isinstance(value, dict):
        return {name: comparable(v) for name, v in value.items() if name not in CHANGED}
    if isinstance(value, list):
        return [comparable(one) for one in value if not is_empty_slot(one)]
    return value


def is_empty_slot(value):
    return isinstance(value, dict) and value.get("Quantity") == 0 and "StatBuffs" in value


@BOTH
def test_the_service_answers_as_the_release_did(db, older, clerk, name):
    older(name)
    call, answers = clerk(), older_databases.answers(name)
    for path, former in answers["As it is"].items():
        answer = call("GET", path)
        assert answer.status_code == 200
        assert agrees(comparable(answer.json), comparable(former)), path
    after = ""
    for page in answers["History"]:
        # Cursors of history, unlike those of events, are not valid beyond the next release.
        answer = call("GET", f"history?pageSize=40&after={after}").json
        after = answer["Next"]
        assert [entry["Id"] for entry in answer["Values"]] == [e["Id"] for e in page["Values"]]
        for entry, former in zip(answer["Values"], page["Values"], strict=True):
            # Of two undos of one change, one is its undo.
            gone = {"UndoneBy", "Undoes"} if "double" in str(former) else set()
            assert agrees(entry, {n: v for n, v in former.items() if n not in gone})
    for page in answers["Events after a cursor"][:1]:
        answer = call("GET", f"events?pageSize=40&after={page['After']}").json
        assert [event["Id"] for event in answer["Values"]] == page["Ids"]


# Undos of 0.3.0 had other fingerprints, so the last release refused them, too.
REFUSED = {FIRST: {"undo 8", "restore 12", "left undo"}, LAST: set()}
OF_TRANSFER = "undo of transfer"


@BOTH
def test_a_request_with_a_former_key_is_answered_from_history(db, older, clerk, name):
    older(name)
    call, answers = clerk(), older_databases.answers(name)
    entries = db.history.count_documents({})
    # Those about somebody who was erased have no key any more, and others never had one.
    keys = {*db.history.distinct("IdempotencyKey")} - {"by key", OF_TRANSFER} - REFUSED[name]
    repeated = 0
    for request in answers["Keys"]:
        key, path = request["Key"], request["Path"]
        # Renamed since, the player has another path.
        if key not in keys or "Hero07" in path:
            continue
        answer = call(request["Method"], path, request["Body"], key)
        assert answer.status_code == 200, (path, key, answer.json)
        assert "Idempotency-Replayed" in answer.headers, (path, key)
        assert agrees(answer.json, request["Answer"]), (path, key)
        repeated += 1
    assert repeated >= 40
    assert db.history.count_documents({}) == entries
