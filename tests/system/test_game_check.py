"""quartermaster game check, on the real MongoDB, with games that keep the rules and that do not.

What each habit looks like, tests/domain/test_game_habits.py knows; here are those who watch.
"""

import json
import re
import threading
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import partial

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import WriteError

import config
from app.database import COLLECTIONS
from app.game_check import stored
from app.game_check.store import GameDatabase
from app.items.domain import Limits, give
from app.players.domain import SUBJECT
from app.storage.client import Storage
from app.storage.import_replace import Replacer
from app.storage.schema.collections import init_database
from tests import broken_documents, mongod
from tests.applications import service
from tests.factories import guid, make_bag, make_entry, make_player, make_user
from tests.game import make_action
from tests.ports import free_port
from tests.swaps import meant, move_all, swap
from tests.system.programs import wait_until
from tests.tiers import some

ITEM = guid()
GIVE = partial(give, itemid=ITEM, quantity=1, limits=Limits(35, 100, 1_000_000))
STACK = {"ItemId": ITEM, "Quantity": 1}
# Often enough for many rounds while somebody watches for a second.
PACE_SECONDS = 0.12


def now(**ago):
    return datetime.now(timezone.utc) - timedelta(**ago)


@pytest.fixture
def run(quartermaster, real_db):
    """Run game check in this process."""
    # Tests that share this database may have dropped a validator.
    init_database(real_db, COLLECTIONS)
    return partial(quartermaster, "game", "check")


@pytest.fixture
def found(run):
    """Return the habits that it finds, by name."""

    def found(seconds=0):
        result = run("--json", "--seconds", str(seconds))
        records = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.exit_code == (1 if records else 0), result.output
        return {record["Habit"]: record for record in records}

    return found


@pytest.fixture
def store(real_db):
    """Store players, whether their validator takes them or not."""

    def store(*players):
        real_db.players.insert_many(list(players), bypass_document_validation=True)
        return players[0]

    return store


class Game(threading.Thread):
    """A game that keeps the rules, as often as it can, until it is stopped."""

    def __init__(self, db, players):
        super().__init__(daemon=True)
        # A connection of its own, which MongoDB tells from those of the service.
        address = f"mongodb://{':'.join(map(str, db.client.address))}/?directConnection=true"
        self._client = MongoClient(address, appname=type(self).__name__, tz_aware=True)
        self.db, self.service_db = self._client[db.name], db
        self.ids = [player["_id"] for player in players]
        self.began, self._ending = threading.Event(), threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self._ending.wait(PACE_SECONDS):
                self.step()
                self.began.set()
        except Exception as error:
            self.failure = error
        self.began.set()

    def step(self):
        self.look()
        self.heartbeat()
        self.act()
        for player in self.ids:
            self.play(player)

    def stop(self):
        self._ending.set()
        self.join()
        self._client.close()
        assert self.failure is None

    def look(self):
        looked = {"$currentDate": {"LookedAt": True}}
        self.db.games.update_one({"_id": "world-1"}, looked, upsert=True)

    def heartbeat(self):
        seen = {"$set": {"Online": True}, "$currentDate": {"LastSeen": True}}
        self.db.players.update_many({"_id": {"$in": self.ids}}, seen)

    def act(self):
        free = {"Taken": None, "TakeBefore": {"$gt": now()}}
        taking = {"$currentDate": {"Taken": True}, "$set": {"TakenBy": "world-1"}}
        if action := self.db.actions.find_one_and_update(free, taking, sort=[("At", 1)]):
            self.db.actions.update_one({"_id": action["_id"]}, {"$currentDate": {"Done": True}})

    def read(self, player, *fields):
        return self.db.players.find_one({"_id": player}, fields or None)

    def update(self, where, change):
        self.db.players.update_one(where, change)

    def play(self, player):
        """Put an item down where there is one, and pick one up where there is none."""
        read = self.read(player, "Version", "Inventory")
        change = EMPTY if "7" in read["Inventory"] else FILL
        unchanged = {"_id": player, "Version": read["Version"]}
        self.update(unchanged, {**change, "$inc": {"Version": 1}})


def careless(**habits):
    """Return a game that does some things in another way."""
    return type("Careless", (Game,), habits)


def write_whole_map(game, player):
    read = game.read(player, "Version", "Inventory")
    held = {} if "7" in read.pop("Inventory") else {"7": STACK}
    game.update(read, {"$set": {"Inventory": held}, "$inc": {"Version": 1}})


def set_document(game, player):
    """Set all fields that were read, as a mapper of objects may do."""
    read = game.read(player)
    read["Level"] += 1
    give_to(game.service_db, player)
    game.update({"_id": player}, {"$set": read})


def clear_journal(game, player):
    give_to(game.service_db, player)
    game.update({"_id": player}, {"$set": {"Journal": []}})


def save_from_memory(game, player):
    """Count Version up and filter on nothing: what is in memory is what is stored."""
    game.played = getattr(game, "played", 0) + 1
    held = {"Inventory.7": {**STACK, "Quantity": game.played}}
    game.update({"_id": player}, {"$set": held, "$inc": {"Version": 1}})


def insert_half_player(game, _):
    name = guid()
    half = {"_id": guid(), "Name": f"x {name}", "NameKey": f"x {name}", "Version": 0}
    game.db.players.insert_one(half, bypass_document_validation=True)


def change_refused(game, player):
    with suppress(WriteError):
        game.update({"_id": player}, {"$set": {"Level": "high"}})


def take_without_answer(game):
    taken = {"Taken": now(), "TakenBy": "world-1"}
    game.db.actions.update_one({"Taken": None}, {"$set": taken})


def count_presence(game):
    seen = {"$set": {"Online": True}, "$inc": {"Version": 1}, "$currentDate": {"LastSeen": True}}
    game.db.players.update_many({"_id": {"$in": game.ids}}, seen)


def nothing(_game):
    pass


FILL, EMPTY = {"$set": {"Inventory.7": STACK}}, {"$unset": {"Inventory.7": ""}}
SETS_SLOTS = careless(
    play=lambda game, player: [game.update({"_id": player}, change) for change in (FILL, EMPTY)]
)
# Each of them has one bad habit, by its name; tests/domain has all habits.
CARELESS = [
    (SETS_SLOTS, "uncounted-writes"),
    (careless(heartbeat=count_presence), "presence-counted"),
    (careless(play=write_whole_map), "whole-maps"),
    (careless(play=insert_half_player), "missing-fields"),
]


def give_to(db, player):
    """Give as the service does."""
    swap(db, {"_id": player}, ("Inventory", "Bank"), GIVE, meant("give"))


@contextmanager
def playing(game):
    game.start()
    assert game.began.wait(120)
    try:
        yield game
    finally:
        game.stop()


@pytest.fixture
def players(real_db):
    """Three players of one account, and what else a world has."""
    user = make_user()
    players = [make_player(UserId=user["_id"]) for _ in range(3)]
    real_db.users.insert_one(user)
    real_db.bags.insert_one(make_bag())
    real_db.players.insert_many(players)
    return players


def test_an_empty_database_is_well(run):
    result = run("--seconds", "0")
    assert (result.exit_code, result.stdout) == (
        0,
        "The database 'quartermaster': looked at nothing. Its writes were not watched. No game "
        "server asks for actions: none has ever done so in the collection games. No bad habits "
        "were found.\n",
    )


def test_without_a_game_nothing_is_seen_to_write(run, players):
    result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    assert (
        "looked at 3 players, 1 bag and 1 user. In 1 second, no write of a game took effect."
        in (result.stdout)
    )


def test_a_careful_game_is_told_that_all_is_well(run, real_db, players):
    real_db.actions.insert_many([action() for _ in range(5)])
    with playing(Game(real_db, players)):
        result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    assert "5 actions and 1 game server. In 1 second, " in result.stdout
    assert result.stdout.endswith("No bad habits were found.\n")


@pytest.mark.parametrize(("kind", "habit"), some(CARELESS, 1))
def test_a_careless_game_is_told_its_habit_and_no_other(found, real_db, players, kind, habit):
    game = kind(real_db, players)
    with playing(game):
        told = found(1)
    assert set(told) == {habit}
    assert told[habit]["Count"] > 0
    if habit in ("uncounted-writes", "whole-maps"):
        assert told[habit]["Fields"] == ["Inventory"]


def test_a_game_that_sets_all_that_it_has_read_is_told_so(found, real_db, players):
    with playing(careless(play=set_document)(real_db, players)):
        told = found(1)
    assert {"whole-documents"} <= set(told)
    assert set(told) <= {"whole-documents", "lost-entries", "version-set-back"}
    assert "never write back everything" in told["whole-documents"]["Instead"]


def test_a_game_that_clears_journals_is_told_what_it_loses(found, real_db, players):
    with playing(careless(play=clear_journal)(real_db, players)):
        told = found(1)
    assert {"lost-entries"} <= set(told) <= {"lost-entries", "own-fields-written"}
    assert told["lost-entries"]["Count"] == len(players)
    assert told["lost-entries"]["Instead"].startswith("Do not write to Journal and JournalCount")


@contextmanager
def caught(kind, db, players):
    """Let a game play whose write to one player waits, so that it is seen for sure."""
    one, *others = players

    class Waits(kind):
        def heartbeat(self):
            pass

    waits = {"_id": one["_id"]}
    with (
        playing(Game(db, others)),
        playing(Waits(db, [one])),
        db.client.start_session() as session,
        session.start_transaction(),
    ):
        db.players.update_one(waits, {"$inc": {"Version": 1}}, session=session)
        yield
        session.abort_transaction()


def test_a_game_that_counts_up_and_filters_on_nothing_is_told_so(found, real_db, players):
    with caught(careless(play=save_from_memory), real_db, players):
        told = found(1)
    assert set(told) == {"unfiltered-writes"}
    assert told["unfiltered-writes"]["Fields"] == ["Waits"]
    assert told["unfiltered-writes"]["Sentence"] == (
        f"1 write to players, {players[0]['_id']}, changed Waits and incremented Version "
        "without filtering on it: changes by others are lost."
    )


def test_a_careful_game_filters_and_is_told_nothing(run, real_db, players):
    with caught(Game, real_db, players):
        result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    assert re.search("The filter of [1-9]", result.stdout), result.stdout


def test_a_game_that_takes_back_what_was_given_is_told_so(found, real_db, players):
    same = {"$set": {"Inventory.0": STACK}, "$inc": {"Version": 1}}
    forgetful = careless(play=lambda game, player: game.update({"_id": player}, same))
    gives = careless(step=lambda game: [give_to(real_db, player) for player in game.ids])
    with playing(forgetful(real_db, players)) as game:
        with playing(gives(real_db, players)):
            told = found(1)
        assert game.is_alive()
    assert {"changes-taken-back"} <= set(told) <= {"changes-taken-back", "unfiltered-writes"}
    assert told["changes-taken-back"]["Fields"] == ["Inventory.*"]


def test_writes_that_are_refused_are_no_silence(run, real_db, players):
    with playing(careless(heartbeat=nothing, play=change_refused)(real_db, players)):
        result = run("--seconds", "1")
    refused = "([0-9,]+) writes changed nothing: MongoDB refused them, or they matched nothing."
    assert re.search(f"no write of a game took effect, and {refused}", result.stdout), result.stdout


def test_a_game_that_takes_actions_and_never_answers(found, real_db, players, monkeypatch):
    monkeypatch.setattr(stored, "ANSWERS_WITHIN", timedelta(0))
    real_db.actions.insert_many([action(), action()])
    with playing(careless(act=take_without_answer)(real_db, players)) as game:
        wait_until(lambda: real_db.actions.count_documents({"Taken": None}) == 0)
        told = found(1)
        assert game.is_alive()
    assert set(told) == {"never-answered"}
    assert told["never-answered"]["Count"] == 2


def test_a_game_beside_the_service_is_told_apart_from_it(found, real_db, players):
    """The service gives to the players whom the careful game changes."""
    given = threading.Event()

    class Service(Game):
        def step(self):
            for player in self.ids:
                give_to(real_db, player)
            move_all(real_db)
            given.set()

    with playing(Game(real_db, players)), playing(Service(real_db, players)):
        assert found(1) == {}
    with playing(SETS_SLOTS(real_db, players)), playing(Service(real_db, players)):
        told = {"uncounted-writes", "changed-uncounted", "changes-taken-back"}
        assert set(found(1)) <= told
    assert given.is_set()


def test_without_a_replica_set_it_looks_twice(run, found, real_db, players, monkeypatch):
    monkeypatch.setattr(GameDatabase, "stream", lambda _: None)
    twice = "no game was seen to change 3 players that were looked at twice"
    assert twice in run("--seconds", "1").stdout
    with playing(Game(real_db, players)):
        result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    assert "a game changed 3 of 3 players that were looked at twice" in result.stdout

    rise = {"$inc": {"Level": 1}}
    levels_up = careless(play=lambda game, player: game.update({"_id": player}, rise))
    with playing(levels_up(real_db, players)):
        told = found(1)
    assert set(told) == {"uncounted-writes"}
    assert (told["uncounted-writes"]["Count"], told["uncounted-writes"]["Fields"]) == (3, ["Level"])


def action(**fields):
    return make_action(**{"At": now(seconds=1), "TakeBefore": now(seconds=-60), **fields})


def store_actions(db, *actions):
    """Store what a database without validators may hold."""
    db.actions.insert_many(actions, bypass_document_validation=True)


def test_what_is_stored_is_told_as_habits_each_with_its_count(found, run, store, real_db):
    looks = {"_id": "world-1", "LookedAt": now()}
    taken = {"At": now(minutes=10), "Taken": now(minutes=10), "TakenBy": "world-1"}
    store_actions(
        real_db,
        *(action(TakeBefore=now(minutes=9), **taken) for _ in range(2)),
        *(action(At=now(minutes=5), TakeBefore=now(minutes=4)) for _ in range(3)),
    )
    real_db.games.insert_one(looks)
    banned = make_user(IsBanned=True, BannedUntil=None)
    free = make_user(IsBanned=False)
    real_db.users.insert_many([banned, free])
    online = {"Online": True, "LastSeen": now()}
    store(*(make_player(**online, UserId=user["_id"]) for user in (banned, free)))
    store(*(make_player(Online=True, LastSeen=now(minutes=20)) for _ in range(5)))
    store(*({**make_player(), "NameKey": f"other {n}"} for n in range(3)))
    store(*({**make_player(), "Version": 3, "LastVersion": 4} for _ in range(4)))
    for field, player in (("NameTails", make_player()), ("LastSeen", make_player(Online=True))):
        store({name: value for name, value in player.items() if name != field})
    told = found()
    assert {habit: record["Count"] for habit, record in told.items()} == {
        **{"never-answered": 2, "left-waiting": 3, "bans-ignored": 1, "stale-online": 5},
        **{"wrong-keys": 3, "version-set-back": 4, "missing-fields": 2, "never-seen": 1},
    }
    assert len(told["wrong-keys"]["Examples"]) == 2
    *lines, summary = run("--seconds", "0").stdout.splitlines()
    assert set(lines) == {f"{one['Sentence']} {one['Instead']}" for one in told.values()}
    assert summary.endswith("8 habits to change, by the rules of docs/game.rst.")


def test_actions_wait_for_nobody_where_nobody_looks(found, real_db):
    real_db.actions.insert_one(action(At=now(minutes=5)))
    real_db.games.insert_one({"_id": "world-1", "LookedAt": now(minutes=6)})
    assert found() == {}


@pytest.fixture
def given(real_db):
    """A player to whom the service has given something twice; its entries have moved."""
    player = make_player(Name="Amelia")
    real_db.players.insert_one(player)
    for _ in range(2):
        give_to(real_db, player["_id"])
        move_all(real_db)
    return {"_id": player["_id"]}


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_change_without_a_version_is_seen_afterwards(found, real_db, given, is_moved):
    if not is_moved:
        give_to(real_db, given["_id"])
    assert found() == {}
    real_db.players.update_one(given, {"$set": {"Online": False, "Level": 3}})
    assert found() == {}, "nobody can know"
    real_db.players.update_one(given, {"$unset": {"Inventory.0": ""}})
    told = found()
    assert set(told) == {"changed-uncounted"}
    assert told["changed-uncounted"]["Fields"] == ["Inventory.0"]
    real_db.players.update_one(given, {"$inc": {"Version": 1}})
    assert found() == {}


def test_a_document_that_was_saved_over_a_later_one_is_seen(found, real_db, given):
    """As it was before a change, over its journal, and as a new one under a known id."""
    former = real_db.players.find_one(given)
    give_to(real_db, given["_id"])
    over_journal = {**real_db.players.find_one(given), "Journal": []}
    real_db.players.replace_one(given, over_journal)
    assert set(found()) == {"lost-entries"}
    give_to(real_db, given["_id"])
    move_all(real_db)
    for saved in (former, {**make_player(), **given}):
        real_db.players.replace_one(given, saved)
        assert set(found()) == {"version-set-back", "lost-entries"}


def test_without_a_game_nobody_is_blamed_for_who_is_online(run, store, monkeypatch):
    store(make_player(Online=True, LastSeen=now(minutes=20)), make_player(Online=True))
    result = run("--seconds", "0")
    assert result.exit_code == 0, result.output
    assert (
        "2 players are Online, but no game reports them: by the 300 seconds of "
        "QM_ONLINE_TTL_SECONDS, they would count as offline." in result.stdout
    )
    monkeypatch.setenv("QM_ONLINE_TTL_SECONDS", "0")
    assert "Online" not in run("--seconds", "0").stdout


def test_nobody_looks_for_actions_while_somebody_plays(found, store, real_db):
    store(make_player(Online=True, LastSeen=now()))
    assert "none has ever done so" in found()["nobody-looks"]["Sentence"]
    real_db.games.insert_one({"_id": "world-1", "LookedAt": now(minutes=1)})
    assert "the last, world-1, did so at" in found()["nobody-looks"]["Sentence"]
    real_db.games.insert_one({"_id": "world-2", "LookedAt": now()})
    assert found() == {}


def snapshot(db):
    return {
        name: [bytes(bson.encode(document)) for document in db[name].find(sort=[("_id", 1)])]
        for name in db.list_collection_names()
    }


def test_it_survives_any_damage_and_changes_nothing(run, real_db, store, given):
    list(broken_documents.store_broken(real_db))
    store(RawBSONDocument(bson.encode(make_player(Name="ZZZ")).replace(b"ZZZ", b"\xff\xfeZ")))
    odd = [None, "x", -1, 2**62, 1.5, float("nan"), [], {}, now(), [{}], {"$a": 1}, True]
    names = ("Version", "LastVersion", "Stamp", "JournalCount", "Journal", "ChangedAt", "DeletedAt")
    for number, value in enumerate(odd):
        damaged = make_player(Online=value, LastSeen=value) | dict.fromkeys(names, value)
        store(damaged, {**make_player(), "_id": {"odd": number}, "UserId": value})
        entry = make_entry(damaged, Version=number)
        entry |= {"Version": value, "Number": value, "Stamp": value, "Changes": [value]}
        real_db.history.insert_one(entry, bypass_document_validation=True)
        fields = dict.fromkeys(("At", "TakeBefore", "Taken", "Done", "Error", "Result"), value)
        store_actions(real_db, action(**fields), action(**{**fields, "At": now()}))
        game = {"_id": {"odd": number}, "LookedAt": value}
        real_db.games.insert_one(game, bypass_document_validation=True)
        kept = {"_id": damaged["_id"], "Player": value, "DeletedAt": value}
        real_db.deleted_players.insert_one(kept, bypass_document_validation=True)
        real_db.users.insert_one(
            {**make_user(), "IsBanned": value, "ChangedAt": value}, bypass_document_validation=True
        )
    before = snapshot(real_db)
    result = run("--seconds", "1")
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert snapshot(real_db) == before


def test_damage_is_no_traceback_while_it_is_watched(found, real_db, players):
    class Breaks(Game):
        def play(self, player):
            for value in ("x", None, [], 2**62):
                change = {"$set": {"Version": value, "Inventory": value, "Journal": value}}
                self.db.players.update_one({"_id": player}, change, bypass_document_validation=True)
            odd = {"_id": {"a": guid()}, "NameKey": guid(), "Journal": 5}
            self.db.players.insert_one(odd, bypass_document_validation=True)
            self.db.players.replace_one(odd, {**odd, "Stamp": {}}, bypass_document_validation=True)

    with playing(Breaks(real_db, players)):
        assert "whole-documents" in found(1)


class Service:
    """The service under load: all that it does to players and users, again and again."""

    def __init__(self, app, world):
        self._app = app
        self._headers = world.key_headers()
        self._storage = service(app, Storage)

    def send(self, method, path, body=None, **more):
        client, headers = self._app.test_client(), {**self._headers, **more}
        answer = client.open(f"/api/v1/{path}", method=method, json=body, headers=headers)
        assert answer.status_code < 400, (path, answer.json)
        return answer.json

    def live(self, user, player):
        """Do everything to an account and its character, to the end."""
        base, account = f"players/{player['_id']}", f"users/{user['_id']}"
        for _ in range(2):
            self.send("POST", f"{base}/items/give", {"itemid": ITEM, "quantity": 2})
            self.send("POST", f"{base}/items/take", {"itemid": ITEM, "quantity": 1})
        self.send("POST", f"{base}/spells/teach", {"spellid": ITEM})
        self.send("POST", f"{base}/variables/{ITEM}", {"value": 3})
        self.send("POST", f"{base}/notes", {"Text": f"Asked {user['Name']}."})
        self.send("POST", f"{base}/name", {"Name": f"Hero {guid()[:8]}"})
        for what in ("ban", "mute"):
            self.send("POST", f"{account}/admin/{what}", {"duration": 7, "reason": user["Name"]})
        self._undo(base)
        self.send("DELETE", base)
        self._undo(base)
        self.send("POST", f"{account}/admin/unban")
        self._storage.journals.move_noted()
        self.erase(user)

    def _undo(self, base):
        newest = self.send("GET", f"{base}/history")["Values"][0]
        self.send("POST", f"history/{newest['Id']}/undo")

    def erase(self, user):
        self.send("POST", f"users/{user['_id']}/erase", {"Confirm": user["Name"]})


@pytest.fixture
def backend_uri(real_db, mongodb_uri):
    return mongodb_uri


def replace_imported(storage, player, level):
    """Replace a player, as an import does."""
    raw = RawBSONDocument(bson.encode({**player, "Level": level}))
    Replacer(storage, SUBJECT, meant("import")).replace(storage.db.players, [raw])


def test_nothing_that_the_service_does_is_taken_for_a_game(app, world, found):
    lives, failures, ended = [], [], threading.Event()
    storage, imported = service(app, Storage), world.add_player(Name="Imported")
    users = [make_user() for _ in range(300)]
    players = [make_player(UserId=user["_id"]) for user in users]
    world.db.users.insert_many(users)
    world.db.players.insert_many(players)
    people = list(zip(users, players, strict=True))
    clients = [Service(app, world) for _ in range(2)]

    def work(client):
        try:
            while not ended.wait(PACE_SECONDS):
                replace_imported(storage, imported, len(lives))
                client.live(*people.pop())
                lives.append(1)
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=[client]) for client in clients]
    for worker in workers:
        worker.start()
    try:
        for _ in range(len(some(range(3), 1))):
            assert found(1) == {}
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    assert not failures, failures[0]
    assert lives
    assert world.db.history.distinct("Operation", {"Operation": "import"})
    assert found() == {}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A MongoDB that is no replica set and asks for passwords; yields its address."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    with mongod.running(folder, port, "--auth", *mongod.SMALL) as client:
        client.admin.command("createUser", "root", pwd="root", roles=["root"])
        yield f"127.0.0.1:{port}"


def test_an_account_that_may_only_read_is_enough(guarded, run, monkeypatch):
    settings = {"MONGODB_URI": f"mongodb://root:root@{guarded}/?authSource=admin"}
    storage = Storage(config.load({"QM_ENV": "testing"}, **settings))
    init_database(storage.db, COLLECTIONS)
    players = [make_player(), make_player(Name="Amelia", Level=2.5)]
    storage.db.players.insert_many(players, bypass_document_validation=True)
    role = {"role": "read", "db": storage.db.name}
    storage.client.admin.command("createUser", "reader", pwd="reader", roles=[role])
    before = snapshot(storage.db)
    monkeypatch.setenv("QM_MONGODB_URI", f"mongodb://reader:reader@{guarded}/?authSource=admin")
    result = run("--seconds", "1")
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("1 player, Amelia (")
    assert "was stored with a wrong type in Level." in result.stdout
    assert "no game was seen to change 2 players that were looked at twice" in result.stdout
    assert snapshot(storage.db) == before
    storage.close()


def test_a_database_that_cannot_be_checked_is_a_sentence(run, monkeypatch):
    assert run("--seconds", "-1").exit_code == run("--seconds", "soon").exit_code == 2
    monkeypatch.setenv("QM_MONGODB_DATABASE", "unprepared")
    unprepared = run("--seconds", "0")
    assert unprepared.stderr == (
        "Error: The database is not up to date: run quartermaster db init first.\n"
    )
    monkeypatch.setenv("QM_MONGODB_URI", "mongodb://127.0.0.1:1")
    monkeypatch.setenv("QM_MONGODB_OPERATION_SECONDS", "0.2")
    away = run("--seconds", "1")
    assert away.stderr.startswith("Error: The database is not available")
    assert len(away.stderr.splitlines()) == 1
    for result in (unprepared, away):
        assert (result.exit_code, result.stdout) == (1, "")
