"""A game without a driver for MongoDB saves characters, says who plays, and takes actions."""

from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from app.players.domain import DEFAULTS
from tests.changes import entries_of
from tests.factories import guid, make_player, numbered_guid
from tests.game import look, make_action
from tests.mongod import on_mongodb
from tests.openapi_document import OPERATIONS

ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
SLOTS = [{"Slot": 3, "ItemId": ITEM, "Quantity": 5, "BagId": None, "StatBuffs": [0] * 5}]


@pytest.fixture
def put(staff):
    """Save a character as a game does; return the answer, which must have the status."""
    return lambda player_id, body, status=200, **headers: (
        staff(f"PUT players/{player_id}", body, status, **headers).json
    )


@pytest.fixture
def entries(db):
    return lambda player_id: entries_of(db, {"_id": player_id})


@pytest.fixture
def game(staff):
    """Ask as a game; return what is answered."""
    return lambda path, body, status=200: staff(f"POST game/{path}", body, status).json


@pytest.fixture
def stored(db):
    return lambda player_id: db.players.find_one({"_id": player_id})


def ids(answer):
    return [action["Id"] for action in answer["Values"]]


def stack(quantity):
    return {"ItemId": ITEM, "Quantity": quantity}


def asked(seconds=30, **fields):
    """Return an action that is to be taken within some seconds."""
    now = datetime.now(timezone.utc)
    return make_action(At=now, TakeBefore=now + timedelta(seconds=seconds), **fields)


def test_a_new_character_takes_defaults_for_what_is_not_given(put, stored, entries):
    player_id, user_id = guid(), guid()
    body = {"Name": "Éloïse", "UserId": user_id, "Level": 3, "Guild": "Owls"}
    for _ in range(2):
        made = put(player_id, body, 201, Idempotency_Key="k")
        assert made == {"Id": player_id, "Name": "Éloïse", "Version": 1}
    expected = {**DEFAULTS, **body, "NameKey": "éloïse", "Version": 1}
    del expected["CreationDate"]
    assert expected.items() <= stored(player_id).items()
    (entry,) = entries(player_id)
    assert (entry["Operation"], entry["Arguments"]["Fields"]) == ("save", sorted(body))
    put(player_id, {"Level": 9}, 409, Idempotency_Key="k")


def test_the_documented_example_makes_a_character(put):
    media = OPERATIONS["savePlayer"][2]["requestBody"]["content"]["application/json"]
    put(media["example"]["Id"], media["example"], 201)


def test_what_is_not_given_stays(world, put, stored, entries):
    player = world.add_player(Name="Aladric", Level=2, Inventory={"0": stack(1)}, X=7)
    body = {"Level": 3, "Inventory": SLOTS, "Spells": [{"Slot": 0, "SpellId": SPELL}]}
    body["Variables"] = [{"VariableId": VARIABLE, "Value": True}]
    assert put(player["_id"], body) == {"Id": player["_id"], "Name": "Aladric", "Version": 1}
    saved = stored(player["_id"])
    assert (saved["Level"], saved["X"], list(saved["Inventory"])) == (3, 7, ["3"])
    assert (saved["Spells"], saved["Variables"]) == ({"0": SPELL}, {VARIABLE: True})
    told = {change["Path"] for change in entries(player["_id"])[0]["Changes"]}
    assert told == {"Level", "Inventory.0", "Inventory.3", "Spells.0", f"Variables.{VARIABLE}"}
    # Where all is as it was, nothing changes.
    assert put(player["_id"], {"Level": 3})["Version"] == 1
    assert stored(player["_id"]) == saved


def test_a_save_of_the_position_alone_counts_the_version_and_makes_no_entry(
    world, put, stored, entries
):
    id_ = world.add_player(Name="Aladric", Level=2, X=1)["_id"]
    # What has not changed counts as absent.
    assert put(id_, {"X": 2, "Y": 3, "Level": 2}) == {"Id": id_, "Name": "Aladric", "Version": 1}
    saved = stored(id_)
    assert (saved["X"], saved["Y"], saved["Version"], entries(id_)) == (2, 3, 1, [])
    assert put(id_, {"X": 2})["Version"] == 1
    assert put(id_, {"Version": 0, "X": 9}, 409)["Code"] == "VERSION_CHANGED"
    assert put(id_, {"X": 4, "Level": 3})["Version"] == 2
    # A repeated request is recognised by its entry.
    for _ in range(2):
        assert put(id_, {"X": 5}, Idempotency_Key="k")["Version"] == 3
    assert put(id_, {"X": 5}, Idempotency_Key="other")["Version"] == 4
    told = [{change["Path"] for change in entry["Changes"]} for entry in entries(id_)]
    assert told == [{"X", "Level"}, {"X"}, set()]


@on_mongodb
def test_the_position_is_saved_beside_an_odd_version_too(world, put, db):
    id_ = world.add_player(X=1)["_id"]
    store_version(db, id_)
    assert put(id_, {"X": 2})["Version"] == 1
    store_version(db, id_, "x")
    assert put(id_, {"X": 3})["Version"] > 10**13


def store_version(db, id_, version=None):
    """Store what only a game with a driver would: an odd Version, or none."""
    update = {"$set": {"Version": version}} if version else {"$unset": {"Version": ""}}
    db.players.update_one({"_id": id_}, update, bypass_document_validation=True)


def test_a_game_that_gives_the_version_overwrites_no_gift(staff, world, put, db):
    id_ = world.add_player(Inventory={"0": stack(1)})["_id"]
    staff(f"POST players/{id_}/items/give", {"itemid": ITEM, "quantity": 4})
    read = staff(f"GET players/{id_}")
    assert (read.headers["X-Version"], "Version" in read.json) == ("1", False)
    refused = put(id_, {"Version": 0, "Inventory": []}, 409)
    assert refused["Message"] == "The player has changed: its Version is now 1."
    assert put(id_, {"Version": 1, "Inventory": []})["Version"] == 2
    store_version(db, id_)
    assert "X-Version" not in staff(f"GET players/{id_}").headers


@on_mongodb
def test_of_many_who_save_the_same_version_or_make_the_same_character_one_does(
    staff, world, db, entries
):
    id_, new = world.add_player()["_id"], guid()

    def race(id_, body):
        saves = [(f"PUT players/{id_}", {**body, "Level": level}) for level in range(2, 8)]
        return sorted(answer.status_code for answer in staff.at_once(*saves))

    assert race(id_, {"Version": 0}) == [200, *[409] * 5]
    assert len(entries(id_)) == 1
    assert race(new, {"Name": "Nova", "UserId": guid()}) == [*[200] * 5, 201]
    assert db.players.count_documents({}) == 2


def test_a_name_goes_with_its_keys_and_is_unique(world, put, stored):
    player, _ = world.add_player(Name="Aladric"), world.add_player(Name="Amelia")
    assert put(player["_id"], {"Name": "ALARIC"})["Name"] == "ALARIC"
    saved = stored(player["_id"])
    assert (saved["NameKey"], saved["NameTails"][-1]) == ("alaric", "ric")
    for id_ in (player["_id"], guid()):
        refused = put(id_, {"Name": "amelia", "UserId": guid()}, 409)
        assert refused["Message"] == "Another player already has this name."


REFUSED = [
    *({"Level": "3"}, {"Id": ITEM}, {"$set": {"Level": 9}}, {"Own": {"$date": "never"}}),
    *({"Name": name} for name in ("", "a/b", "rank", " x")),
    *({"Inventory": [{"Slot": 35, **stack(1)}]}, {"Inventory": [{"Slot": 0, **stack(0)}]}),
    *({"Bank": {"0": stack(1)}}, {"Spells": [{"Slot": 0}]}, {"Inventory.0.Quantity": 9}),
    *({"Version": -1}, {"Version": "1"}, {"Notes": []}, {"NameParts": []}),
    *({"NameKey": "x"}, {"ErasedAt": None}),
]


def test_what_cannot_be_stored_is_refused_by_the_name_of_its_field(db, world, put, stored):
    player = world.add_player()
    for body in REFUSED:
        assert list(put(player["_id"], body, 400)["Errors"]) == list(body), body
    assert player.items() <= stored(player["_id"]).items()
    # A bag with its contents is in one slot, of the inventory or the bank.
    one, other = ({"Slot": slot, **stack(1), "BagId": ITEM} for slot in (0, 1))
    put(player["_id"], {"Inventory": [one, other]}, 400)
    message = put(player["_id"], {"Inventory": [one], "Bank": [other]}, 400)["Message"]
    assert message == "The field 'Bank' has a bag in slot 1 that is in another slot as well."
    # A new character needs a name and a user.
    for body in ({"UserId": guid()}, {"Name": "Nova"}):
        put(guid(), body, 400)
    assert db.players.count_documents({}) == 1


def nested(depth):
    own: dict = {}
    for _ in range(depth):
        own = {"a": own}
    return own


def test_a_game_keeps_fields_of_its_own(world, put, stored):
    id_ = world.add_player()["_id"]
    for key in ("a.b", "", "a.", "x.0"):
        for own in ({"x": 1}, {"x": 1, key: {"y": 3}}, {key: {"y": 4, key: 5}}, {}):
            put(id_, {"Own": own})
            assert stored(id_)["Own"] == own
    put(id_, {"Own": {"a": {}}})
    for own in (2**63, {"$": 1}, {"a": {"$[]": 1}}, {"a": [{"$set": 1}]}, {"a\0b": 1}):
        put(id_, {"Own": own}, 400)
    assert "levels deep" in put(id_, {"Own": nested(200)}, 400)["Message"]


def test_large_fields_are_saved_and_their_entry_stays_small(world, put, entries):
    id_ = world.add_player()["_id"]
    for number in range(3):
        put(id_, {"Map": str(number) * 400_000, "Level": number + 2})
    assert [len(str(entry)) < 100_000 for entry in entries(id_)] == [True] * 3
    told = {change["Path"]: change["After"] for change in entries(id_)[-1]["Changes"]}
    assert told == {"Map": "(too large to be told)", "Level": 4}


def test_who_was_deleted_erased_or_read_and_gone_is_not_made_again(staff, db, world, put):
    deleted, erased, character = world.add_player()["_id"], guid(), guid()
    staff(f"DELETE players/{deleted}")
    past = datetime.now(timezone.utc)
    record = {"_id": erased, "BegunAt": past, "FinishedAt": past, "Players": [character]}
    db.erasures.insert_one({**record, "Bags": []})
    for player_id, user_id, why in (
        (deleted, guid(), "was deleted"),
        (character, guid(), "erased"),
        (guid(), erased, "erased"),
    ):
        assert why in put(player_id, {"Name": "Back", "UserId": user_id}, 409)["Message"]
    put(guid(), {"Version": 4, "Name": "Gone", "UserId": guid()}, 404)


def test_a_save_is_not_undone(staff, world):
    id_ = world.add_player()["_id"]
    made = staff(f"PUT players/{id_}", {"Level": 2}).headers["X-History-Id"]
    refused = staff(f"POST history/{made}/undo", status=409).json
    assert "save the character anew" in refused["Message"]


def test_a_game_says_who_plays(staff, db, world, game, stored):
    def online():
        return {player["Id"] for player in staff("GET players/online").json["Values"]}

    lately = datetime.now(timezone.utc)
    here, there = (world.add_player(Online=True, LastSeen=lately)["_id"] for _ in range(2))
    new, other, unknown = world.add_player()["_id"], world.add_player()["_id"], guid()
    answer = game("online", {"Online": [new, unknown], "Offline": [here]})
    assert answer == {"Online": 1, "Offline": 1, "Unknown": [unknown]}
    assert online() == {there, new}
    assert stored(here)["LastOnline"] == stored(here)["LastSeen"] > lately - timedelta(seconds=1)
    # It is no change that history tells of, or that keeps another from changing.
    assert db.players.count_documents({"Version": 0}) == 4
    assert db.history.count_documents({}) == 0
    # A damaged player keeps nobody else offline.
    damaged = {**make_player(), "Level": "high"}
    db.players.insert_one(damaged, bypass_document_validation=True)
    assert game("online", {"Online": [damaged["_id"], other], "Everyone": True})["Online"] == 2
    assert online() == {damaged["_id"], other}
    for body in (
        *({"Online": "all"}, {"Online": ["Aladric"]}, {"Online": [ITEM] * 10_001}),
        *({"Online": [ITEM], "Offline": [ITEM]}, {"Players": []}),
    ):
        game("online", body, 400)


def test_a_game_takes_what_it_is_to_do_and_answers(db, game):
    older, newer, lapsed = (asked(seconds) for seconds in (20, 30, -1))
    db.actions.insert_many([newer, older, lapsed])
    world_1 = {"Game": "world-1"}
    (taken,) = game("actions", {**world_1, "Most": 1})["Values"]
    assert (taken["Id"], taken["State"], taken["TakenBy"]) == (older["_id"], "taken", "world-1")
    assert [ids(game("actions", world_1)) for _ in range(2)] == [[newer["_id"]], []]
    # Who lost the answer is told once more.
    unanswered = {**world_1, "Unanswered": True}
    assert set(ids(game("actions", unanswered))) == {older["_id"], newer["_id"]}
    assert ids(game("actions", {**unanswered, "Game": "world-2"})) == []

    result = {**world_1, "Result": {"X": 3, "Y": 4}}
    for _ in range(2):  # the same again changes nothing
        assert game(f"actions/{older['_id']}", result)["State"] == "done"
    refused = {**world_1, "Error": "Amelia is not playing."}
    assert game(f"actions/{newer['_id']}", refused)["State"] == "failed"
    assert ids(game("actions", unanswered)) == []
    game(f"actions/{older['_id']}", {**result, "Game": "world-2"}, 409)
    for id_, status in ((newer["_id"], 409), (lapsed["_id"], 409), (guid(), 404), (42, 400)):
        game(f"actions/{id_}", result, status)


def test_a_result_is_small_and_can_be_stored(db, staff, game):
    now = datetime.now(timezone.utc)
    taken = make_action(Taken=now, TakenBy="world-1", TakerId=staff.user["_id"])
    db.actions.insert_one(taken)
    for result in ({"a\0b": 1}, {"a": 2**63}, {"a": "x" * 5000}, nested(50)):
        refused = game(f"actions/{taken['_id']}", {"Game": "world-1", "Result": result}, 400)
        assert list(refused["Errors"]) == ["Result"]
    assert db.actions.find_one({"_id": taken["_id"]})["Done"] is None


def test_nobody_answers_for_another_account_or_sees_what_was_asked_of_users(db, caller, game):
    clerk = caller("/api/v1/game/", Role.API)
    of_player, of_user = asked(), asked()
    of_user["Subject"]["Kind"] = "user"
    db.actions.insert_many([of_player, of_user])
    assert ids(clerk("POST actions", {"Game": "world-1"}).json) == [of_player["_id"]]
    refused = game(f"actions/{of_player['_id']}", {"Game": "world-1"}, 409)
    assert list(refused) == ["Message", "Code"]
    seen = game("actions", {"Game": "world-1", "Unanswered": True})
    assert ids(seen) == [of_user["_id"]]


# mongomock does not find and update at once.
@on_mongodb
def test_several_servers_of_a_game_share_what_there_is_to_do(db, staff):
    actions = [asked() for _ in range(20)]
    db.actions.insert_many(actions)
    servers = [{"Game": f"world-{number}", "Most": 7} for number in range(4)]
    answers = staff.at_once(*[("POST game/actions", server) for server in servers])
    taken = [id_ for answer in answers for id_ in ids(answer.json)]
    assert sorted(taken) == sorted(action["_id"] for action in actions)


@pytest.mark.usefixtures("impatient")
def test_looking_is_what_makes_a_game_run(db, world, staff, game):
    kick = f"POST players/{world.add_player()['_id']}/admin/kick"
    look(db, ago=60)
    staff(kick, status=503)
    game("actions", {"Game": "world-1"})
    staff(kick, status=202)
