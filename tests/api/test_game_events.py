"""What a game reports of its players: stored once, listed, and what was lost is given back once."""

import csv
import io
from datetime import datetime, timedelta, timezone

import pytest

from app.game.player_events.store import GameEvents
from app.storage.client import Storage
from tests.applications import service
from tests.console_visitor import page_of, visitor
from tests.factories import guid, make_bag, make_event, make_guild, moment, numbered_guid
from tests.mongod import on_mongodb

SWORD, SACK, POTION, BAG = (numbered_guid(number) for number in range(61, 65))
GEAR = {"ItemId": SWORD, "Quantity": -1, "StatBuffs": [3, 0, 0, 0, 1]}
AT = datetime(2026, 1, 31, 19, 4, tzinfo=timezone.utc)
HELD = {"0": {"ItemId": SACK, "Quantity": 1, "BagId": BAG}}
FULL = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(35)}


def report(player, number=1, **fields):
    """Return an event as a game sends it, a second after the last one."""
    at = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1, seconds=-number)
    event = {"Id": f"world-1:{number}", "Player": player["_id"], "At": at.isoformat()}
    return {**event, "Kind": "drop", "Items": [GEAR], **fields}


@pytest.fixture
def ann(world):
    return world.add_player(Name="Ann")


@pytest.fixture
def lost(world, ann):
    """Return a maker of stored events by which Ann has lost items."""

    def make(*items, **fields):
        event = make_event(ann["_id"], SWORD, **fields)
        world.db.game_events.insert_one({**event, "Items": [*items] or [GEAR]})
        return event["_id"]

    return make


@pytest.fixture
def give_back(staff, ann):
    return lambda event, status=200, **more: staff(
        "POST players/Ann/items/give-back", {"event": event, **more}, status
    )


def inventory(db, player):
    return db.players.find_one({"_id": player["_id"]})["Inventory"]


def test_a_report_is_stored_once_and_listed_by_pages(staff, ann, db):
    def send(*events):
        return [*staff("POST game/events", {"Events": events}).json.values()]

    stranger = guid()
    events = [report(ann, 1), report(ann, 2, Kind="log-out", Items=[], Text="Bye.", With=None)]
    unknown = report({"_id": stranger}, 3)
    assert send(*events, unknown) == [2, 0, [stranger]]
    assert send(unknown) == [0, 0, [stranger]]
    assert send(*events, report(ann, 3)) == [1, 2, []]
    assert db.game_events.count_documents({}) == 3
    first = staff("GET players/Ann/events?pageSize=2").json
    second = staff(f"GET players/Ann/events?pageSize=2&after={first['Next']}").json
    listed = [*first["Values"], *second["Values"]]
    assert [event["Id"] for event in listed] == ["world-1:3", "world-1:2", "world-1:1"]
    assert (second["Next"], moment(listed[1]["At"])) == (None, moment(events[1]["At"]))
    assert listed[0]["Items"] == [{**GEAR, "BagId": None, "GivenBackBy": None}]
    staff(f"GET players/{ann['_id']}/events?after={first['Next']}x", status=400)
    assert staff("GET players/Ann/history").json["Values"] == []


def test_a_wrong_event_refuses_the_whole_report(staff, ann, db):
    for wrong in (
        {"Kind": "Drop"},
        {"Items": [{**GEAR, "Wear": 3}]},
        {"Items": [GEAR] * 101},
        {"Id": ""},
        {"At": "yesterday"},
        {"Text": "x" * 501},
        {"Player": "Ann"},
    ):
        events = [report(ann, 1), report(ann, 2, **wrong)]
        staff("POST game/events", {"Events": events}, 400)
    for number in (0, 1001):
        staff("POST game/events", {"Events": [report(ann, n) for n in range(number)]}, 400)
    assert db.game_events.count_documents({}) == 0
    staff("POST game/events", {"Events": [report(ann, n) for n in range(1000)]})


@on_mongodb
def test_reports_of_the_same_events_at_once_store_each_once(staff, ann, db):
    events = [report(ann, number) for number in range(20)]
    reports = [{"Events": events[first : first + 10]} for first in [0, 5, 10] * 4]
    answers = staff.at_once(*[("POST game/events", report) for report in reports])
    new, known = ([answer.json[name] for answer in answers] for name in ("New", "Known"))
    assert sum(new) == db.game_events.count_documents({}) == 20
    assert {sum(counts) for counts in zip(new, known, strict=True)} == {10}


def test_events_of_somebody_who_is_being_erased_are_not_stored(staff, world, ann, db):
    bob = world.add_player(Name="Bob")
    now = datetime.now(timezone.utc)
    # What a game has stored as an owner may be anything.
    odd = {"$set": {"UserId": {"a": 1}}}
    db.players.update_one({"_id": ann["_id"]}, odd, bypass_document_validation=True)
    db.erasures.insert_one({"_id": bob["UserId"], "BegunAt": now, "Players": [], "Bags": []})
    answer = staff("POST game/events", {"Events": [report(ann, 1), report(bob, 2)]}).json
    assert answer == {"New": 1, "Known": 0, "Unknown": [bob["_id"]]}
    assert [event["Player"] for event in db.game_events.find()] == [ann["_id"]]


def test_events_expire_with_the_setting_and_never_outlive_history(app, db, ann):
    db.game_events.insert_one(make_event(ann["_id"], SWORD, At=AT))
    assert service(app, GameEvents).list(ann["_id"], 9, b"").values == []
    for days, history, kept in ((30, 400, 30), (30, 7, 7), (0, 400, 400), (30, 0, 30), (0, 0, 0)):
        event = make_event(ann["_id"], SWORD)
        GameEvents(service(app, Storage), days, history).add([event])
        ends = db.game_events.find_one({"_id": event["_id"]}).get("ExpiresAt")
        left = ends - datetime.now(timezone.utc) if ends else timedelta(0)
        assert round(left / timedelta(days=1)) == kept


def test_the_lost_item_comes_back_with_its_properties_and_can_be_undone(
    staff, give_back, ann, lost, db
):
    event = lost()
    answer = give_back(event)
    assert answer.json == {"ItemId": SWORD, "Quantity": 1}
    assert inventory(db, ann) == {"0": {**GEAR, "Quantity": 1}}
    (entry,) = staff("GET players/Ann/history").json["Values"]
    asked = {"Event": event, "Item": 0, "BankOverflow": False, "ItemId": SWORD, "Quantity": 1}
    assert (entry["Operation"], entry["Arguments"]) == ("give-back", asked)
    assert entry["Undoes"] == f"event:{event}:0"
    (shown,) = staff("GET players/Ann/events").json["Values"]
    assert shown["Items"][0]["GivenBackBy"] == entry["Id"] == answer.headers["X-History-Id"]
    undone = staff(f"POST history/{entry['Id']}/undo")
    assert inventory(db, ann) == {}
    # Items are not made twice: the undo can be undone instead.
    assert entry["Id"] in give_back(event, 409).json["Message"]
    staff(f"POST history/{undone.headers['X-History-Id']}/undo")
    assert inventory(db, ann) == {"0": {**GEAR, "Quantity": 1}}


def test_each_lost_item_of_an_event_comes_back_once(give_back, ann, lost, db):
    potions, found = {"ItemId": POTION, "Quantity": -5}, {"ItemId": SACK, "Quantity": 1}
    event = lost(GEAR, GEAR, potions, found)
    for number in (0, 1, 2):
        give_back(event, item=number)
        assert give_back(event, 409, item=number).json["Code"] == "ALREADY_GIVEN_BACK"
    for number in (3, 4):
        assert give_back(event, 409, item=number).json["Code"] == "NOT_LOST"
    held = [slot["ItemId"] for slot in inventory(db, ann).values()]
    assert held == [SWORD, SWORD, POTION]


@on_mongodb
def test_two_clicks_at_once_give_it_back_once(staff, ann, lost, db):
    """Each has a key of its own, as the forms of two colleagues have."""
    body = {"event": lost()}
    keys = [{"Idempotency_Key": str(number)} for number in range(8)]
    answers = staff.at_once(*[("POST players/Ann/items/give-back", body, key) for key in keys])
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    assert inventory(db, ann) == {"0": {**GEAR, "Quantity": 1}}


def test_what_belongs_to_others_or_has_no_room_is_refused(staff, world, give_back, ann, lost, db):
    event = lost()
    world.add_player(Name="Bob")
    staff("POST players/Bob/items/give-back", {"event": event}, 404)
    for missing in ("none", lost(At=datetime.now(timezone.utc) - timedelta(days=31))):
        give_back(missing, 404)
    db.players.update_one({"_id": ann["_id"]}, {"$set": {"Inventory": FULL}})
    assert give_back(event, 409).json["Code"] == "NO_ROOM"
    give_back(event, bankoverflow=True)
    bank = db.players.find_one({"_id": ann["_id"]})["Bank"]
    assert bank == {"0": {**GEAR, "Quantity": 1}}


@on_mongodb
def test_a_limited_person_moves_no_bag_with_contents_and_reports_no_items(
    person, staff, world, ann, lost, db
):
    """Its contents are not counted, and a made-up loss would make any item."""
    limited, bob = person(LargestQuantity=10, ItemsPerDay=60), world.add_player(Name="Bob")
    orphan = lost({"ItemId": SACK, "Quantity": -1, "BagId": BAG})
    filled = make_bag(_id=BAG, Slots={"0": {"ItemId": POTION, "Quantity": 400}})
    db.bags.insert_one(filled)
    give_back, transfer = "POST players/Ann/items/give-back", "POST players/Ann/items/transfer"
    sack = {"itemid": SACK, "quantity": 1, "to": "Bob"}
    for caller, status in ((limited, 403), (staff, 200)):
        caller(give_back, {"event": orphan}, status)
    for caller, status in ((limited, 403), (staff, 200)):
        caller(transfer, sack, status)
    (entry,) = staff("GET players/Bob/history").json["Values"]
    limited(f"POST history/{entry['Id']}/undo", status=403)
    db.bags.update_one({"_id": BAG}, {"$set": {"Slots": {}}})
    limited("POST players/Bob/items/transfer", {**sack, "to": "Ann"})
    assert limited("GET info/limits").json["LeftToday"] == 59
    refused = limited("POST game/events", {"Events": [report(ann, 1)]}, 403).json
    assert refused["Code"] == "OVER_LIMIT"
    assert "colleague" not in refused["Message"]
    limited("POST game/events", {"Events": [report(bob, 2, Items=[])]})
    assert db.game_events.count_documents({}) == 2


def test_it_counts_like_a_give(person, ann, lost):
    limited = person(LargestQuantity=10, ItemsPerDay=6)
    five = {"ItemId": POTION, "Quantity": -5}
    first, second, many = lost(five), lost(five), lost({"ItemId": POTION, "Quantity": -11})
    assert limited("POST players/Ann/items/give-back", {"event": many}, 403)
    limited("POST players/Ann/items/give-back", {"event": first})
    answer = limited("POST players/Ann/items/give-back", {"event": second}, 403).json
    assert (answer["Code"], "colleague" in answer["Message"]) == ("OVER_LIMIT", False)
    assert limited("GET info/limits").json["LeftToday"] == 1


@pytest.fixture
def sack(lost):
    return lost({"ItemId": SACK, "Quantity": -1, "BagId": BAG})


@on_mongodb
def test_a_bag_comes_back_with_its_contents_unless_somebody_carries_it(
    staff, world, give_back, ann, sack, db
):
    db.bags.insert_one(make_bag({"0": {"ItemId": POTION, "Quantity": 3}}, _id=BAG))
    bob, outer, guild = (
        world.add_player(Name="Bob", Bank=HELD),
        make_bag(HELD),
        make_guild(Bank=HELD),
    )
    assert give_back(sack, 409).json["Code"] == "BAG_IS_ELSEWHERE"
    odd = {"$set": {"Bank": "none", "Inventory": {"0": 7}}}
    db.players.update_one({"_id": bob["_id"]}, odd, bypass_document_validation=True)
    for collection, holder in ((db.bags, outer), (db.guilds, guild)):
        collection.insert_one(holder)
        give_back(sack, 409)
        collection.delete_one({"_id": holder["_id"]})
    assert "Warning" not in give_back(sack).headers
    assert inventory(db, ann) == HELD
    assert staff(f"GET players/bag/{BAG}").json["Slots"][0]["Quantity"] == 3


@on_mongodb
def test_a_bag_that_returns_with_a_deleted_player_is_not_given_back(
    staff, world, give_back, sack, db
):
    db.bags.insert_one(make_bag(_id=BAG))
    dan = world.add_player(Name="Dan", Inventory=HELD)["_id"]
    deleted = staff(f"DELETE players/{dan}").headers["X-History-Id"]
    assert give_back(sack, 409).json["Code"] == "BAG_IS_ELSEWHERE"
    staff(f"POST history/{deleted}/undo")
    assert db.players.count_documents({"Inventory": HELD}) == 1


@on_mongodb
def test_events_of_one_bag_at_once_give_it_back_once(staff, world, lost, db):
    db.bags.insert_one(make_bag(_id=BAG))
    slot = {"ItemId": SACK, "Quantity": -1, "BagId": BAG}
    bob = world.add_player(Name="Bob")["_id"]
    of_bob = [make_event(bob, SACK, Items=[slot]) for _ in range(4)]
    db.game_events.insert_many(of_bob)
    asked = [("Ann", lost(slot)) for _ in range(4)] + [("Bob", event["_id"]) for event in of_bob]
    answers = staff.at_once(
        *[(f"POST players/{name}/items/give-back", {"event": event}) for name, event in asked]
    )
    codes = [answer.json.get("Code") for answer in answers]
    assert {*codes} <= {None, "BAG_IS_ELSEWHERE", "TOO_MANY_CHANGES"}
    held = [player["Inventory"] for player in db.players.find()]
    assert (codes.count(None), sorted(held, key=len)) == (1, [{}, HELD])


def test_an_item_whose_bag_is_gone_comes_back_without_it(give_back, ann, sack, db):
    assert "no longer exists" in give_back(sack).headers["Warning"]
    assert inventory(db, ann) == {"0": {"ItemId": SACK, "Quantity": 1}}


def test_the_timeline_has_events_between_changes_and_gives_back(app, world, ann, lost):
    world.add_object(Id=SWORD, Name="Iron Sword")
    clerk = visitor(app, world)
    event = lost(Text="In the mines.", With=world.add_player(Name="Bob")["_id"])
    clerk.submit("/players/Ann/give", 303, itemid=SWORD, quantity="1")
    page = clerk.read(f"/players/{ann['_id']}/history")
    assert page.index("+1 Iron Sword") < page.index("Dropped")
    for text in ("Iron Sword +4 (3, 0, 0, 0, 1)", "In the mines.", "with Bob", "the game"):
        assert text in page
    form = f"/players/{ann['_id']}/give-back"
    after = clerk.led_to(clerk.submit(form, 303, event=event, item="0"))
    assert "Gave 1 Iron Sword back to Ann." in page_of(after)
    assert "Give back Iron" not in after.text


def test_the_timeline_is_read_by_pages_without_gaps(app, world, ann, db):
    clerk, now = visitor(app, world), datetime.now(timezone.utc).replace(microsecond=0)
    for number in range(70):
        at = now - timedelta(minutes=number // 2)
        event = make_event(ann["_id"], SWORD, At=at, Text=f"event {number:03}", Items=[])
        db.game_events.insert_one(event)
    path, seen = f"/players/{ann['_id']}/history", []
    while path:
        page = clerk.get(path).text
        seen += [int(part[:3]) for part in page.split("“<bdi>event ")[1:]]
        rest = page.partition('rel="next" href="/console')[2]
        path = rest.partition('"')[0].replace("&amp;", "&")
    assert sorted(seen) == list(range(70))
    file = clerk.get(f"/players/{ann['_id']}/history.csv").data.decode("utf-8-sig")
    told = {(row["By"], row["What"], row["Reason"]) for row in csv.DictReader(io.StringIO(file))}
    assert told == {("the game", "drop", f"event {number:03}") for number in range(70)}
