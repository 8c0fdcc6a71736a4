"""A change and its entry are one transaction: nothing is lost, nothing is made twice."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pymongo
import pytest
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, PyMongoError

from app.core.changes import Change
from app.core.errors import Busy, Conflict, OutcomeUnknown
from app.core.naming import Lookup
from app.storage import transactions
from app.storage.changes import fresh_version
from app.storage.client import Storage
from tests import changes
from tests.applications import service
from tests.changes import meant
from tests.endpoint_table import DOORS
from tests.factories import numbered_guid
from tests.mongod import on_mongodb
from tests.tiers import some

READS = ("Variables",)
COUNTER = numbered_guid(1)
ADD = meant("add")


def add(amount, player):
    """A rule: count up a variable, and say what it is now."""
    total = player["Variables"].get(COUNTER, 0) + amount
    return Change({"Variables": {**player["Variables"], COUNTER: total}}, {"total": total})


def leave(player):
    """A rule that changes nothing."""
    return Change({"Variables": player["Variables"]}, "same")


@pytest.fixture
def storage(app):
    return service(app, Storage)


@pytest.fixture
def change(storage, player):
    return lambda rule, intent=ADD: changes.change(
        storage, {"_id": player["_id"]}, READS, rule, intent
    )


def total(db):
    return db.players.find_one()["Variables"].get(COUNTER, 0)


def test_a_key_belongs_to_one_player(storage, world, change):
    intent = meant("add", "key-1", "print")
    change(partial(add, 5), intent)
    where = {"_id": world.add_player()["_id"]}
    assert not changes.change(storage, where, READS, partial(add, 1), intent).replayed


def test_a_key_is_remembered_for_a_change_that_changed_nothing(change):
    intent = meant("set", "k", "print")
    assert not change(leave, intent).replayed
    assert change(partial(add, 5), intent)[:2] == ("same", True)


def test_fresh_versions_are_later_than_counted_ones():
    assert fresh_version() > 10**13


def test_what_fails_after_a_write_leaves_nothing_and_takes_no_further_step(db, storage, player):
    taken = []

    def write(refusal=None):
        db.players.update_one({}, {"$set": {"Level": 9}})
        transactions.after_commit(partial(taken.append, refusal))
        if refusal:
            raise refusal

    with pytest.raises(Conflict):
        storage.transactions.run(partial(write, Conflict("No.")))
    assert (db.players.find_one(), taken) == (player, [])
    storage.transactions.run(write)
    assert (db.players.find_one()["Level"], taken) == (9, [None])


@on_mongodb
def test_a_plain_write_between_read_and_write_is_noticed(db, player, change):
    rivals = iter([3, 4])

    def overtaken(document):
        if amount := next(rivals, None):
            # A game writes after the change has read.
            with ThreadPoolExecutor(1) as game:
                path, where = f"Variables.{COUNTER}", {"_id": player["_id"]}
                game.submit(db.players.update_one, where, {"$inc": {path: amount}}).result()
        return add(10, document)

    assert change(overtaken).answer == {"total": 17}


@on_mongodb
def test_whoever_is_always_overtaken_is_told_to_come_back(db, player, change, monkeypatch):
    monkeypatch.setattr(transactions, "PATIENCE_SECONDS", 0.05)

    def always_overtaken(document):
        with ThreadPoolExecutor(1) as game:
            game.submit(db.players.update_one, {}, {"$inc": {"Version": 1}}).result()
        return add(1, document)

    with pytest.raises(Busy, match="Too many changes to this player"):
        change(always_overtaken)
    assert total(db) == 0


@on_mongodb
def test_of_many_requests_with_one_key_at_once_one_is_applied(db, change):
    """A client that gives up waiting and repeats races itself."""
    intent = meant("add", "one key", "print")
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: change(partial(add, 5), intent), range(12)))
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 11
    assert {answer.answer["total"] for answer in answers} == {total(db)} == {5}
    assert db.history.count_documents({}) == 1


@on_mongodb
def test_threads_of_one_worker_take_turns_instead_of_retrying(storage, player):
    decided = []
    one = changes.Changes(storage, changes.SUBJECTS["players"])

    def rule(player):
        decided.append(player)
        return add(1, player)

    def send(_):
        return one.change(Lookup.parse(player["_id"]), READS, rule, ADD).answer["total"]

    with ThreadPoolExecutor(16) as pool:
        assert sorted(pool.map(send, range(60))) == list(range(1, 61))
    assert len(decided) == 60, "a retry decides again"


def test_whoever_waits_for_a_turn_too_long_goes_on_without_it(storage, monkeypatch):
    monkeypatch.setattr(transactions, "PATIENCE_SECONDS", 0.05)
    run = partial(storage.transactions.run, list, turn="player")
    with storage.transactions._turns[hash("player") % transactions.TURNS]:
        assert run() == []
    assert run() == []


@on_mongodb
@pytest.mark.parametrize(("key", "expected"), [(None, OutcomeUnknown), ("k", AutoReconnect)])
@pytest.mark.parametrize("is_made", [True, False])
def test_a_commit_that_is_not_confirmed_is_told_apart_by_its_key(
    db, change, monkeypatch, key, expected, is_made
):
    monkeypatch.setattr(transactions, "PATIENCE_SECONDS", 0.05)
    plain = ClientSession.commit_transaction

    def unconfirmed(session):
        if is_made:
            plain(session)
        error = AutoReconnect("away")
        error._add_error_label("UnknownTransactionCommitResult")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(ClientSession, "commit_transaction", unconfirmed)
        with pytest.raises(expected):
            change(partial(add, 5), meant("add", key, "print"))
        # A change that was refused has certainly not been made.
        with pytest.raises(AutoReconnect):
            change(leave, meant("leave"))
    assert total(db) == (5 if is_made else 0)
    if key:
        assert change(partial(add, 5), meant("add", key, "print")).replayed is is_made
        assert total(db) == 5


@on_mongodb
def test_a_request_that_times_out_in_the_middle_leaves_nothing_locked(db, player, storage):
    def be_late():
        db.players.update_one({}, {"$set": {"Level": 9}})
        time.sleep(0.3)
        db.players.find_one({})

    with pytest.raises(PyMongoError), pymongo.timeout(0.2):
        storage.transactions.run(be_late)
    # Far less than the lifetime of a transaction, after which MongoDB would free it.
    with pymongo.timeout(1):
        db.players.update_one({}, {"$set": {"Exp": 7}})
    assert db.players.find_one() == {**player, "Exp": 7}


@on_mongodb
def test_an_account_that_may_not_skip_validation_undoes_all_the_same(
    staff, player, db, monkeypatch
):
    """MongoDB's role readWrite does not include it."""
    made = staff(f"POST players/{player['_id']}/level", {"level": 7}).headers["X-History-Id"]
    plain = Collection.update_one

    def forbid(collection, *args, **options):
        if options.get("bypass_document_validation"):
            raise pymongo.errors.OperationFailure("not authorized", 13)
        return plain(collection, *args, **options)

    monkeypatch.setattr(Collection, "update_one", forbid)
    staff(f"POST history/{made}/undo")
    assert db.players.find_one()["Level"] == player["Level"]


NOBODY = {"player": "Nobody", "user": "Nobody", "guild": COUNTER, "letter": COUNTER}
CHANGES_OF_NOBODY = [
    door
    for door in DOORS
    if door.method != "GET" and {*door.variables} & {*NOBODY} and "/v1/" in door.route
]


@on_mongodb
@pytest.mark.parametrize("door", some(CHANGES_OF_NOBODY, 9), ids=lambda door: door.route)
def test_nobody_is_told_to_be_missing_by_a_primary_that_is_cut_off(staff, door):
    request = f"{door.method} {door.path_with(NOBODY).removeprefix('/api/v1/')}"
    with pytest.MonkeyPatch.context() as patch:
        changes.cut_off(patch)
        staff(request, door.body, 503)
    assert staff(request, door.body, 404).json["Code"] != "NO_SUCH_PATH"
