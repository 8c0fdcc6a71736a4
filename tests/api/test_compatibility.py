"""QM_COMPATIBILITY=intersect: what public clients send, with it and without it."""

from datetime import datetime, timezone

import pytest

import config
from app.core.permissions import Role
from tests.endpoint_table import DOORS
from tests.factories import NOW, guid, make_guild, numbered_guid, sha256
from tests.game import playing
from tests.scene import set_scene

POTION, ARENA, RATE, GUILD, STEP = map(numbered_guid, range(1, 6))


@pytest.fixture(params=["", "intersect"], ids=["strict", "intersect"])
def mode(request):
    return request.param


@pytest.fixture
def settings(backend_uri, data_dir, mode):
    return config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=backend_uri,
        DATA_DIR=str(data_dir),
        COMPATIBILITY=mode,
    )


@pytest.fixture
def game(world):
    """A small game; return the id of its account."""
    user = world.add_user("secret", roles=(Role.API,), Name="Alice")
    player = world.add_player(
        **{"Name": "Hero", "UserId": user["_id"], "Vitals": [10, 5], "MaxVitals": [20, 10]},
        Inventory={"0": {"ItemId": POTION, "Quantity": 3}},
        PlayTimeSeconds=3600,
    )
    world.add_object(Id=POTION, Name="Potion")
    world.add_object(Id=ARENA, Type="map", Name="Arena")
    world.add_object(Id=RATE, Type="servervariable", Name="Rate", Value=100)
    world.add_object(Id=STEP, Type="playervariable", Name="Step")
    members = [{"PlayerId": player["_id"], "Rank": 0}]
    world.db.guilds.insert_one(make_guild("Lanterns", _id=GUILD, Members=members))
    return user["_id"]


@pytest.fixture
def get(staff):
    return lambda path: staff(f"GET {path}").json


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_records_have_what_the_contract_has_not(get, world, game):
    more = world.add_player(UserId=game, PlayTimeSeconds=60)
    record = get("users/Alice")
    assert record["RegistrationDate"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (record["PlayTimeSeconds"], record["IsBanned"], record["BanReason"]) == (
        *(3660, False, None),
    )
    listed = get("users?pageSize=10")
    assert [user["PlayTimeSeconds"] for user in listed["Values"]] == [3660, 0]
    assert (listed["Sort"], listed["Extra"]) == ([], None)
    largest = {"$set": {"PlayTimeSeconds": 2**63 - 1}}
    world.db.players.update_one({"_id": more["_id"]}, largest)
    assert get("users/Alice")["PlayTimeSeconds"] == 2**63 - 1
    items = get("players/Hero/items")
    assert [slot["ItemName"] for slot in items["inventory"][:2]] == ["Potion", ""]
    assert {slot["ItemName"] for slot in items["bank"]} == {""}


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_a_date_stands_where_null_would_crash(get, world, game):
    world.add_player(Name="Ghost", Vitals=[0, 1], MaxVitals=[9, 9])
    ghost = get("players/Ghost")
    assert (ghost["LastOnline"], ghost["Dead"]) == ("0001-01-01T00:00:00Z", True)
    world.add_player(Name="Odd")
    for odd in ([None], ["x"], "x", {"0": 1}, []):
        world.db.players.update_one(
            {"Name": "Odd"}, {"$set": {"Vitals": odd}}, bypass_document_validation=True
        )
        assert get("players/Odd")["Dead"] is False
    world.add_player(Name="Own", Dead=True, Vitals=[5, 5], LastOnline=NOW)
    own = get("players/Own")
    assert (own["LastOnline"], own["Dead"]) == (NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), True)


@pytest.mark.parametrize("mode", [""], indirect=True)
def test_without_it_answers_are_the_contracts_to_the_letter(get, game):
    assert list(get("users/Alice")) == [
        *("Id", "Name", "Email", "Power", "PasswordResetCode", "IsMuted", "MuteReason"),
    ]
    hero = get("players/Hero")
    assert ("Dead" in hero, hero["LastOnline"]) == (False, None)


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_all_that_is_read_without_it_is_read_with_it(staff, db):
    set_scene(db, None, kept="Clerk")
    for door in DOORS:
        if door.method == "GET" and door.path.startswith("/api/v1/"):
            assert staff(f"GET {door.path[8:]}", status=None).status_code < 300, door


def test_only_a_known_compatibility_is_accepted():
    with pytest.raises(config.SettingsError, match="QM_COMPATIBILITY must be one of intersect"):
        config.load({"QM_ENV": "testing", "QM_COMPATIBILITY": "everybody"})


HERO, BAN = "players/Hero", "POST players/Hero/admin/ban"
VALIDATE, ONLINE = "POST users/Alice/password/validate", "POST players/online"
RIGHT, WRONG = sha256("secret"), sha256("wrong")
SPEECH = {"message": "Hello.", "color": {"a": 255, "r": 0, "g": 0, "b": 0}}
UNHYPHENED = POTION.replace("-", "")
# A request, and what is answered without the setting and with it: a status, and a part of the body.
DIFFERENCES = [
    ("GET players?pageSize=0&page=-1&limit=0", None, (400, "pageSize"), (200, '"PageSize":5')),
    ("GET players?search=&sortBy=Colour", None, (400, "search"), (200, "Hero")),
    ("GET players/online?search=nobody&limit=1", None, (200, "Hero"), (200, '"Total":0')),
    ("GET players/online?sortBy=level", None, (200, "Hero"), (200, "Hero")),
    ("GET users?page=0&pageSize=undefined", None, (400, "pageSize"), (200, "Alice")),
    (ONLINE, {"page": -1, "count": -1}, (400, "page"), (200, "Hero")),
    (ONLINE, {"page": 0, "size": 100}, (400, "size"), (200, "Hero")),
    ("POST players", {"page": "x"}, (400, "page"), (400, "page")),
    (f"GET guilds/{GUILD}/members?page=0pageSize=20", None, (400, "page"), (200, "Hero")),
    (f"GET {HERO}/variables/{STEP}", None, (404, ""), (200, f'"{STEP}","Value":0')),
    (f"GET {HERO}/variables/{STEP}/value", None, (404, ""), (200, '"value":0')),
    (f"GET {HERO}/variables/{ARENA}", None, (404, ""), (404, f"'{ARENA}'")),
    ("GET gameobjects/item", None, (200, '"Next":null'), (200, '"Total":1,"Page":0')),
    ("GET gameobjects/item?page=0&count=3", None, (200, "Next"), (200, '"total":1,"Page":0')),
    ("GET gameobjects/item?after=", None, (200, '"Next":null'), (200, '"Next":null')),
    ("GET gameobjects/weapon?count=1", None, (404, "weapon"), (404, "weapon")),
    (f"GET gameobjects/servervariable/{RATE}", None, (200, '"servervar'), (200, '"Type":2')),
    ("POST gameobjects/servervariable", None, (200, '"servervar'), (200, '"Type":2')),
    (f"GET gameobjects/item/{UNHYPHENED}", None, (400, "guid"), (200, "Potion")),
    ("GET info/metrics", None, (200, '"onlineCount"'), (200, '"OnlineCount"')),
    (f"POST {HERO}/items/give", {"itemId": POTION, "quantity": "2"}, (400, ""), (200, POTION)),
    (
        f"POST {HERO}/items/give",
        {"itemid": guid(), "quantity": 1},
        (200, ""),
        (400, "Invalid item"),
    ),
    (f"POST {HERO}/spells/teach", {"spellid": guid()}, (200, ""), (200, '"Id":"')),
    (VALIDATE, {"username": "Alice", "password": RIGHT}, (400, "username"), (200, "Correct")),
    (VALIDATE, {"password": WRONG}, (400, "The password is wrong."), (400, "Invalid credentials.")),
    ("POST chat", SPEECH, (400, "message"), (200, '"Success":true')),
    (f"POST {HERO}/admin/Kick", [], (404, "path"), (200, "Hero has been kicked")),
    (BAN, {"reason": None, "modereator": "admin"}, (400, "duration"), (200, "banned!")),
    (BAN, {"duration": 1}, (200, "banned!"), (400, "Hero has already been banned!")),
    ("POST users/Alice/admin/ban", {"duration": 1}, (200, ""), (400, "Alice has already")),
    (f"POST {HERO}/admin/UnBan", None, (404, "path"), (200, "unbanned!")),
]


def test_what_the_setting_changes(staff, game, db, mode):
    seen = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_many({}, {"$set": seen})
    with playing(db):
        for request, body, *answers in DIFFERENCES:
            status, part = answers[mode == "intersect"]
            answer = staff(request, body, status)
            assert part in answer.text, (request, answer.text)
            for name in ("X-Request-ID", "Content-Length"):
                assert len(answer.headers.getlist(name)) == 1


COLOUR = {f"Color[{part}]": "255" for part in "ARGB"}
ACCOUNT = {"username": "Blogger", "email": "blog@example.com", "password": RIGHT}
TOKEN = {"grant_type": "password", "username": "Alice", "password": RIGHT}
PARTS = "multipart/form-data"
# The path and the fields of a form, its type, and the answer to it without the setting.
FORMS = [
    ("v1/chat/global", {**COLOUR, "Message": "Hello.", "Target": ""}, None, 415),
    ("v1/users/register", ACCOUNT, None, 415),
    ("oauth/token", TOKEN, None, 200),
    ("oauth/token", TOKEN, PARTS, 415),
]


def test_forms_are_read_like_json(client, staff, game, db, mode):
    with playing(db):
        for path, fields, kind, status in FORMS:
            sent = {"data": fields, "headers": staff.headers, "content_type": kind}
            answer = client.post(f"/api/{path}", **sent)
            assert answer.status_code == (200 if mode else status), (path, answer.text)
    colours = [action["Arguments"]["Color"] for action in db.actions.find()]
    assert colours == [dict.fromkeys("ARGB", 255)] * bool(mode)


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_a_form_in_parts_that_cannot_be_read_is_refused(client, game):
    part = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\npassword\r\n'
    once, twice = part.format("grant_type"), part.format("grant_type") * 2
    many = "".join(part.format(f"f{n}") for n in range(101))
    for body, boundary, text in (
        (f"{once}--x--", "", "not a valid form"),
        (once, "; boundary=x", "not a valid form"),
        (f"{many}--x--", "; boundary=x", "not a valid form"),
        (f"{twice}--x--", "; boundary=x", "given once"),
        (f"{once}--x--", "; boundary=x", "username"),
    ):
        kind = f"multipart/form-data{boundary}"
        answer = client.post("/api/oauth/token", data=body.encode(), content_type=kind)
        assert (answer.status_code, text in answer.json["Message"]) == (400, True), answer.json


def test_the_name_and_port_need_no_token(client, mode):
    for path, status in (("info", 200 if mode else 401), ("info/stats", 401)):
        assert client.get(f"/api/v1/{path}").status_code == status


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_who_is_not_online_cannot_be_kicked(staff, db, game):
    with playing(db, lambda _: {"Error": "Busy."}):
        for online, status, text in ((False, 404, "User not online!"), (True, 409, "Busy.")):
            seen = {"Online": online, "LastSeen": datetime.now(timezone.utc)}
            db.players.update_many({}, {"$set": seen})
            for whom in ("players/Hero", "users/Alice"):
                refused = staff(f"POST {whom}/admin/kick", status=status)
                assert refused.json["Message"] == text
