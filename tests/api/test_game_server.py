"""A game without a driver for MongoDB saves characters, says who plays, and takes actions."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import chain

import pytest

from app.auth.roles import Role
from app.game.actions.store import Actions
from app.game.server import store
from app.players.domain import FIELDS
from tests.applications import service
from tests.factories import guid, make_player, numbered_guid
from tests.game import look, make_action

ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
SLOTS = [{"Slot": 3, "ItemId": ITEM, "Quantity": 5, "BagId": None, "StatBuffs": [0] * 5}]


@pytest.fixture
def headers(world):
    return world.headers(Role.API)


@pytest.fixture
def put(client, headers):
    def put(player_id, body, **more):
        path = f"/api/v1/players/{player_id}"
        return client.put(path, json=body, headers={**headers, **more})

    return put


@pytest.fixture
def post(client, headers):
    return lambda path, body: client.post(f"/api/v1/game/{path}", json=body, headers=headers)


@pytest.fixture
def entries(db):
    """Return the entries in the Journal of a player."""
    return lambda player_id: db.players.find_one({"_id": player_id})["Journal"]


def test_a_new_character_takes_defaults_for_what_is_not_given(db, put, entries):
    player_id, user_id = guid(), guid()
    answer = put(player_id, {"Name": "Éloïse", "UserId": user_id, "Level": 3, "Guild": "Owls"})
    assert answer.status_code == 201
    assert answer.json == {"Id": player_id, "Name": "Éloïse", "Version": 1}
    stored = db.players.find_one({"_id": player_id})
    assert (stored["NameKey"], stored["UserId"]) == ("éloïse", user_id)
    assert (stored["Level"], stored["Guild"], stored["Version"]) == (3, "Owls", 1)
    defaults = {name: field.default for name, field in FIELDS.items() if name != "Level"}
    assert {name: stored[name] for name in defaults} == defaults
    (entry,) = entries(player_id)
    assert (entry["Operation"], entry["Arguments"]["Fields"]) == (
        "save",
        ["Guild", "Level", "Name", "UserId"],
    )


def test_what_is_not_given_stays(db, world, put, entries):
    player = world.add_player(Name="Aladric", Level=2, Inventory={"0": _stack(1)}, X=7)
    body = {"Level": 3, "Inventory": SLOTS, "Spells": [{"Slot": 0, "SpellId": SPELL}]}
    body["Variables"] = [{"VariableId": VARIABLE, "Value": True}]
    answer = put(player["_id"], body)
    assert answer.status_code == 200
    assert answer.json == {"Id": player["_id"], "Name": "Aladric", "Version": 1}
    stored = db.players.find_one({"_id": player["_id"]})
    assert (stored["Level"], stored["X"]) == (3, 7)
    assert list(stored["Inventory"]) == ["3"]
    assert (stored["Spells"], stored["Variables"]) == ({"0": SPELL}, {VARIABLE: True})
    (entry,) = entries(player["_id"])
    told = {change["Path"] for change in entry["Changes"]}
    assert told == {"Level", "Inventory.0", "Inventory.3", "Spells.0", f"Variables.{VARIABLE}"}


def _stack(quantity):
    return {"ItemId": ITEM, "Quantity": quantity}


def test_nothing_changes_where_all_is_as_it_was(db, world, put, entries):
    player = world.add_player(Level=2)
    answer = put(player["_id"], {"Level": 2})
    assert (answer.status_code, answer.json["Version"]) == (200, 0)
    assert entries(player["_id"]) == []


def test_a_game_that_gives_the_version_overwrites_no_gift(client, db, world, headers, put):
    player = world.add_player(Inventory={"0": _stack(1)})
    path = f"/api/v1/players/{player['_id']}/items/give"
    client.post(path, json={"itemid": ITEM, "quantity": 4}, headers=headers)
    answer = put(player["_id"], {"Version": 0, "Inventory": []})
    assert answer.status_code == 409
    assert answer.json["Message"] == "The player was changed since: its Version is 1 now."
    assert db.players.find_one({"_id": player["_id"]})["Inventory"]["0"]["Quantity"] == 5
    assert put(player["_id"], {"Version": 1, "Inventory": []}).json["Version"] == 2


@pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
def test_of_many_who_save_the_same_version_one_does(world, put, entries):
    player = world.add_player()

    def save(level):
        return put(player["_id"], {"Version": 0, "Level": level}).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(save, range(2, 8)))
    assert sorted(statuses) == [200, *[409] * 5]
    assert len(entries(player["_id"])) == 1


@pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
def test_of_many_who_make_the_same_character_one_does(db, put):
    player_id, user_id = guid(), guid()

    def save(level):
        return put(player_id, {"Name": "Nova", "UserId": user_id, "Level": level}).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(save, range(2, 8)))
    assert sorted(statuses) == [*[200] * 5, 201]
    assert db.players.count_documents({}) == 1


def test_the_same_request_again_saves_once(world, put, entries):
    player_id = guid()
    body = {"Name": "Nova", "UserId": guid()}
    for path, first in ((player_id, body), (player_id, {"Level": 4})):
        key = {"Idempotency-Key": str(len(first))}
        made, again = (put(path, first, **key) for _ in range(2))
        assert (again.json, again.status_code) == (made.json, made.status_code)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert put(path, {"Level": 9}, **key).status_code == 409
    assert [entry["Operation"] for entry in entries(player_id)] == ["save", "save"]


def test_a_name_goes_with_its_keys_and_is_unique(db, world, put):
    player, other = world.add_player(Name="Aladric"), world.add_player(Name="Amelia")
    assert put(player["_id"], {"Name": "ALARIC"}).json["Name"] == "ALARIC"
    stored = db.players.find_one({"_id": player["_id"]})
    assert (stored["NameKey"], stored["NameTails"][-1]) == ("alaric", "ric")
    for id_ in (player["_id"], guid()):
        answer = put(id_, {"Name": "amelia", "UserId": guid()})
        assert (answer.status_code, answer.json["Message"]) == (
            409,
            "Another player has this name already.",
        )
    assert other["Name"] == "Amelia"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"Level": "3"}, "Level"),
        ({"Name": ""}, "Name"),
        ({"Name": "a/b"}, "Name"),
        ({"Id": numbered_guid(9)}, "Id"),
        ({"Inventory": [{"Slot": 35, "ItemId": ITEM, "Quantity": 1}]}, "Inventory"),
        ({"Inventory": [{"Slot": 0, "ItemId": ITEM, "Quantity": 0}]}, "Inventory"),
        ({"Bank": {"0": {"ItemId": ITEM, "Quantity": 1}}}, "Bank"),
        ({"Spells": [{"Slot": 0}]}, "Spells"),
        ({"Version": -1}, "Version"),
        ({"Version": "1"}, "Version"),
        ({"Notes": []}, "Notes"),
        ({"Journal": []}, "Journal"),
        ({"NameKey": "x"}, "NameKey"),
        ({"Stamp": 1}, "Stamp"),
        ({"DeletedAt": None}, "DeletedAt"),
        ({"ErasedAt": None}, "ErasedAt"),
        ({"NameParts": []}, "NameParts"),
        ({"Name": "rank"}, "Name"),
        ({"Name": " x"}, "Name"),
        ({"$set": {"Level": 9}}, "$set"),
        ({"Inventory.0.Quantity": 9}, "Inventory.0.Quantity"),
        ({"Own": {"$date": "never"}}, "Own"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_stored_is_refused_by_the_name_of_its_field(db, world, put, body, fault):
    player = world.add_player()
    answer = put(player["_id"], body)
    assert answer.status_code == 400, answer.json
    assert list(answer.json["Errors"]) == [fault]
    stored = db.players.find_one({"_id": player["_id"]})
    assert {name: stored[name] for name in player} == player


@pytest.mark.parametrize("body", [{"UserId": guid()}, {"Name": "Nova"}], ids=["name", "user"])
def test_a_new_character_needs_a_name_and_a_user(db, put, body):
    assert put(guid(), body).status_code == 400
    assert db.players.count_documents({}) == 0


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        {"a" * n: 1 for n in range(1, 3)},
        "[" * 3,
        2.5,
        None,
        {"$date": "2026-01-31T12:00:00Z"},
    ],
    ids=["huge", "object", "text", "double", "null", "date"],
)
def test_a_game_keeps_fields_of_its_own(db, world, put, value):
    player = world.add_player()
    answer = put(player["_id"], {"Own": value})
    assert answer.status_code == (400 if value == 2**63 else 200), answer.json


@pytest.mark.parametrize("key", ["a.b", "", "a.", ".a", "x.0", "."], ids=ascii)
def test_keys_within_a_games_own_maps_stay_what_they_are(db, world, put, key):
    player = world.add_player()
    for own in ({"x": 1}, {"x": 1, key: 2}, {"x": 1, key: {"y": 3}}, {key: {"y": 4, key: 5}}, {}):
        assert put(player["_id"], {"Own": own}).status_code == 200
        assert db.players.find_one({"_id": player["_id"]})["Own"] == own


@pytest.mark.parametrize("own", [{"$": 1}, {"a": {"$[]": 1}}, {"a": [{"$set": 1}]}, {"a\0b": 1}])
def test_keys_that_mongodb_does_not_store_are_refused(world, put, own):
    player = world.add_player()
    put(player["_id"], {"Own": {"a": {}}})
    assert put(player["_id"], {"Own": own}).status_code == 400


def test_what_is_nested_too_deep_is_refused(world, put):
    deep: dict = {}
    for _ in range(200):
        deep = {"a": deep}
    answer = put(world.add_player()["_id"], {"Own": deep})
    assert (answer.status_code, "levels deep" in answer.json["Message"]) == (400, True)


def test_large_fields_are_saved_and_their_entry_stays_small(db, world, put, entries):
    player = world.add_player()
    for number in range(3):
        body = {"Map": str(number) * 400_000, "Level": number + 2}
        assert put(player["_id"], body).status_code == 200
    assert [len(str(entry)) < 100_000 for entry in entries(player["_id"])] == [True] * 3
    told = {change["Path"]: change["After"] for change in entries(player["_id"])[-1]["Changes"]}
    assert told == {"Map": "(too large to be told)", "Level": 4}


def test_a_character_that_was_deleted_or_read_and_gone_is_not_made_again(
    client, world, headers, put
):
    player = world.add_player()
    client.delete(f"/api/v1/players/{player['_id']}", headers=headers)
    answer = put(player["_id"], {"Name": "Back", "UserId": guid()})
    assert answer.status_code == 409
    assert "was deleted" in answer.json["Message"]
    assert put(guid(), {"Version": 4, "Name": "Gone", "UserId": guid()}).status_code == 404


def test_nobody_who_was_erased_comes_back(db, world, put):
    erased, character = guid(), guid()
    past = datetime.now(timezone.utc)
    record = {"_id": erased, "BegunAt": past, "FinishedAt": past, "Players": [character]}
    db.erasures.insert_one({**record, "Bags": []})
    for player_id, user_id in ((character, guid()), (guid(), erased)):
        answer = put(player_id, {"Name": "Back", "UserId": user_id})
        assert (answer.status_code, "erased" in answer.json["Message"]) == (409, True)


def test_a_save_is_not_undone(client, db, world, headers, put):
    player = world.add_player()
    put(player["_id"], {"Level": 2})
    path = f"/api/v1/history/player:{player['_id']}:1/undo"
    answer = client.post(path, headers=headers)
    assert (answer.status_code, "save the character anew" in answer.json["Message"]) == (409, True)


def test_a_game_says_who_plays(client, db, world, headers, post):
    lately = datetime.now(timezone.utc)
    here, there = (world.add_player(Online=True, LastSeen=lately) for _ in range(2))
    new, other = (world.add_player() for _ in range(2))
    unknown = guid()
    answer = post("online", {"Online": [new["_id"], unknown], "Offline": [here["_id"]]})
    assert answer.json == {"Online": 1, "Offline": 1, "Unknown": [unknown]}
    online = client.get("/api/v1/players/online", headers=headers).json["Values"]
    assert {player["Id"] for player in online} == {there["_id"], new["_id"]}
    gone = db.players.find_one({"_id": here["_id"]})
    assert gone["LastOnline"] == gone["LastSeen"] > lately - timedelta(seconds=1)
    # It is no change that history tells of, or that keeps another from changing.
    assert db.players.count_documents({"Journal": [], "Version": 0}) == 4
    post("online", {"Online": [other["_id"]], "Everyone": True})
    online = client.get("/api/v1/players/online", headers=headers).json["Values"]
    assert [player["Id"] for player in online] == [other["_id"]]


def test_a_damaged_player_keeps_nobody_else_offline(db, world, post):
    damaged = {**make_player(), "Level": "high"}
    db.players.insert_one(damaged, bypass_document_validation=True)
    player = world.add_player()
    ids = [damaged["_id"], player["_id"]]
    assert post("online", {"Online": ids}).json["Online"] == 2
    assert db.players.count_documents({"Online": True}) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"Online": "all"},
        {"Online": ["Aladric"]},
        {"Online": [numbered_guid(1)] * 10_001},
        {"Online": [numbered_guid(1)], "Offline": [numbered_guid(1)]},
        {"Players": []},
    ],
    ids=["text", "name", "many", "both", "unknown"],
)
def test_who_plays_is_said_by_id_and_clearly(post, body):
    assert post("online", body).status_code == 400


def test_a_game_takes_what_it_is_to_do_and_answers(client, db, headers, post):
    now = datetime.now(timezone.utc)
    times = {"At": now, "TakeBefore": now + timedelta(seconds=30)}
    older, newer, lapsed = (make_action(**times) for _ in range(3))
    older["TakeBefore"] = now + timedelta(seconds=20)
    lapsed["TakeBefore"] = now - timedelta(seconds=1)
    db.actions.insert_many([newer, older, lapsed])
    taken = post("actions", {"Game": "world-1", "Most": 1}).json["Values"]
    assert [action["Id"] for action in taken] == [older["_id"]]
    assert (taken[0]["State"], taken[0]["TakenBy"]) == ("taken", "world-1")
    assert [a["Id"] for a in post("actions", {"Game": "world-1"}).json["Values"]] == [newer["_id"]]
    assert post("actions", {"Game": "world-1"}).json["Values"] == []
    assert db.games.find_one({"_id": "world-1"})["LookedAt"] > now - timedelta(seconds=5)

    result = {"Game": "world-1", "Result": {"X": 3, "Y": 4}}
    for _ in range(2):  # the same again changes nothing
        answer = post(f"actions/{older['_id']}", result)
        assert (answer.status_code, answer.json["State"]) == (200, "done")
    refused = {"Game": "world-1", "Error": "Amelia is not playing."}
    answer = post(f"actions/{newer['_id']}", refused)
    assert (answer.status_code, answer.json["State"]) == (200, "failed")
    assert post(f"actions/{newer['_id']}", result).status_code == 409
    assert post(f"actions/{older['_id']}", {**result, "Game": "world-2"}).status_code == 409
    assert post(f"actions/{lapsed['_id']}", result).status_code == 409
    assert post(f"actions/{guid()}", result).status_code == 404
    assert post("actions/42", result).status_code == 400


def test_a_game_that_lost_the_answer_is_told_once_more(db, post):
    now = datetime.now(timezone.utc)
    action = make_action(At=now, TakeBefore=now + timedelta(seconds=30))
    db.actions.insert_one(action)
    post("actions", {"Game": "world-1"})
    again = {"Game": "world-1", "Unanswered": True}
    assert [a["Id"] for a in post("actions", again).json["Values"]] == [action["_id"]]
    assert post("actions", {**again, "Game": "world-2"}).json["Values"] == []
    post(f"actions/{action['_id']}", {"Game": "world-1"})
    assert post("actions", again).json["Values"] == []


@pytest.mark.parametrize(
    "result",
    [{"a\0b": 1}, {"a": 2**63}, {"a": "x" * 5000}, "deep"],
    ids=["nul", "huge", "long", "deep"],
)
def test_a_result_is_small_and_can_be_stored(db, world, client, result):
    if result == "deep":
        result = {}
        for _ in range(50):
            result = {"a": result}
    caller = world.add_user(roles=(Role.API,))
    taken = make_action(Taken=datetime.now(timezone.utc), TakenBy="world-1", TakerId=caller["_id"])
    db.actions.insert_one(taken)
    path, headers = f"/api/v1/game/actions/{taken['_id']}", world.headers(user=caller)
    answer = client.post(path, json={"Game": "world-1", "Result": result}, headers=headers)
    assert (answer.status_code, list(answer.json["Errors"])) == (400, ["Result"])
    assert db.actions.find_one({"_id": taken["_id"]})["Done"] is None


def test_nobody_answers_for_another_account_or_sees_what_was_asked_of_users(
    db, world, client, post
):
    now = datetime.now(timezone.utc)
    times = {"At": now, "TakeBefore": now + timedelta(seconds=30)}
    of_player, of_user = make_action(**times), make_action(**times)
    of_user["Subject"]["Kind"] = "user"
    db.actions.insert_many([of_player, of_user])
    taken = post("actions", {"Game": "world-1"}).json["Values"]
    assert [action["Id"] for action in taken] == [of_player["_id"]]
    other = world.headers(Role.API, Role.USERS_QUERY)
    path = f"/api/v1/game/actions/{of_player['_id']}"
    refused = client.post(path, json={"Game": "world-1"}, headers=other)
    assert (refused.status_code, list(refused.json)) == (409, ["Message"])
    game = {"Game": "world-1", "Unanswered": True}
    seen = client.post("/api/v1/game/actions", json=game, headers=other).json["Values"]
    assert [action["Id"] for action in seen] == [of_user["_id"]]


# mongomock does not find and update at once.
@pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
def test_several_servers_of_a_game_share_what_there_is_to_do(db, post):
    now = datetime.now(timezone.utc)
    actions = [make_action(At=now, TakeBefore=now + timedelta(seconds=30)) for _ in range(20)]
    db.actions.insert_many(actions)

    def take(number):
        taken = post("actions", {"Game": f"world-{number}", "Most": 7}).json["Values"]
        return [action["Id"] for action in taken]

    with ThreadPoolExecutor(4) as pool:
        taken = list(chain(*pool.map(take, range(4))))
    assert sorted(taken) == sorted(action["_id"] for action in actions)


def test_looking_is_what_makes_a_game_run(app, client, db, world, headers, post):
    service(app, Actions).wait_seconds = 0.0
    player = world.add_player()
    look(db, ago=60)
    path = f"/api/v1/players/{player['_id']}/admin/kick"
    assert client.post(path, headers=headers).status_code == 503
    post("actions", {"Game": "world-1"})
    assert client.post(path, headers=headers).status_code == 202


class TestNamesOfGames:
    def looked(self, db, name, ago):
        """Let the games of a test have looked one after another, however fast it is."""
        at = datetime.now(timezone.utc) - timedelta(seconds=ago)
        assert db.games.update_one({"_id": name}, {"$set": {"LookedAt": at}}).matched_count

    def test_an_account_invents_no_more_names_than_are_kept(self, db, post, monkeypatch):
        monkeypatch.setattr(store, "MOST_GAMES", 3)
        look(db, "of another", ago=60)
        for number in range(5):
            assert post("actions", {"Game": f"world-{number}"}).status_code == 200
            self.looked(db, f"world-{number}", ago=9 - number)
        names = {game["_id"] for game in db.games.find()}
        assert names == {"of another", "world-2", "world-3", "world-4"}

    def test_who_looks_again_stays(self, db, post, monkeypatch):
        monkeypatch.setattr(store, "MOST_GAMES", 2)
        for number, name in enumerate(("world-1", "world-2", "world-1")):
            post("actions", {"Game": name})
            self.looked(db, name, ago=9 - number)
        post("actions", {"Game": "world-3"})
        assert {game["_id"] for game in db.games.find()} == {"world-1", "world-3"}

    def test_names_of_long_ago_are_forgotten_when_another_comes(self, db, post):
        look(db, "long gone", ago=31 * 86400)
        look(db, "of last week", ago=7 * 86400)
        post("actions", {"Game": "world-1"})
        assert {game["_id"] for game in db.games.find()} == {"of last week", "world-1"}
