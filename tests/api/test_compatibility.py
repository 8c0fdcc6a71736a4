"""QM_COMPATIBILITY=intersect, and the sessions of public clients with and without it."""

import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

import config
from app.auth.tokens import AccessTokens
from app.core.permissions import Role
from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.factories import NOW, guid, make_guild, numbered_guid, sha256
from tests.game import playing
from tests.public_clients import ADDED, RUNS, SESSIONS

POTION, ARENA, RATE, GUILD, STEP = map(numbered_guid, range(1, 6))
PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.rst").read_text()
ROW = r"^   \* - (.+)\n     - (\d+) of \2\n     - (\d+) of (\d+)$"
# By client, how many of its requests the page says to work, and of its calls of how many.
CLAIMED = {name: tuple(map(int, counts)) for name, *counts in re.findall(ROW, PAGE, re.M)}


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
def values(world):
    """A small game, and the values of the sessions' steps."""
    caller = world.add_user("secret", roles=tuple(Role), Name="shop")
    user = world.add_user("secret", Name="Alice")
    player = world.add_player(
        **{"Name": "Hero", "UserId": user["_id"], "Vitals": [10, 5], "MaxVitals": [20, 10]},
        Inventory={"0": {"ItemId": POTION, "Quantity": 3}},
        Variables={RATE: 1},
        PlayTimeSeconds=3600,
    )
    about = {"Icon": "potion.png", "Description": "Heals.", "ItemType": 2}
    world.add_object(Id=POTION, Name="Potion", **about)
    world.add_object(Id=ARENA, Type="map", Name="Arena")
    world.add_object(Id=RATE, Type="servervariable", Name="Rate", Value=100)
    world.add_object(Id=STEP, Type="playervariable", Name="Step")
    world.add_object(Type="time", Name="Time")
    members = [{"PlayerId": player["_id"], "Rank": 0}]
    world.db.guilds.insert_one(make_guild("Lanterns", _id=GUILD, Members=members))
    world.headers(user=user)
    return {
        **{"caller": "shop", "password": sha256("secret"), "PASSWORD": sha256("secret").upper()},
        **{"user": "Alice", "user_id": user["_id"], "player": "Hero", "player_id": player["_id"]},
        **{
            "item": POTION,
            "map": ARENA,
            "variable": RATE,
            "guild": GUILD,
            "_caller_id": caller["_id"],
        },
    }


def filled(value, values):
    """Return a step's path, body or expectation with the values of this game."""
    if isinstance(value, dict):
        return {filled(name, values): filled(part, values) for name, part in value.items()}
    return value.format(**values) if isinstance(value, str) else value


def read(answer, path):
    """Return what a client finds at a path of an answer, such as Values.0.Name."""
    for part in path.split("."):
        answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    return answer


def assert_read(answer, path, expected):
    found = read(answer, path)
    if isinstance(expected, type):
        assert isinstance(found, expected), (path, found)
        assert found is not None, path
    else:
        assert found == expected, path


class Session:
    """A public client: it keeps a token, and sends what it always sends."""

    def __init__(self, client, values, expired):
        self._client, self._values, self._expired = client, dict(values), expired
        self._headers = {}

    def sign_in(self):
        body = {"grant_type": "password", "username": "shop", "password": self._values["password"]}
        self._keep(self._client.post("/api/oauth/token", json=body).json)

    def take(self, step):
        body = filled(step.body, self._values)
        sent = {"data": body} if step.is_form else {"json": body} if body is not None else {}
        if step.is_multipart:
            sent = {"data": body, "content_type": "multipart/form-data"}
        if step.method == "GET":
            # Some send a Content-Type with every request.
            sent = {"content_type": "application/json"}
        headers = self._expired if step.is_expired else self._headers
        path = filled(step.path, self._values)
        answer = self._client.open(path, method=step.method, headers=headers, **sent)
        if "access_token" in (answer.json or {}):
            self._keep(answer.json)
        return answer

    def _keep(self, tokens):
        self._headers = {"Authorization": f"Bearer {tokens['access_token']}"}
        self._values["refresh"] = tokens["refresh_token"]


@pytest.fixture
def session(app, client, db, values):
    tokens = service(app, AccessTokens)
    chain = service(app, RefreshTokens).issue(values["_caller_id"], 0).chain
    long_ago = int(tokens.now()) - 10 * tokens.lifetime
    expired = tokens.issue(values["_caller_id"], chain, long_ago)
    session = Session(client, values, {"Authorization": f"Bearer {expired}"})
    session.sign_in()
    with playing(db, lambda _: {"Result": {"MapId": ARENA, "X": 13, "Y": 22}}):
        yield session


@pytest.mark.parametrize("name", SESSIONS)
def test_the_session_of_a_public_client(session, values, mode, name):
    for step in SESSIONS[name]:
        answer = session.take(step)
        is_read = mode == "intersect" or step.strict == 200
        expected = step.status if is_read else step.strict
        assert answer.status_code == expected, (step, answer.json)
        for path, wanted in filled(step.reads, values).items() if is_read else ():
            if mode == "intersect" or not path.endswith(ADDED):
                assert_read(answer.json, path, wanted)
    # The page claims what the sessions have shown.
    assert len(SESSIONS[name]) == CLAIMED[name][0], "docs/compatibility.rst is out of date"


def test_the_page_names_the_clients_that_were_replayed_and_run():
    assert CLAIMED.keys() == SESSIONS.keys() == RUNS.keys()
    assert {name: counts[1:] for name, counts in CLAIMED.items()} == {
        name: (done, done + own) for name, (done, own) in RUNS.items()
    }


@pytest.fixture
def get(client, session):
    return lambda path: client.get(f"/api/v1{path}", headers=session._headers).json


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_users_have_what_the_contract_has_not(get, world, values):
    more = world.add_player(UserId=values["user_id"], PlayTimeSeconds=60)
    record = get("/users/Alice")
    assert record["RegistrationDate"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (record["PlayTimeSeconds"], record["IsBanned"], record["BanReason"]) == (
        *(3660, False, None),
    )
    listed = get("/users?pageSize=10")
    assert [user["PlayTimeSeconds"] for user in listed["Values"]] == [3660, 0]
    assert (listed["Sort"], listed["Extra"]) == ([], None)
    largest = {"$set": {"PlayTimeSeconds": 2**63 - 1}}
    world.db.players.update_one({"_id": more["_id"]}, largest)
    assert get("/users/Alice")["PlayTimeSeconds"] == 2**63 - 1


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_a_date_stands_where_null_would_crash(get, world):
    world.add_player(Name="Ghost", Vitals=[0, 1], MaxVitals=[9, 9])
    ghost = get("/players/Ghost")
    assert (ghost["LastOnline"], ghost["Dead"]) == ("0001-01-01T00:00:00Z", True)
    world.add_player(Name="Odd")
    for odd in ([None], ["x"], "x", {"0": 1}, 5, []):
        world.db.players.update_one(
            {"Name": "Odd"}, {"$set": {"Vitals": odd}}, bypass_document_validation=True
        )
        assert get("/players/Odd")["Dead"] is False
    world.add_player(Name="Own", Dead=True, Vitals=[5, 5], LastOnline=NOW)
    own = get("/players/Own")
    assert (own["LastOnline"], own["Dead"]) == (NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), True)


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_slots_have_the_names_of_their_items(get, world):
    items = get("/players/Hero/items")
    assert [slot["ItemName"] for slot in items["inventory"][:2]] == ["Potion", ""]
    assert {slot["ItemName"] for slot in items["bank"]} == {""}


@pytest.mark.parametrize("mode", [""], indirect=True)
def test_without_it_answers_are_the_contracts_to_the_letter(get, values):
    assert list(get("/users/Alice")) == [
        *("Id", "Name", "Email", "Power", "PasswordResetCode", "IsMuted", "MuteReason"),
    ]
    assert "Dead" not in get("/players/Hero")
    assert get("/players/Hero")["LastOnline"] is None
    assert list(get("/players")) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert list(get("/players/Hero/items/inventory")[0]) == [
        *("Slot", "BagId", "ItemId", "Quantity", "StatBuffs"),
    ]


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_headers_and_errors_stay(client, session):
    answer = client.post("/api/v1/users", headers=session._headers)
    assert answer.headers["Deprecation"]
    assert len(answer.headers.getlist("X-Request-ID")) == 1
    assert len(answer.headers.getlist("Content-Length")) == 1
    missing = client.get("/api/v1/players/nobody", headers=session._headers)
    assert missing.json["Message"] == "No player with name 'nobody'."


def test_only_a_known_compatibility_is_accepted():
    with pytest.raises(config.SettingsError, match="QM_COMPATIBILITY must be one of intersect"):
        config.load({"QM_ENV": "testing", "QM_COMPATIBILITY": "everybody"})


BAN = "/players/Hero/admin/ban"
# A request, and what is answered without the setting and with it: a status, and a part of the body.
DIFFERENCES = [
    ("GET", "/players?pageSize=0&page=-1&limit=0", None, (400, "pageSize"), (200, '"PageSize":5')),
    ("GET", "/players?search=&sortBy=Colour", None, (400, "search"), (200, "Hero")),
    ("GET", "/players/online?search=nobody&limit=1", None, (200, "Hero"), (200, '"Total":0')),
    ("GET", "/players/online?sortBy=level", None, (200, "Hero"), (200, "Hero")),
    ("POST", "/players/online", {"page": -1, "count": -1}, (400, "page"), (200, "Hero")),
    ("POST", "/players", {"page": "x"}, (400, "page"), (400, "page")),
    ("GET", "/players?pageSize=undefined", None, (400, "pageSize"), (200, '"PageSize":5')),
    ("GET", f"/players/Hero/variables/{STEP}", None, (404, ""), (200, f'"{STEP}","Value":0')),
    ("GET", f"/players/Hero/variables/{STEP}/value", None, (404, ""), (200, '"value":0')),
    ("GET", f"/players/Hero/variables/{ARENA}", None, (404, ""), (404, f"'{ARENA}'")),
    ("GET", "/gameobjects/item", None, (200, '"Next":null'), (200, '"Total":1,"Page":0')),
    ("GET", "/gameobjects/item?page=0&count=3", None, (200, "Next"), (200, '"total":1,"Page":0')),
    ("GET", "/gameobjects/item?after=", None, (200, '"Next":null'), (200, '"Next":null')),
    ("GET", "/gameobjects/weapon?count=1", None, (404, "weapon"), (404, "weapon")),
    ("GET", f"/gameobjects/servervariable/{RATE}", None, (200, '"servervar'), (200, '"Type":2')),
    ("GET", f"/gameobjects/item/{POTION.replace('-', '')}", None, (400, "guid"), (200, "Potion")),
    ("GET", "/info/stats", None, (200, '"onlineCount"'), (200, '"OnlineCount"')),
    (
        *("POST", "/players/Hero/items/give", {"itemid": guid(), "quantity": 1}),
        *((200, ""), (400, '"Message":"Invalid item id."')),
    ),
    (
        *("POST", "/players/Hero/spells/teach", {"spellid": guid()}),
        *((200, ""), (200, '"Id":"')),
    ),
    (
        *("POST", "/users/Alice/password/validate", {"password": sha256("wrong")}),
        *((400, "The password is wrong."), (400, "Invalid credentials.")),
    ),
    ("POST", BAN, {"reason": None, "moderator": None}, (400, "duration"), (200, "banned!")),
    ("POST", BAN, {"duration": 1}, (200, "banned!"), (400, "Hero has already been banned!")),
    ("POST", "/users/Alice/admin/ban", {"duration": 1}, (200, ""), (400, "Alice has already")),
    ("POST", "/players/Hero/admin/UnBan", None, (404, "path"), (200, "unbanned!")),
]


def test_what_the_setting_changes(client, session, db, mode):
    db.players.update_many({}, {"$set": {"Online": True, "LastSeen": datetime.now(timezone.utc)}})
    for method, path, body, *answers in DIFFERENCES:
        answer = client.open(f"/api/v1{path}", method=method, json=body, headers=session._headers)
        status, part = answers[mode == "intersect"]
        assert (answer.status_code, part in answer.text) == (status, True), (path, answer.text)


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_a_form_in_parts_that_cannot_be_read_is_refused(client, values):
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
    is_open = mode == "intersect"
    assert client.get("/api/v1/info").status_code == (200 if is_open else 401)
    assert client.get("/api/v1/info/stats").status_code == 401
    assert client.post("/api/v1/players/Hero/admin/ban").status_code == 401


@pytest.mark.parametrize("mode", ["intersect"], indirect=True)
def test_who_is_not_online_cannot_be_kicked(client, db, values):
    headers = Session(client, values, {})
    headers.sign_in()
    with playing(db, lambda _: {"Error": "Busy."}):
        for online, status, text in ((False, 404, "User not online!"), (True, 409, "Busy.")):
            seen = {"Online": online, "LastSeen": datetime.now(timezone.utc)}
            db.players.update_many({}, {"$set": seen})
            for whom in ("players/Hero", "users/Alice"):
                path = f"/api/v1/{whom}/admin/kick"
                answer = client.post(path, headers=headers._headers)
                assert (answer.status_code, answer.json["Message"]) == (status, text)
