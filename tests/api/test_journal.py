"""The way of entries from journals to history, whoever dies or writes on it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import mongomock
import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from app.changes import JOURNAL_LENGTH
from app.database import SUBJECTS
from app.errors import Busy
from app.storage import journal
from app.storage.journal import Journals
from app.storage.mover import Mover
from app.variables.domain import assign
from tests.factories import NOW, make_player, numbered_guid
from tests.swaps import journals_of, meant, move_all, swap, swapper_of

VARIABLE = numbered_guid(1)
PLAYER = SUBJECTS["players"]


def change(db, player, value, **options):
    reads = (f"Variables.{VARIABLE}",)
    rule = partial(assign, variable_id=VARIABLE, value=value)
    intent = meant("set-variable", **options)
    return swap(db, {"_id": player["_id"]}, reads, rule, intent)


def change_patiently(db, player, value):
    """Change again after a Busy, by which nothing was written: a machine may be slow."""
    while True:
        try:
            return change(db, player, value)
        except Busy:
            continue


def versions(db, player):
    """Return the versions of all entries of a player, in history and in the journal."""
    moved = [entry["Version"] for entry in db.history.find({"Subject.Id": player["_id"]})]
    held = db.players.find_one({"_id": player["_id"]})["Journal"]
    return sorted(moved), [entry["Version"] for entry in held]


@pytest.fixture
def player(world):
    return world.add_player()


def test_entries_move_once_and_leave_the_document_as_it_was(db, player):
    for value in range(3):
        change(db, player, value)
    before = db.players.find_one({"_id": player["_id"]})
    for _ in range(2):
        journals_of(db).move(PLAYER, [player["_id"]])
    assert versions(db, player) == ([1, 2, 3], [])
    assert db.players.find_one({"_id": player["_id"]}) == {**before, "Journal": []}


class Killed(Exception):
    """The process is no more."""


@pytest.mark.parametrize("step", ["_archive", "_remove"])
@pytest.mark.parametrize("is_done", [False, True])
def test_whoever_is_killed_at_a_step_leaves_it_to_the_next(db, player, monkeypatch, step, is_done):
    for value in range(3):
        change(db, player, value)
    real = getattr(Journals, step)

    def killed(*args):
        if is_done:
            real(*args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journals, step, killed)
        with pytest.raises(Killed):
            journals_of(db).move(PLAYER, [player["_id"]])
    change(db, player, 3)
    journals_of(db).move(PLAYER, [player["_id"]])
    assert versions(db, player) == ([1, 2, 3, 4], [])


def test_an_entry_that_comes_while_others_move_stays(db, player, monkeypatch):
    change(db, player, 1)
    real = journal._insert_missing

    def overtaken(*args):
        change(db, player, 2)
        return real(*args)

    monkeypatch.setattr(journal, "_insert_missing", overtaken)
    journals_of(db).move(PLAYER, [player["_id"]])
    assert versions(db, player) == ([1], [2])


def test_a_full_journal_is_moved_by_the_next_writer(db, player):
    for value in range(3 * JOURNAL_LENGTH):
        change(db, player, value)
    moved, held = versions(db, player)
    assert moved + held == list(range(1, 3 * JOURNAL_LENGTH + 1))
    assert len(held) == JOURNAL_LENGTH


@pytest.mark.parametrize("version", [0, None, "text", 2.0])
def test_a_game_that_sets_the_version_back_makes_no_id_come_twice(db, player, version):
    back = {"$set": {"Version": version}}
    for value in range(4):
        change(db, player, value)
        db.players.update_one({"_id": player["_id"]}, back, bypass_document_validation=True)
    journals_of(db).move(PLAYER, [player["_id"]])
    assert db.history.count_documents({"_id": {"$not": {"$regex": ":.*:.*:"}}}) == 4


def set_back(db, player):
    """Save a stale document, as a game may do that writes whole ones."""
    stale = {"$set": {"Version": 0, "LastVersion": 0}}
    db.players.update_one({"_id": player["_id"]}, stale)


def test_two_writes_of_one_version_have_an_entry_each(db, player, client, as_role):
    change(db, player, 1)
    set_back(db, player)
    change(db, player, 2)
    path = f"/api/v1/players/{player['_id']}/history"
    unmoved = client.get(path, headers=as_role()).json["Values"]
    for _ in range(2):
        journals_of(db).move(PLAYER, [player["_id"]])
    found = list(db.history.find(sort=[("At", 1)]))
    assert [entry["Changes"][0]["After"] for entry in found] == [1, 2]
    assert found[1]["_id"] == f"{found[0]['_id']}:{found[1]['Stamp']}"
    assert [entry["Id"] for entry in unmoved] == [found[1]["_id"], found[0]["_id"]]
    for value in (3, 4, 5):
        set_back(db, player)
        change(db, player, value)
        newest = client.get(path, headers=as_role()).json["Values"][0]
        assert newest["Changes"][0]["After"] == value
        one = client.get(f"/api/v1/history/{newest['Id']}", headers=as_role()).json
        assert one == newest
    journals_of(db).move(PLAYER, [player["_id"]])
    assert [e["Changes"][0]["After"] for e in db.history.find(sort=[("At", 1)])] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("odd", [[{"x": 1}], [None, None], [[{"At": NOW}]], ["text"]])
def test_an_odd_journal_hides_nobody_elses(db, world, odd):
    players = [world.add_player() for _ in range(2)]
    stored = {"$set": {"Journal": odd}}
    db.players.update_one({"_id": players[0]["_id"]}, stored, bypass_document_validation=True)
    change(db, players[1], 1)
    journals = journals_of(db)
    assert journals.oldest(PLAYER) is not None
    journals.move_all(PLAYER, journals.oldest(PLAYER))
    assert versions(db, players[1]) == ([1], [])


def test_a_game_that_drops_nulls_on_saving_loses_no_entry(db, player, client, as_role):
    change(db, player, 1)
    (entry,) = db.players.find_one({"_id": player["_id"]})["Journal"]
    saved = {name: value for name, value in entry.items() if value not in (None, {})}
    saved["By"] = {}
    saved["Changes"] = [{"Path": f"Variables.{VARIABLE}", "After": 1}]
    db.players.update_one({"_id": player["_id"]}, {"$set": {"Journal": [saved]}})
    path = f"/api/v1/players/{player['_id']}/history"
    before = client.get(path, headers=as_role()).json["Values"]
    journals_of(db).move(PLAYER, [player["_id"]])
    assert client.get(path, headers=as_role()).json["Values"] == before
    assert before[0]["Reason"] is None
    assert before[0]["By"] == {"UserId": None, "Name": None, "Key": None}


@pytest.mark.parametrize("odd", [[None, "text", {"At": 1}, 7], ["text"] * JOURNAL_LENGTH])
def test_what_is_no_entry_is_dropped_and_stops_nobody(db, player, odd):
    stored = {"$set": {"Journal": odd}}
    db.players.update_one({"_id": player["_id"]}, stored, bypass_document_validation=True)
    change(db, player, 1)
    journals_of(db).move(PLAYER, [player["_id"]])
    assert versions(db, player) == ([1], [])


def test_the_mover_moves_what_others_left_behind(real_db):
    player = make_player()
    real_db.players.insert_one(player)
    change(real_db, player, 1)
    at = real_db.players.find_one({"_id": player["_id"]})["Journal"][0]["At"]
    past = {"$set": {"Journal.0.At": at - timedelta(days=7)}}
    real_db.players.update_one({"_id": player["_id"]}, past)
    mover = Mover(_storage(real_db), list(SUBJECTS.values()), lambda: True)
    mover.move_leftovers()
    assert versions(real_db, player) == ([1], [])


class _Clock:
    @staticmethod
    def now():
        return NOW.replace(year=NOW.year + 50)


def _storage(db):
    class Part:
        journals = journals_of(db)
        clock = _Clock()

    return Part()


def test_the_mover_survives_a_database_that_is_away(caplog):
    moved = threading.Event()

    class Away:
        is_urgent = threading.Event()
        tries = 0

        def move_noted(self):
            self.tries += 1
            if self.tries < 3:
                raise (AutoReconnect("away"), ValueError("a bug"))[self.tries - 1]
            moved.set()

        @staticmethod
        def oldest(_):
            return None

    class Part:
        journals = Away()
        clock = _Clock()

    mover = Mover(Part(), list(SUBJECTS.values()), lambda: True, pause=0.01)
    mover.begin()
    try:
        assert moved.wait(10)
    finally:
        mover.end()
    assert caplog.text.count("could not be moved") == 2


def test_the_mover_does_not_let_a_journal_fill_up():
    moved = threading.Event()

    class Frequent(Journals):
        def move_noted(self):
            moved.set()

    class Part:
        journals = Frequent(mongomock.MongoClient().test, 0)
        clock = _Clock()

    mover = Mover(Part(), [], lambda: True, pause=3600)
    mover.begin()
    try:
        for _ in range(journal.URGENT - 1):
            Part.journals.note(PLAYER, "often")
            Part.journals.note(PLAYER, object())
        assert not Part.journals.is_urgent.is_set()
        Part.journals.note(PLAYER, "often")
        assert moved.wait(10)
    finally:
        mover.end()


def test_a_worker_moves_what_it_has_changed(real_db):
    players = [make_player() for _ in range(3)]
    real_db.players.insert_many(players)
    journals = journals_of(real_db)
    swapper = swapper_of(real_db, journals=journals)
    for player in players:
        rule = partial(assign, variable_id=VARIABLE, value=1)
        swapper.swap({"_id": player["_id"]}, ("Variables",), rule, meant("set-variable"))
    journals.move_noted()
    assert [versions(real_db, player) for player in players] == [([1], [])] * 3


def test_an_account_that_may_not_bypass_validation_moves_entries_all_the_same(monkeypatch):
    client = mongomock.MongoClient()
    players = [make_player(), make_player()]
    client.db.players.insert_many(players)
    real, refused = mongomock.Collection.update_many, []

    def update_many(self, *args, **options):
        if options.get("bypass_document_validation"):
            refused.append(args)
            raise OperationFailure("not authorized", 13)
        return real(self, *args, **options)

    monkeypatch.setattr(mongomock.Collection, "update_many", update_many)
    journals = journals_of(client.db)
    for player in players:
        change(client.db, player, 1)
        journals.move(PLAYER, [player["_id"]])
    assert [versions(client.db, player) for player in players] == [([1], [])] * 2
    assert len(refused) == 1


def test_a_hot_player_loses_no_entry_while_movers_race(real_db):
    """Writers, movers and the full journal at once, on the real server."""
    player = make_player()
    real_db.players.insert_one(player)
    done = threading.Event()
    writers, rounds = 6, 25

    def write(me):
        made = 0
        for number in range(rounds):
            try:
                change(real_db, player, me * 1000 + number, key=f"{me}-{number}", fingerprint="f")
                made += 1
            except Busy:
                continue
        return made

    def move():
        while not done.is_set():
            Journals(real_db, 400).move(PLAYER, [player["_id"]])

    with ThreadPoolExecutor(writers + 2) as pool:
        movers = [pool.submit(move) for _ in range(2)]
        made = sum(pool.map(write, range(writers)))
        done.set()
        for mover in movers:
            mover.result()
    journals_of(real_db).move(PLAYER, [player["_id"]])
    assert versions(real_db, player) == (list(range(1, made + 1)), [])
    assert sorted(real_db.history.distinct("Number")) == list(range(1, made + 1))


@pytest.mark.everything
def test_a_hot_player_is_never_said_to_be_damaged(real_db):
    """Writers who miss because the Journal is full, while others empty it and write."""
    player = make_player()
    real_db.players.insert_one(player)

    def write(me):
        for number in range(120):
            change_patiently(real_db, player, me * 1000 + number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    moved, held = versions(real_db, player)
    assert moved + held == list(range(1, 961))


def test_a_key_is_found_while_its_entry_moves(real_db):
    """Between two reads an entry may go from the journal to history."""
    player = make_player()
    real_db.players.insert_one(player)
    for number in range(10):
        key = {"key": f"key-{number}", "fingerprint": "f"}
        assert not change(real_db, player, number, **key).replayed
        with ThreadPoolExecutor(2) as pool:
            moving = pool.submit(journals_of(real_db).move, PLAYER, [player["_id"]])
            again = pool.submit(change, real_db, player, number, **key)
            assert again.result().replayed
            moving.result()


def test_only_what_a_majority_holds_moves(real_db):
    """What is read for moving cannot be rolled back any more."""
    player = make_player()
    real_db.players.insert_one(player)
    change(real_db, player, 1)
    levels = []

    class Watched:
        def __init__(self, collection):
            self._collection = collection

        def __getattr__(self, name):
            return getattr(self._collection, name)

        def with_options(self, **options):
            if "read_concern" in options:
                levels.append((self._collection.name, options["read_concern"].level))
            return self._collection.with_options(**options)

    class Db:
        def __getitem__(self, name):
            return Watched(real_db[name])

    Journals(Db(), 400).move(PLAYER, [player["_id"]])
    assert ("players", "majority") in levels
    assert versions(real_db, player) == ([1], [])


def test_an_entry_that_history_does_not_take_keeps_nobody_elses(real_db, caplog):
    players = [make_player() for _ in range(3)]
    real_db.players.insert_many(players)
    for player in players:
        change(real_db, player, 1)
    # A validator that refuses the entries of one of them.
    refused = {"$nor": [{"Subject.Id": players[1]["_id"]}]}
    validator = real_db.history.options()["validator"]
    real_db.command("collMod", "history", validator=refused)
    try:
        move_all(real_db)
    finally:
        real_db.command("collMod", "history", validator=validator)
    assert [versions(real_db, player) for player in players] == [([1], []), ([], [1]), ([1], [])]
    assert "could not be moved to history" in caplog.text
    move_all(real_db)
    assert versions(real_db, players[1]) == ([1], [])


def test_a_full_journal_that_cannot_move_yet_is_no_damage(real_db, monkeypatch):
    """What no majority holds yet does not move: the writer waits, and is not told of damage."""
    player = make_player()
    real_db.players.insert_one(player)
    for value in range(JOURNAL_LENGTH):
        change(real_db, player, value)
    journals = journals_of(real_db)
    uncommitted = iter(range(5))
    real = journals.move
    monkeypatch.setattr(
        journals, "move", lambda *args: 0 if next(uncommitted, None) is not None else real(*args)
    )
    rule = partial(assign, variable_id=VARIABLE, value=True)
    swapper = swapper_of(real_db, journals=journals)
    swapper.swap({"_id": player["_id"]}, ("Variables",), rule, meant("set-variable"))
    assert next(uncommitted, None) is None
    assert versions(real_db, player)[1] == [JOURNAL_LENGTH + 1]
