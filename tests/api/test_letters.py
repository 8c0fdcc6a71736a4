"""Letters to players: they wait for the game, and their items are neither lost nor made twice."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from app.core.permissions import Permission
from app.game.actions.store import Actions
from tests.applications import service
from tests.changes import deaths
from tests.console_visitor import page_of, visitor
from tests.factories import guid, numbered_guid
from tests.game import look, playing
from tests.mongod import on_mongodb

POTION, SWORD = (numbered_guid(number) for number in (71, 72))
GIFTS = [{"ItemId": POTION, "Quantity": 5}, {"ItemId": SWORD, "Quantity": 1}]
HELD = {"0": GIFTS[0], "1": GIFTS[1]}
FULL = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(35)}
BANK = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(100)}


@pytest.fixture
def ann(world):
    return world.add_player(Name="Ann")["_id"]


@pytest.fixture
def letter(staff, ann):
    return staff("POST players/Ann/letters", {"Message": "Sorry.", "Items": GIFTS}).json


def take(staff, *players, game="world-1", **more):
    body = {"Game": game, "Players": [*players], **more}
    return staff("POST game/actions", body).json["Values"]


def answer(staff, letter, status=200, **body):
    return staff(f"POST game/actions/{letter['Id']}", {"Game": "world-1", **body}, status).json


def inventory(db, player_id):
    return db.players.find_one({"_id": player_id})["Inventory"]


def finish(app):
    service(app, Actions).give_due()


def test_a_letter_waits_for_its_player_and_brings_the_items_with_an_entry(
    app, staff, ann, letter, db
):
    told = letter["State"], letter["Kind"], letter["Subject"]["Name"]
    assert told == ("waiting", "letter", "Ann")
    # No game need run, and none takes it that only asks for actions.
    assert take(staff) == take(staff, guid()) == []
    (taken,) = take(staff, ann)
    assert (taken["Id"], taken["State"], taken["Arguments"]["Items"]) == (
        *(letter["Id"], "taken", GIFTS),
    )
    assert (take(staff, ann), inventory(db, ann)) == ([], {})
    for _ in range(2):
        answer(staff, letter)
        finish(app)
        assert inventory(db, ann) == HELD
    read = staff(f"GET actions/{letter['Id']}").json
    assert (read["State"], bool(read["GivenAt"])) == ("done", True)
    (entry,) = staff("GET players/Ann/history").json["Values"]
    assert (entry["Operation"], entry["By"]["Name"]) == ("give", "Clerk")
    staff(f"POST history/{entry['Id']}/undo")
    assert inventory(db, ann) == {}


def test_a_game_that_dies_before_it_delivers_gets_the_letter_again(app, staff, ann, letter, db):
    take(staff, ann)
    long_ago = {"$set": {"At": datetime(2026, 1, 1, tzinfo=timezone.utc)}}
    db.actions.update_one({"_id": letter["Id"]}, long_ago)
    finish(app)
    assert inventory(db, ann) == {}
    (again,) = take(staff, Unanswered=True)
    assert again["Id"] == letter["Id"]
    assert take(staff, ann, game="world-2", Unanswered=True) == []


@on_mongodb
def test_the_answer_of_a_game_with_a_driver_is_enough_even_if_every_worker_gives(
    app, ann, letter, db
):
    now = datetime.now(timezone.utc)
    done = {"Taken": now, "TakenBy": "world-1", "Done": now}
    db.actions.update_one({"_id": letter["Id"]}, {"$set": done})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: finish(app), range(8)))
    assert inventory(db, ann) == HELD
    assert db.history.count_documents({"Arguments.Letter": letter["Id"]}) == 1


@on_mongodb
def test_a_worker_that_dies_at_any_command_has_given_all_or_nothing(app, staff, ann, letter, db):
    take(staff, ann)
    answer(staff, letter)
    for number in deaths(lambda: finish(app)):
        given = bool(db.actions.find_one().get("GivenAt"))
        found = inventory(db, ann), db.history.count_documents({}), given
        assert found == ({}, 0, False), f"died at command {number}"
    assert number > 3
    finish(app)
    assert (inventory(db, ann), db.history.count_documents({})) == (HELD, 1)


def test_a_letter_of_somebody_who_was_erased_since_brings_its_items(app, staff, ann, letter, db):
    now = datetime.now(timezone.utc)
    record = {"_id": staff.user["_id"], "BegunAt": now, "Players": [], "Bags": []}
    db.erasures.insert_one(record)
    db.actions.update_one({}, {"$set": {"Done": now, "Taken": now, "By.Name": None}})
    finish(app)
    assert inventory(db, ann) == HELD
    assert db.history.find_one()["By"]["UserId"] is None


def test_items_wait_for_room_and_for_a_deleted_player(app, staff, ann, letter, db):
    db.players.update_one({"_id": ann}, {"$set": {"Inventory": FULL, "Bank": BANK}})
    take(staff, ann)
    assert answer(staff, letter)["State"] == "done"
    finish(app)
    assert staff(f"GET actions/{letter['Id']}").json["GivenAt"] is None
    deleted = staff("DELETE players/Ann")
    finish(app)
    staff(f"POST history/{deleted.headers['X-History-Id']}/undo")
    db.players.update_one({"_id": ann}, {"$set": {"Inventory": {}}})
    finish(app)
    assert inventory(db, ann) == HELD


def test_a_letter_that_the_game_refuses_brings_nothing(app, staff, ann, letter, db):
    take(staff, ann)
    assert answer(staff, letter, Error="The post is closed.")["State"] == "failed"
    finish(app)
    assert inventory(db, ann) == {}


def test_a_letter_is_withdrawn_while_no_game_has_taken_it(staff, ann, letter):
    request = f"POST actions/{letter['Id']}/withdraw"
    assert [staff(request).json["State"] for _ in range(2)] == ["withdrawn"] * 2
    assert take(staff, ann) == []
    other = staff("POST players/Ann/letters", {"Message": "Sorry."}).json
    take(staff, ann)
    refused = staff(f"POST actions/{other['Id']}/withdraw", status=409).json
    assert refused["Code"] == "CANNOT_WITHDRAW"


def test_nobody_withdraws_more_items_than_they_may_give(person, letter):
    request = f"POST actions/{letter['Id']}/withdraw"
    refused = person("Low", LargestQuantity=4)(request, status=403)
    assert refused.json["Code"] == "OVER_LIMIT"
    person("High", LargestQuantity=5)(request)


@on_mongodb
@pytest.mark.parametrize("number", range(2))
def test_a_letter_is_either_taken_or_withdrawn(staff, ann, number):
    """Whoever comes first: the game and the sender at once."""
    letter = staff("POST players/Ann/letters", {"Message": "Sorry.", "Items": GIFTS}).json
    taken, withdrawn = staff.at_once(
        ("POST game/actions", {"Game": "world-1", "Players": [ann]}),
        (f"POST actions/{letter['Id']}/withdraw", None),
    )
    assert bool(taken.json["Values"]) == (withdrawn.status_code == 409)


def test_items_count_once_when_the_letter_is_sent(person, ann):
    limited, path = person(ItemsPerDay=10, LargestQuantity=8), "POST players/Ann/letters"
    body = {"Message": "Sorry.", "Items": GIFTS}
    for _ in range(2):
        limited(path, body, Idempotency_Key="one")
        assert limited("GET info/limits").json["LeftToday"] == 4
    refused = limited(path, body, 403).json
    assert (refused["Code"], "colleague" in refused["Message"]) == ("OVER_LIMIT", False)
    limited(path, {"Message": "x", "Items": [GIFTS[0]] * 2}, 403)
    limited(path, {"Message": "Without items."})
    assert limited("GET info/limits").json["LeftToday"] == 4
    chatty = person("Chatty", (Permission.GAME_ACT,))
    chatty(path, {"Message": "Hello."})
    assert "items.move" in chatty(path, body, 403).json["Message"]


def test_a_wrong_letter_is_refused(staff, ann, db):
    for wrong in (
        {"Message": None},
        {"Message": ""},
        {"Items": [{"ItemId": POTION}]},
        {"Items": GIFTS * 11},
    ):
        staff("POST players/Ann/letters", {"Message": "x", **wrong}, 400)
    assert db.actions.count_documents({}) == 0


def test_the_console_sends_shows_and_withdraws_a_letter(app, world, ann, db):
    world.add_object(Id=SWORD, Name="Iron Sword")
    clerk = visitor(app, world)
    fields = {"Message": "Sorry.\nHere it is.", "itemid": "Iron Sword", "quantity": "1"}
    page = page_of(clerk.led_to(clerk.submit(f"/players/{ann}/letter", 303, **fields)))
    assert "The letter waits until Ann is online." in page
    assert "1 Iron Sword" in page
    (letter,) = db.actions.find()
    path = f"/game/{letter['_id']}"
    assert "Withdraw</button>" in clerk.get(path).text
    page = clerk.led_to(clerk.submit(f"{path}/withdraw", 303))
    assert ("withdrawn" in page_of(page), "Withdraw</button>" in page.text) == (True, False)
    clerk.submit(f"/players/{ann}/letter", 400, Message="x", itemid="No such item")


def test_the_overview_tells_that_the_game_has_stopped(app, world, db):
    clerk = visitor(app, world)
    assert "The game has stopped" not in clerk.read()
    look(db, ago=3600)
    assert "The game has stopped" in clerk.read()
    with playing(db):
        assert "The game has stopped" not in clerk.read()
