from datetime import datetime, timezone

from app.core.naming import name_key
from app.http.parser import load
from app.maintenance.demo import catalogue
from app.maintenance.demo.catalogue import GIVEN_NAMES, STRIDE, player_name, user_name
from app.maintenance.demo.world import World
from app.maintenance.transfer.records import NotedPlayerRecord, ObjectRecord, UserRecord
from app.users.domain import is_username
from tests import tiers

NOW = datetime(2026, 5, 6, tzinfo=timezone.utc)
SIZES = {"INVENTORY_SIZE": 35, "BANK_SIZE": 100, "SPELLS_SIZE": 35, "STACK_LIMIT": 1_000_000}


def test_the_same_numbers_make_the_same_world():
    one, other = (World(20, NOW, "hash") for _ in range(2))
    assert list(one.players(50)) == list(other.players(50))
    assert list(one.users()) == list(other.users())
    assert list(one.bags(50)) == list(other.bags(50))
    assert list(catalogue.objects()) == list(catalogue.objects())


def test_no_two_names_are_the_same():
    assert GIVEN_NAMES % STRIDE != 0
    count = 200_000 if tiers.is_everything else 2 * GIVEN_NAMES + 10_000
    assert len({name_key(player_name(index)) for index in range(count)}) == count
    names = {user_name(index) for index in range(count // 4)}
    assert len(names) == count // 4
    assert all(is_username(name) for name in names)


def test_every_id_of_the_world_is_known_and_no_stack_too_high():
    world = World(20, NOW, "hash")
    players, bags = list(world.players(300)), list(world.bags(300))
    objects = {(found["Type"], found["_id"]): found for found in catalogue.objects()}
    assert all(found["Name"] for found in objects.values())
    carried = set()
    for holder in (*players, *bags):
        for field in ("Inventory", "Bank", "Slots"):
            for slot in holder.get(field, {}).values():
                assert slot["Quantity"] <= objects["item", slot["ItemId"]].get("StackLimit", 10**6)
                carried |= {slot["BagId"]} if "BagId" in slot else set()
    assert carried == {bag["_id"] for bag in bags}
    for player in players:
        assert objects["class", player["ClassId"]]["Name"] == player["ClassName"]
        assert objects["map", player["MapId"]]["Name"] == player["MapName"]
        assert all(("spell", spell) in objects for spell in player["Spells"].values())
        assert all(("playervariable", variable) in objects for variable in player["Variables"])


def test_every_record_of_the_world_could_be_imported():
    world = World(20, NOW, "$argon2id$x")
    players, users = NotedPlayerRecord(SIZES), UserRecord(SIZES)
    for player in world.players(50):
        record = players.record(dict(player))
        for moment in ("CreationDate", "LastOnline", "LastSeen"):
            record[moment] = record[moment].isoformat()
        values = load(players, record, "include")
        assert players.document(values, NOW, 0) == player
    for user in world.users():
        record = users.record(dict(user))
        record["CreationDate"] = record["CreationDate"].isoformat()
        assert users.document(load(users, record), NOW, 0) == user
    objects = ObjectRecord(SIZES)
    for found in catalogue.objects():
        values = load(objects, objects.record(dict(found)), "include")
        assert objects.document(values, NOW, 0) == found
