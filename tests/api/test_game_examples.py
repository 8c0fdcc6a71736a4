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
from app.game.actions.domain import state_of
from app.players.items.domain import Limits, give
from tests.factories import guid, sha256
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


def slots(service, player, part="inventory"):
    """Return the slots that hold something, as item and quantity."""
    served = service.get(f"/players/{player}/items/{part}").json
    return {s["Slot"]: (s["ItemId"], s["Quantity"]) for s in served if s["Quantity"]}


@pytest.fixture
def check(mongodb_uri):
    """Run quartermaster db check, and return its exit status."""
    env = {"QM_ENV": "testing", "QM_MONGODB_URI": mongodb_uri}
    return lambda: CliRunner().invoke(main, ["db", "check"], env=env).exit_code


def test_the_documents_to_begin_with_are_sound(games_db, check):
    for name in ("user", "player"):
        document = json_util.loads((EXAMPLES / f"new_{name}.json").read_text())
        games_db[f"{name}s"].insert_one(document)
    assert check() == 0


def test_accounts_and_characters_of_the_game_are_those_of_the_service(
    player, service, games_db, check
):
    record = service.get("/users/NOVA").json
    assert (record["Name"], record["Email"]) == ("Nova", "Nova@Example.com")
    for password, status in (("secret", 200), ("wrong", 400)):
        sent = sha256(password)
        assert service.post("/users/Nova/password/validate", password=sent).status_code == status
    body = {"username": "Bea", "email": "bea@example.com", "password": sha256("secret")}
    assert service.post("/users/register", **body).status_code == 200
    bea = games_db.users.find_one({"NameKey": "bea"})
    assert [game.is_password(bea, password) for password in ("secret", "Secret")] == [True, False]
    for path in ("/players/ZOE\u0308LLE", f"/users/Nova/players/{player}"):
        assert service.get(path).json["Id"] == player
    assert [p["Id"] for p in service.get("/players", search="ËLL").json["Values"]] == [player]
    for name, email in (("NOVA", "b@example.com"), ("B", "nova@example.COM")):
        with pytest.raises(DuplicateKeyError):
            game.make_account(games_db, name, email, "secret")
    with pytest.raises(DuplicateKeyError):
        game.make_character(games_db, guid(), "ZOËLLE")
    with pytest.raises(ValueError, match="IDNA"):
        game.make_account(games_db, "Cid", "cid@münchen.de", "secret")
    assert check() == 0


def test_who_plays_is_online_and_nobody_who_was_deleted_is_brought_back(player, service, games_db):
    game.heartbeat(games_db, [player, guid()])
    assert service.get(f"/players/{player}").json["Online"] is True
    game.log_out(games_db, player)
    record = service.get(f"/players/{player}").json
    assert (record["Online"], record["LastOnline"] is None) == (False, False)
    assert [p["Version"] for p in games_db.players.find()] == [0]
    games_db.players.delete_one({"_id": player})
    game.heartbeat(games_db, [player])
    assert games_db.players.find_one() is None
    with pytest.raises(game.Gone):
        game.move_item(games_db, player, "Inventory.0", "Bank.0")


def test_items_are_picked_up_moved_and_traded_where_there_is_room(player, service, games_db, check):
    user_id = game.make_account(games_db, "Bea", "bea@example.com", "secret")
    bo = game.make_character(games_db, user_id, "Bo")
    assert game.pick_up(games_db, player, ITEM, 50, size=2, limit=20) == 40
    assert game.pick_up(games_db, player, ITEM, 10, size=2, limit=20) == 0
    # To where something is, and from where nothing is, nothing moves.
    moves = ("Inventory.0", "Inventory.1"), ("Inventory.0", "Bank.7"), ("Inventory.0", "Bank.8")
    assert [game.move_item(games_db, player, *move) for move in moves] == [False, True, False]
    places = player, bo, "Inventory.1", "Inventory.4"
    assert [game.hand_over(games_db, *places) for _ in range(2)] == [True, False]
    assert (slots(service, player), slots(service, bo)) == ({}, {4: (ITEM, 20)})
    assert slots(service, player, "bank") == {7: (ITEM, 20)}
    assert check() == 0


def test_a_stack_is_picked_up_as_the_service_gives_it(player, games_db):
    gear = {"ItemId": ITEM, "Quantity": 1, "StatBuffs": [1, 0, 0, 0, 0]}
    held = {"2": gear, "3": {"ItemId": ITEM, "Quantity": 15}}
    before = {"Inventory": held, "Bank": {}}
    given = give(before, itemid=ITEM, quantity=30, limits=Limits(35, 100, 20))
    games_db.players.update_one({"_id": player}, {"$set": {"Inventory": held}})
    assert game.pick_up(games_db, player, ITEM, 30, size=35, limit=20) == 30
    assert games_db.players.find_one()["Inventory"] == given.fields["Inventory"]


def test_a_gift_that_comes_between_is_not_overwritten(player, service, games_db, monkeypatch):
    seen = []

    def decide(document):
        seen.append(document["Inventory"])
        if len(seen) == 1:
            service.post(f"/players/{player}/items/give", itemid=ITEM, quantity=3)
        return {"$set": {"Inventory.9": {"ItemId": OTHER, "Quantity": 1}}}, "written"

    assert game.change(games_db.players, player, decide) == "written"
    assert seen == [{}, {"0": {"ItemId": ITEM, "Quantity": 3}}]
    assert slots(service, player) == {0: (ITEM, 3), 9: (OTHER, 1)}


def test_the_game_hears_of_gifts_and_not_of_itself(player, service, games_db):
    with games_db.players.watch() as stream:
        before = stream.resume_token
    game.pick_up(games_db, player, OTHER, 1, size=35, limit=20)
    for quantity in (3, 4):
        service.post(f"/players/{player}/items/give", itemid=ITEM, quantity=quantity)
        game.heartbeat(games_db, [player])
    events = list(islice(game.gifts(games_db, before), 2))
    # A fullDocument is read later than the write that it tells of.
    assert [event["updateDescription"]["updatedFields"]["Version"] for event in events] == [2, 3]
    assert events[1]["fullDocument"]["Inventory"]["1"] == {"ItemId": ITEM, "Quantity": 7}


@pytest.mark.parametrize(
    ("path", "flag", "until"),
    [("ban", "IsBanned", "BannedUntil"), ("mute", "IsMuted", "MutedUntil")],
)
def test_a_penalty_counts_until_it_is_lifted_or_over(player, service, games_db, path, flag, until):
    def is_in_force():
        return game.is_in_force(games_db.users.find_one({"NameKey": "nova"}), flag, until)

    assert not is_in_force()
    service.post(f"/users/Nova/admin/{path}", duration=1)
    assert is_in_force()
    over = datetime.now(timezone.utc) - timedelta(seconds=1)
    for end, expected in ((over, False), (None, True)):
        games_db.users.update_one({"NameKey": "nova"}, {"$set": {until: end}})
        assert is_in_force() is expected


def test_an_action_is_taken_once_and_answered_unless_it_has_lapsed(games_db):
    now = datetime.now(timezone.utc)
    first, second, lapsed = (
        make_action(At=now, TakeBefore=now + timedelta(seconds=seconds)) for seconds in (29, 30, -1)
    )
    games_db.actions.insert_many([second, first, lapsed])
    taken = [game.take_action(games_db, "world-1") for _ in range(3)]
    assert [action and action["_id"] for action in taken] == [first["_id"], second["_id"], None]
    game.answer_action(games_db, first["_id"])
    game.answer_action(games_db, second["_id"], error="Zoëlle is not playing.")
    done, failed = (games_db.actions.find_one({"_id": one["_id"]}) for one in (first, second))
    assert (state_of(done, now), done["TakenBy"]) == ("done", "world-1")
    assert (state_of(failed, now), failed["Error"]) == ("failed", "Zoëlle is not playing.")
    assert games_db.games.find_one({"_id": "world-1"})["LookedAt"] >= done["Taken"]
