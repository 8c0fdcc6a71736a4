"""Guilds, which a game stores and the service only serves; the game sets their variables."""

import pytest

from app.maintenance.demo.catalogue import objects
from app.maintenance.demo.world import World
from app.privacy.store import Erasures
from tests.applications import service
from tests.factories import NOW, guid, make_guild
from tests.game import playing

ITEM, VARIABLE = guid(), guid()


@pytest.fixture
def get(caller):
    ask = caller("/api/v1/guilds")
    return lambda path="", status=200: ask(f"GET {path}", status=status).json


def test_guilds_are_listed_by_name_with_the_number_of_their_members(get, world):
    assert get() == {"Total": 0, "Page": 0, "PageSize": 5, "Count": 0, "Values": []}
    for name in ("Wayfarers", "iron Oath", "Lanterns"):
        members = [{"PlayerId": guid(), "Rank": 0}] if name == "Lanterns" else []
        world.db.guilds.insert_one(make_guild(name, Members=members, Motto="Onward."))
    page = get("?pageSize=2")
    assert (page["Total"], page["Count"]) == (3, 2)
    found = [(value["Key"]["Name"], value["Value"]) for value in page["Values"]]
    assert found == [("iron Oath", 0), ("Lanterns", 1)]
    assert list(page["Values"][0]["Key"]) == ["Id", "Name", "FoundingDate", "Motto"]
    assert [value["Key"]["Name"] for value in get("?pageSize=2&page=1")["Values"]] == ["Wayfarers"]


def test_a_guild_has_members_with_ranks_variables_and_a_bank(get, world):
    owner, member = world.add_player(Name="Zoe"), world.add_player(Name="Abe", Level=7)
    ranks = [(owner["_id"], 0), (guid(), 1), (member["_id"], 2)]
    guild = make_guild(
        Members=[{"PlayerId": id_, "Rank": rank} for id_, rank in ranks],
        Variables={VARIABLE: 5},
        Bank={"3": {"ItemId": ITEM, "Quantity": 2}},
    )
    world.db.guilds.insert_one(guild)
    path = f"/{guild['_id'].upper()}"
    founded = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert get(path) == {"Id": guild["_id"], "Name": guild["Name"], "FoundingDate": founded}
    members = get(f"{path}/members")
    assert members["Total"] == 2
    assert [(one["Name"], one["GuildRank"], one["Level"]) for one in members["Values"]] == [
        *(("Abe", 2, 7), ("Zoe", 0, owner["Level"])),
    ]
    assert "Inventory" not in members["Values"][0]
    assert get(f"{path}/variables") == [{"VariableId": VARIABLE, "Value": 5}]
    (slot,) = get(f"{path}/bank")
    assert (slot["Slot"], slot["ItemId"], slot["Quantity"]) == (3, ITEM, 2)


def test_a_guild_may_lack_all_but_its_name_and_an_unknown_one_is_a_404(get, db):
    bare, id_ = make_guild(), guid()
    db.guilds.insert_one(bare)
    served = [get(f"/{bare['_id']}{part}") for part in ("/variables", "/bank")]
    assert served == [[], []]
    assert (get()["Values"][0]["Value"], get(f"/{bare['_id']}/members")["Total"]) == (0, 0)
    for part in ("", "/members", "/variables", "/bank"):
        assert get(f"/{id_}{part}", 404)["Message"] == f"No guild with id '{id_}'."
        assert get(f"/42{part}", 400)["Message"] == "The guildId '42' must be a guid."


def test_the_game_is_asked_to_set_a_variable_of_a_guild(caller, db):
    guild = make_guild(Variables={VARIABLE: 5})
    db.guilds.insert_one(guild)
    ask = caller("/api/v1/guilds")
    path = f"POST /{guild['_id']}/variables/{VARIABLE}"
    ask(path, {"value": 6}, status=503)
    for value in (6, True):
        with playing(db) as game:
            record = ask(path, {"value": value}).json
        assert record == {"VariableId": VARIABLE, "Value": value}
        (asked,) = game.taken
        about = {"Kind": "guild", "Id": guild["_id"], "Name": guild["Name"]}
        assert (asked["Kind"], asked["Subject"]) == ("guild-variable", about)
        assert asked["Arguments"] == {"VariableId": VARIABLE, "Value": value}
    for wrong, value, status in (
        (f"POST /{guid()}/variables/{VARIABLE}", 1, 404),
        (f"POST /{guild['_id']}/variables/x", 1, 400),
        (path, "six", 400),
    ):
        ask(wrong, {"value": value}, status=status)
    # The guild is the game's: the service has not touched it.
    assert db.guilds.find_one()["Variables"] == {VARIABLE: 5}


def test_the_variables_of_guilds_of_the_demo_world_are_in_its_catalogue():
    known = {record["_id"] for record in objects() if record["Type"] == "guildvariable"}
    for guild in World(100, NOW, "hash").guilds(100):
        assert guild["Variables"].keys() == known != set()


def test_an_erasure_removes_a_person_from_guilds_and_an_export_names_them(staff, world, db, app):
    user = world.add_user(Name="thalia")
    mine, other = (world.add_player(UserId=id_)["_id"] for id_ in (user["_id"], guid()))
    members = [{"PlayerId": id_, "Rank": rank} for rank, id_ in enumerate((mine, other))]
    guild = make_guild(Members=members)
    world.db.guilds.insert_many([guild, make_guild("Others", Members=[])])
    told = staff(f"GET users/{user['_id']}/personal-data").json
    assert told["Guilds"] == [{"Id": guild["_id"], "Name": guild["Name"], "Ranks": {mine: 0}}]
    erasures = service(app, Erasures)
    staff(f"POST users/{user['_id']}/erase", {"Confirm": "thalia"})
    assert db.guilds.find_one({"_id": guild["_id"]})["Members"] == members[1:]
    assert list(erasures.find_returned()) == []
    # A game that saves whole documents, or a restored backup, brings the id back.
    db.guilds.replace_one({"_id": guild["_id"]}, guild)
    (trace,) = erasures.find_returned()
    assert (trace.collection, trace.id, trace.user_id) == ("guilds", guild["_id"], user["_id"])
