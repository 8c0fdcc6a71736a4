"""Players by name or id, in any script."""

from urllib.parse import quote

import pytest
from bson.datetime_ms import DatetimeMS

from tests.factories import NOW

PROMISED = {
    *("Id", "Name", "UserId", "ClassId", "ClassName", "Gender", "Level", "Exp"),
    *("ExperienceToNextLevel", "StatPoints", "Vitals", "MaxVitals", "BaseStats"),
    *("StatPointAllocations", "Equipment", "MapId", "MapName", "X", "Y", "Dir", "Sprite", "Face"),
    *("Online", "InBank", "LastOnline", "CreationDate", "PlayTimeSeconds"),
}


@pytest.fixture
def get(caller):
    send = caller("/api/v1/players/").get
    return lambda key: send(quote(key, safe=""))


NAMES = [
    *("Sir Bob", "100%", "50%25", "What?", "a#b", "a&b=c", "a+b", "ñandú", "玩家", "Игрок", "🐉"),
    *("a\\b", "'\"", "$where", "a.b", "..", "İstanbul", "ﬁsh", " spaced ", "x;y", "%2F"),
]


def test_a_player_is_found_by_any_printable_name(get, world):
    for name in NAMES:
        player = world.add_player(Name=name)
        assert get(name).json.items() >= {"Id": player["_id"], "Name": name}.items(), name


def test_names_and_ids_compare_without_case(get, world):
    player = world.add_player(Name="Bob the Élan")
    for key in ("BOB the élan", "Bob the E\u0301lan", player["_id"].upper()):
        assert get(key).json["Id"] == player["_id"]


def test_all_promised_fields_are_served_and_what_the_game_adds(get, world):
    world.add_player(Name="Bob", Guild={"Name": "Owls", "Rank": 3})
    record = get("Bob").json
    assert record.keys() >= PROMISED
    assert record["Guild"] == {"Name": "Owls", "Rank": 3}
    assert record["CreationDate"] == NOW.isoformat().replace("+00:00", "Z")
    internal = {"_id", "NameKey", "NameTails", "Version"}
    assert not record.keys() & (internal | {"Inventory", "Bank", "Spells", "Variables"})


def test_a_stray_date_or_id_does_not_keep_a_player_from_being_served(get, world, db, settings):
    player = world.add_player(Name="Bob")
    is_real = not settings.MONGODB_URI.startswith("mongomock")
    far = {"LastOnline": DatetimeMS(300_000_000_000_000)} if is_real else {}
    db.players.update_one({}, {"$set": {"Id": "stray", **far}})
    assert get("Bob").json["Id"] == player["_id"]
