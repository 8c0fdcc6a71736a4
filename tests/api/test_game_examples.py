"""docs/examples/game.py, beside the service: what the game writes is what the service serves."""

import importlib.util
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path

import pytest
from bson import json_util
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError

from app.__main__ import main
from app.core.permissions import Role
from app.players.items.domain import Limits, give
from tests.factories import guid, moment, sha256
from tests.game import make_action

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ITEM, OTHER = guid(), guid()


def load():
    """Import the example as a program of its own: docs is no package."""
    spec = importlib.util.spec_from_file_location("example_game", EXAMPLES / "game.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


game = load()


@pytest.fixture
def backend_uri(real_db, mongodb_uri):
    return mongodb_uri


@pytest.fixture
def games_db(mongodb_uri, app):
    """The database as the game sees it, by a connection of its own."""
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        yield client.quartermaster


@pytest.fixture
def service(caller):
    return caller("/api/v1", Role.API, Role.USERS_QUERY)


@pytest.fixture
def player(games_db):
    user_id = game.make_account(games_db, "Nova", "Nova@Example.com", "secret")
    return game.make_character(games_db, user_id, "Zoëlle")


def filled(answer):
    """Return the slots of an answer that hold something, as item and quantity."""
    return {s["Slot"]: (s["ItemId"], s["Quantity"]) for s in answer.json if s["Quantity"]}


def inventory(service, player):
    return filled(service.get(f"/players/{player}/items/inventory"))


def bank(service, player):
    return filled(service.get(f"/players/{player}/items/bank"))


@pytest.fixture
def check(mongodb_uri, monkeypatch):
    """Run quartermaster db check, and return its exit status and what it printed."""
    monkeypatch.setenv("QM_ENV", "testing")
    monkeypatch.setenv("QM_MONGODB_URI", mongodb_uri)

    def run():
        result = CliRunner().invoke(main, ["db", "check"])
        return result.exit_code, result.output

    return run


def test_the_documents_to_begin_with_are_sound(games_db, check):
    for name in ("user", "player"):
        document = json_util.loads((EXAMPLES / f"new_{name}.json").read_text())
        games_db[f"{name}s"].insert_one(document)
    status, output = check()
    assert status == 0, output
    assert "no faults found" in output


# Make an account


def test_an_account_of_the_game_is_one_of_the_service(player, service, games_db, check):
    record = service.get("/users/NOVA").json
    assert (record["Name"], record["Email"]) == ("Nova", "Nova@Example.com")
    right = service.post("/users/Nova/password/validate", password=sha256("secret"))
    wrong = service.post("/users/Nova/password/validate", password=sha256("wrong"))
    assert (right.status_code, wrong.status_code) == (200, 400)
    assert check()[0] == 0


def test_the_game_checks_the_passwords_of_the_service(service, games_db):
    body = {"username": "Nova", "email": "nova@example.com", "password": sha256("secret")}
    assert service.post("/users/register", **body).status_code == 200
    user = games_db.users.find_one({"NameKey": "nova"})
    assert game.is_password(user, "secret")
    assert not game.is_password(user, "Secret")
    assert not game.is_password({"PasswordHash": None}, "secret")


@pytest.mark.parametrize(("name", "email"), [("NOVA", "b@example.com"), ("B", "nova@example.COM")])
def test_an_account_that_is_taken_is_refused(player, games_db, name, email):
    with pytest.raises(DuplicateKeyError):
        game.make_account(games_db, name, email, "secret")


def test_an_address_that_needs_idna_is_left_to_the_service(games_db):
    with pytest.raises(ValueError, match="IDNA"):
        game.make_account(games_db, "Nova", "nova@münchen.de", "secret")


# Make a character


def test_a_character_of_the_game_is_found_by_its_name_and_a_part_of_it(player, service, check):
    for path in ("/players/zoëlle", "/players/ZOE\u0308LLE", f"/users/Nova/players/{player}"):
        assert service.get(path).json["Id"] == player
    assert [p["Id"] for p in service.get("/players", search="ËLL").json["Values"]] == [player]
    assert check()[0] == 0


def test_a_name_that_is_taken_is_refused(player, games_db):
    with pytest.raises(DuplicateKeyError):
        game.make_character(games_db, guid(), "ZOËLLE")


# Say who is playing


def test_who_plays_is_online_and_no_version_is_counted(player, service, games_db):
    before = games_db.players.find_one({"_id": player})["Version"]
    game.heartbeat(games_db, [player, guid()])
    assert service.get(f"/players/{player}").json["Online"] is True
    assert [p["Id"] for p in service.get("/players/online").json["Values"]] == [player]
    game.log_out(games_db, player)
    record = service.get(f"/players/{player}").json
    assert record["Online"] is False
    # MongoDB reads its clock for each of the two.
    assert abs(moment(record["LastOnline"]) - moment(record["LastSeen"])) < timedelta(minutes=1)
    assert games_db.players.find_one({"_id": player})["Version"] == before


def test_nobody_who_was_deleted_is_brought_back(player, games_db):
    games_db.players.delete_one({"_id": player})
    game.heartbeat(games_db, [player])
    assert games_db.players.find_one({"_id": player}) is None
    with pytest.raises(game.Gone):
        game.move_item(games_db, player, "Inventory.0", "Bank.0")


# Move an item, pick up a stack


def test_an_item_that_was_moved_is_served_where_it_is(player, service, games_db, check):
    game.pick_up(games_db, player, ITEM, 5, size=35, limit=20)
    assert game.move_item(games_db, player, "Inventory.0", "Bank.7") is True
    assert (inventory(service, player), bank(service, player)) == ({}, {7: (ITEM, 5)})
    assert game.move_item(games_db, player, "Inventory.0", "Bank.8") is False
    assert check()[0] == 0


def test_nothing_is_moved_to_a_slot_that_is_taken(player, games_db):
    for item in (ITEM, OTHER):
        game.pick_up(games_db, player, item, 5, size=35, limit=20)
    assert game.move_item(games_db, player, "Inventory.0", "Inventory.1") is False


def test_a_stack_is_picked_up_as_the_service_gives_it(player, service, games_db):
    held = {
        "0": {"ItemId": OTHER, "Quantity": 1},
        "2": {"ItemId": ITEM, "Quantity": 1, "StatBuffs": [1, 0, 0, 0, 0]},
        "3": {"ItemId": ITEM, "Quantity": 15},
    }
    games_db.players.update_one({"_id": player}, {"$set": {"Inventory": held}})
    given = give(
        {"Inventory": held, "Bank": {}}, itemid=ITEM, quantity=30, limits=Limits(35, 100, 20)
    )
    assert game.pick_up(games_db, player, ITEM, 30, size=35, limit=20) == 30
    assert games_db.players.find_one({"_id": player})["Inventory"] == given.fields["Inventory"]
    assert inventory(service, player)[3] == (ITEM, 20)


def test_what_has_no_room_is_left_lying(player, games_db):
    assert game.pick_up(games_db, player, ITEM, 50, size=2, limit=20) == 40
    version = games_db.players.find_one({"_id": player})["Version"]
    assert game.pick_up(games_db, player, ITEM, 10, size=2, limit=20) == 0
    assert games_db.players.find_one({"_id": player})["Version"] == version


def test_a_gift_that_comes_between_is_not_overwritten(player, service, games_db):
    body = {"itemid": ITEM, "quantity": 3}
    seen = []

    def decide(document):
        seen.append(document["Inventory"])
        if len(seen) == 1:
            assert service.post(f"/players/{player}/items/give", **body).status_code == 200
        return {"$set": {"Inventory.9": {"ItemId": OTHER, "Quantity": 1}}}, "written"

    assert game.change(games_db.players, player, decide) == "written"
    assert seen == [{}, {"0": {"ItemId": ITEM, "Quantity": 3}}]
    assert inventory(service, player) == {0: (ITEM, 3), 9: (OTHER, 1)}


def test_whoever_is_always_too_late_gives_up(player, games_db, monkeypatch):
    monkeypatch.setattr(game, "TRIES", 3)

    def decide(_):
        games_db.players.update_one({"_id": player}, {"$inc": {"Version": 1}})
        return {"$set": {"X": 1}}, None

    with pytest.raises(game.Busy):
        game.change(games_db.players, player, decide)


def test_a_trade_changes_both_players_or_neither(player, service, games_db):
    other = game.make_character(games_db, guid(), "Bo")
    game.pick_up(games_db, player, ITEM, 5, size=35, limit=20)
    places = player, other, "Inventory.0", "Inventory.4"
    assert game.hand_over(games_db, *places) is True
    assert (inventory(service, player), inventory(service, other)) == ({}, {4: (ITEM, 5)})
    assert game.hand_over(games_db, *places) is False
    versions = [p["Version"] for p in games_db.players.find({}, ["Version"])]
    assert sorted(versions) == [1, 2]


# Learn of a gift


def test_the_game_hears_of_gifts_and_not_of_itself(player, service, games_db):
    with games_db.players.watch() as stream:
        before = stream.resume_token
    game.heartbeat(games_db, [player])
    game.pick_up(games_db, player, OTHER, 1, size=35, limit=20)
    for quantity in (3, 4):
        service.post(f"/players/{player}/items/give", itemid=ITEM, quantity=quantity)
        game.heartbeat(games_db, [player])
    events = list(islice(game.gifts(games_db, before), 2))
    # A fullDocument is read later than the write that it tells of.
    assert {event["fullDocument"]["_id"] for event in events} == {player}
    assert [event["updateDescription"]["updatedFields"]["Version"] for event in events] == [2, 3]
    assert events[1]["fullDocument"]["Inventory"]["1"] == {"ItemId": ITEM, "Quantity": 7}


# Bans and mutes


@pytest.mark.parametrize(
    ("path", "flag", "until"),
    [("ban", "IsBanned", "BannedUntil"), ("mute", "IsMuted", "MutedUntil")],
)
def test_a_penalty_counts_until_it_is_lifted_or_over(player, service, games_db, path, flag, until):
    def is_in_force():
        return game.is_in_force(games_db.users.find_one({"NameKey": "nova"}), flag, until)

    assert not is_in_force()
    assert service.post(f"/users/Nova/admin/{path}", duration=1).status_code == 200
    assert is_in_force()
    over = datetime.now(timezone.utc) - timedelta(seconds=1)
    games_db.users.update_one({"NameKey": "nova"}, {"$set": {until: over}})
    assert not is_in_force()
    games_db.users.update_one({"NameKey": "nova"}, {"$set": {until: None}})
    assert is_in_force()
    assert service.post(f"/users/Nova/admin/un{path}").status_code == 200
    assert not is_in_force()


# Actions


@pytest.fixture
def ask(games_db):
    """Ask for an action as the service does."""

    def insert(seconds=30):
        now = datetime.now(timezone.utc)
        times = {"At": now, "TakeBefore": now + timedelta(seconds=seconds)}
        action = make_action(**times, ExpiresAt=now + timedelta(days=1))
        games_db.actions.insert_one(action)
        return action["_id"]

    return insert


def test_an_action_is_taken_once_and_answered(games_db, ask):
    first, second = ask(), ask()
    taken = [game.take_action(games_db, "world-1") for _ in range(3)]
    assert [action and action["_id"] for action in taken] == [first, second, None]
    game.answer_action(games_db, first)
    game.answer_action(games_db, second, error="Zoëlle is not playing.")
    done, failed = (games_db.actions.find_one({"_id": id_}) for id_ in (first, second))
    assert done["Taken"] <= done["Done"]
    assert (done["TakenBy"], done["Error"]) == ("world-1", None)
    assert (failed["Done"], failed["Error"]) == (None, "Zoëlle is not playing.")
    assert games_db.games.find_one({"_id": "world-1"})["LookedAt"] >= done["Taken"]


def test_an_action_that_has_lapsed_is_left_alone(games_db, ask):
    ask(seconds=-1)
    assert game.take_action(games_db, "world-1") is None
