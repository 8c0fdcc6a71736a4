"""History: every change has its entry, and who may find it by what."""

from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from app.auth.roles import Role
from app.database import SUBJECTS
from app.operations import all_operations
from app.storage.client import Storage
from app.storage.journal import Journals
from tests.applications import service
from tests.contract_tables import camel_case
from tests.endpoint_table import CODE
from tests.factories import NOW, guid, make_entry, numbered_guid, sha256
from tests.openapi_document import OPERATIONS
from tests.swaps import move_all

PLAYERS, USERS, HISTORY = "/api/v1/players", "/api/v1/users", "/api/v1/history"
QUERY = (Role.API, Role.USERS_QUERY)
MANAGE = (*QUERY, Role.USERS_MANAGE)
ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
OLD, NEW = sha256("old"), sha256("new")
ADDRESSES = ("old@example.com", "new@example.com")
FIELDS = [
    *("Id", "At", "Subject", "Operation", "By", "Via", "RequestId", "Reason"),
    *("Arguments", "Changes", "Undoes", "Warning", "UndoneBy"),
]


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric")


@pytest.fixture
def alice(world):
    code = {"Code": CODE, "ExpiresAt": datetime.now(timezone.utc) + timedelta(hours=1)}
    return world.add_user("old", Name="Alice", Email=ADDRESSES[0], Reset={**code, "Failures": 0})


@pytest.fixture
def clerk(world):
    return world.add_user(roles=MANAGE, Name="Clerk")


@pytest.fixture
def send(client, world, clerk):
    """Send a request as the clerk; return the answer, which must be a 200 unless said otherwise."""
    headers = world.headers(user=clerk)

    def send(method, path, body=None, status=200, **more):
        sent = {name.replace("_", "-"): value for name, value in more.items()}
        answer = client.open(path, method=method, json=body, headers={**headers, **sent})
        assert answer.status_code == status, answer.json
        return answer

    return send


@pytest.fixture
def entries(send):
    """Return the entries of a subject, the newest first."""
    return lambda path, **query: send("GET", f"{path}/history{as_query(query)}").json["Values"]


def as_query(query):
    return "?" + "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())


CHANGES = [
    ("items/give", {"itemid": ITEM, "quantity": 5}, "give", ["Inventory.0"]),
    ("spells/teach", {"spellid": SPELL}, "teach", ["Spells.0"]),
    (f"variables/{VARIABLE}", {"value": 7}, "set-variable", [f"Variables.{VARIABLE}"]),
]


@pytest.mark.parametrize(("path", "body", "operation", "paths"), CHANGES)
def test_every_change_of_a_player_has_its_entry_at_once(
    send, entries, player, clerk, path, body, operation, paths
):
    sent_at = datetime.now(timezone.utc) - timedelta(seconds=1)
    answer = send(
        "POST", f"{PLAYERS}/Aladric/{path}", body, X_Reason="Ticket%204711%3A%20s%C3%BC%C3%9F"
    )
    (entry,) = entries(f"{PLAYERS}/Aladric")
    assert list(entry) == FIELDS
    assert entry["Id"] == f"player:{player['_id']}:1"
    assert datetime.fromisoformat(entry["At"].replace("Z", "+00:00")) >= sent_at
    assert entry["Subject"] == {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    assert entry["Operation"] == operation
    assert entry["By"] == {"UserId": clerk["_id"], "Name": "Clerk", "Key": None}
    assert (entry["Via"], entry["RequestId"]) == ("api", answer.headers["X-Request-ID"])
    assert entry["Reason"] == "Ticket 4711: süß"
    assert [change["Path"] for change in entry["Changes"]] == paths
    assert (entry["Undoes"], entry["UndoneBy"]) == (None, None)


def test_an_entry_tells_what_was_asked_and_what_came_of_it(send, entries, world):
    held = {"ItemId": ITEM, "Quantity": 3}
    world.add_player(Name="Bob", Inventory={"4": held})
    send("POST", f"{PLAYERS}/Bob/items/give", {"itemid": ITEM, "quantity": 2})
    send("POST", f"{PLAYERS}/Bob/items/take", {"itemid": ITEM, "quantity": 5})
    taken, given = entries(f"{PLAYERS}/Bob")
    assert given["Arguments"] == {"ItemId": ITEM, "Quantity": 2, "BankOverflow": False}
    five = {"ItemId": ITEM, "Quantity": 5}
    assert given["Changes"] == [{"Path": "Inventory.4", "Before": held, "After": five}]
    assert taken["Changes"] == [{"Path": "Inventory.4", "Before": five, "After": None}]


PENALTY = {"duration": 7, "reason": "spam"}
# By operation of the OpenAPI document: method, path and body. They are sent one after another.
RECORDED = {
    "giveItem": ("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 5}),
    "takeItem": ("POST", f"{PLAYERS}/Aladric/items/take", {"itemid": ITEM, "quantity": 2}),
    "teachSpell": ("POST", f"{PLAYERS}/Aladric/spells/teach", {"spellid": SPELL}),
    "forgetSpell": ("POST", f"{PLAYERS}/Aladric/spells/forget", {"spellid": SPELL}),
    "setVariable": ("POST", f"{PLAYERS}/Aladric/variables/{VARIABLE}", {"value": 7}),
    "undoChange": ("POST", "/api/v1/history/[newest]/undo", {}),
    "writePlayerNote": ("POST", f"{PLAYERS}/Aladric/notes", {"Text": "A friend."}),
    "setGlobalVariable": ("POST", f"/api/v1/variables/global/{VARIABLE}", {"value": 7}),
    "banPlayer": ("POST", f"{PLAYERS}/Aladric/admin/ban", PENALTY),
    "unbanPlayer": ("POST", f"{PLAYERS}/Aladric/admin/unban", {}),
    "mutePlayer": ("POST", f"{PLAYERS}/Aladric/admin/mute", PENALTY),
    "unmutePlayer": ("POST", f"{PLAYERS}/Aladric/admin/unmute", {}),
    "savePlayer": ("PUT", f"{PLAYERS}/[player]", {"Level": 8}),
    "renamePlayer": ("POST", f"{PLAYERS}/Aladric/name", {"Name": "Bob"}),
    "deletePlayer": ("DELETE", f"{PLAYERS}/Bob", None),
    "registerUser": (
        "POST",
        f"{USERS}/register",
        {"username": "Nova", "email": "nova@example.com", "password": OLD},
    ),
    "changeEmail": (
        "POST",
        f"{USERS}/Alice/email/change",
        {"new": ADDRESSES[1], "authorization": OLD},
    ),
    "manageEmail": ("POST", f"{USERS}/Alice/manage/email/change", {"new": ADDRESSES[0]}),
    "sendResetCode": ("GET", f"{USERS}/Nova/password/reset", None),
    "changePassword": (
        "POST",
        f"{USERS}/Nova/password/change",
        {"new": NEW, "authorization": OLD},
    ),
    "redeemResetCode": ("POST", f"{USERS}/Ada/password/reset", {"new": NEW, "code": CODE}),
    "managePassword": ("POST", f"{USERS}/Alice/manage/password/change", {"new": NEW}),
    "banUser": ("POST", f"{USERS}/Alice/admin/ban", PENALTY),
    "unbanUser": ("POST", f"{USERS}/Alice/admin/unban", {}),
    "muteUser": ("POST", f"{USERS}/Alice/admin/mute", PENALTY),
    "unmuteUser": ("POST", f"{USERS}/Alice/admin/unmute", {}),
    "writeUserNote": ("POST", f"{USERS}/Alice/notes", {"Text": "A friend."}),
    "createUserKey": ("POST", "/api/v1/keys?user=Alice", {"Name": "shop", "Scopes": ["game.act"]}),
    "rotateUserKey": ("POST", "/api/v1/keys/[key]/rotate?user=Alice", {}),
    "revokeUserKey": ("DELETE", "/api/v1/keys/[key]?user=Alice", None),
    "revokeTokens": ("DELETE", "/api/oauth/token/Alice", None),
    "getPersonalData": ("GET", f"{USERS}/Nova/personal-data", None),
    "eraseUser": ("POST", f"{USERS}/Nova/erase", {"Confirm": "Nova"}),
}


def test_every_change_answers_with_the_id_of_its_entry(send, alice, player, world, db):
    db.players.update_one({"_id": player["_id"]}, {"$set": {"UserId": alice["_id"]}})
    world.add_object(Id=VARIABLE, Type="servervariable", Name="Rate", Value=1)
    world.add_user("old", Name="Ada", Reset=alice["Reset"])
    known = {"[player]": player["_id"]}
    for operation, (method, path, body) in RECORDED.items():
        for name, value in known.items():
            path = path.replace(name, value)
        answer = send(method, path, body)
        entry_id = known["[newest]"] = answer.headers["X-History-Id"]
        entry = send("GET", f"/api/v1/history/{entry_id}").json
        # An erasure leaves no request id in entries of the person.
        made_by = entry["RequestId"] or entry["Operation"]
        assert made_by in (answer.headers["X-Request-ID"], "erase"), operation
        if operation == "createUserKey":
            known["[key]"] = answer.json["Id"]


def test_the_document_says_which_changes_do():
    told = {
        name
        for name, (_, _, operation) in OPERATIONS.items()
        if "X-History-Id" in operation["responses"]["200"]["headers"]
    }
    views = [view for operation in all_operations() for view in operation.routes]
    assert told == {camel_case(view) for view in views} >= RECORDED.keys()


def test_what_changes_nothing_names_no_entry(send, player):
    for body in ({"value": 7}, {"value": 7}):
        answer = send("POST", f"{PLAYERS}/Aladric/variables/{VARIABLE}", body)
    assert "X-History-Id" not in answer.headers
    assert "X-History-Id" not in send("GET", f"{PLAYERS}/Aladric").headers


def test_reads_and_refusals_leave_none(send, entries, player, db):
    send("GET", f"{PLAYERS}/Aladric/items")
    send("POST", f"{PLAYERS}/Aladric/items/take", {"itemid": ITEM, "quantity": 1}, 409)
    send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": "x"}, 400)
    assert entries(f"{PLAYERS}/Aladric") == []
    assert db.players.find_one({"_id": player["_id"]}) == player


USER_CHANGES = [
    ("email/change", {"new": ADDRESSES[1], "authorization": OLD}, "change-email", {"Email"}),
    ("manage/email/change", {"new": ADDRESSES[1]}, "change-email", {"Email"}),
    ("password/change", {"new": NEW, "authorization": OLD}, "change-password", {"Password"}),
    ("manage/password/change", {"new": NEW}, "change-password", {"Password"}),
    ("password/reset", {"new": NEW, "code": CODE}, "reset-password", {"Password"}),
]


@pytest.mark.parametrize(("path", "body", "operation", "paths"), USER_CHANGES)
def test_of_a_user_it_tells_that_secrets_changed_and_no_secret(
    send, entries, alice, db, path, body, operation, paths
):
    send("POST", f"{USERS}/Alice/{path}", body)
    (entry,) = entries(f"{USERS}/Alice")
    assert entry["Operation"] == operation
    assert {change["Path"] for change in entry["Changes"]} - {"ResetCode"} == paths
    assert all(change["Before"] is change["After"] is None for change in entry["Changes"])
    move_all(db, "users")
    kept = str(list(db.history.find()))
    secrets = (OLD, NEW, CODE, *ADDRESSES, "argon2", *db.users.distinct("PasswordHash"))
    assert [secret for secret in secrets if secret and secret in kept] == []


def test_a_wrong_code_leaves_none(send, entries, alice):
    send("POST", f"{USERS}/Alice/password/reset", {"new": NEW, "code": "WRONGONE"}, 403)
    assert entries(f"{USERS}/Alice") == []


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("a" * 501, "500 characters at most"),
        ("%C3%A4" * 501, "500 characters at most"),
        ("100% sure", "percent-encoded"),
        ("%ed%a0%80", "percent-encoded"),
        ("%c2%85", "control characters"),
        ("%ff%fe", "percent-encoded"),
        ("line%0Abreak", "control characters"),
        ("nul%00", "control characters"),
        ("gr\u00fcn", "percent-encoded"),
    ],
)
def test_a_reason_that_cannot_be_kept_is_refused(send, entries, player, reason, fault):
    gift = {"itemid": ITEM, "quantity": 1}
    answer = send("POST", f"{PLAYERS}/Aladric/items/give", gift, 400, X_Reason=reason)
    assert fault in answer.json["Message"]
    assert entries(f"{PLAYERS}/Aladric") == []


def test_a_reason_of_500_letters_of_any_script_is_kept(send, entries, player):
    gift = {"itemid": ITEM, "quantity": 1}
    send("POST", f"{PLAYERS}/Aladric/items/give", gift, X_Reason="%E5%89%A3" * 500)
    assert entries(f"{PLAYERS}/Aladric")[0]["Reason"] == "\u5263" * 500


def test_a_token_in_a_reason_is_masked(send, entries, player):
    gift = {"itemid": ITEM, "quantity": 1}
    send("POST", f"{PLAYERS}/Aladric/items/give", gift, X_Reason=f"password {OLD}")
    assert entries(f"{PLAYERS}/Aladric")[0]["Reason"] == "password ***"


@pytest.fixture
def evening(db, player, alice):
    """A history of 30 entries, one a minute, by two people, of three kinds."""
    stored = []
    for number in range(30):
        is_user = number % 10 == 9
        subject, kind = (alice, "user") if is_user else (player, "player")
        clerk = ("Ann", guid_of("Ann")) if number % 2 else ("Ben", guid_of("Ben"))
        change = {"Path": "Inventory.0", "Before": None, "After": {"ItemId": ITEM, "Quantity": 1}}
        stored.append(
            make_entry(
                subject,
                kind,
                Version=number + 1,
                At=NOW + timedelta(minutes=number),
                Operation="change-email" if is_user else ("give", "take")[number % 2],
                By={"UserId": clerk[1], "Name": clerk[0], **({"Key": "k1"} if number == 4 else {})},
                Reason=f"Ticket {number}, Straße" if number % 3 == 0 else None,
                Arguments={} if is_user else {"ItemId": ITEM if number < 20 else SPELL},
                Changes=[] if number % 4 else [change],
            )
        )
    db.history.insert_many(stored)
    return stored


def guid_of(name):
    return f"{sum(map(ord, name)):08d}-0000-4000-8000-000000000000"


def minute(entry):
    at = datetime.fromisoformat(entry["At"].replace("Z", "+00:00"))
    return int((at - NOW).total_seconds() // 60)


def time(minutes):
    return (NOW + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


EVERY = set(range(30))
USERS_OWN = {9, 19, 29}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, EVERY),
        ({"player": "aladric"}, EVERY - USERS_OWN),
        ({"user": "Alice"}, USERS_OWN),
        ({"by": "ann"}, {n for n in EVERY if n % 2}),
        ({"by": guid_of("Ben")}, {n for n in EVERY if not n % 2}),
        ({"by": "nobody"}, set()),
        ({"key": "k1"}, {4}),
        ({"operation": "take"}, {n for n in EVERY - USERS_OWN if n % 2}),
        ({"item": ITEM}, {n for n in EVERY - USERS_OWN if n < 20 or n % 4 == 0}),
        ({"item": SPELL}, {n for n in EVERY - USERS_OWN if n >= 20}),
        ({"reason": "ticket"}, {n for n in EVERY if n % 3 == 0}),
        ({"reason": "STRASSE 12"}, {12}),
        ({"reason": "!!!"}, set()),
        ({"reason": ""}, EVERY),
        ({"from": time(10), "to": time(12)}, {10, 11}),
        ({"player": "Aladric", "user": "Alice"}, set()),
        ({"by": "Ann", "operation": "take", "from": time(5), "to": time(12)}, {5, 7, 11}),
        ({"player": "Aladric", "by": "ben", "item": ITEM, "reason": "ticket 6"}, {6}),
    ],
)
def test_every_filter_finds_exactly_what_it_says(send, evening, query, expected):
    found = send("GET", HISTORY + as_query({**query, "pageSize": 100})).json
    assert [minute(entry) for entry in found["Values"]] == sorted(expected, reverse=True)
    assert found["Next"] is None


@pytest.mark.parametrize("query", [{}, {"by": "ann"}, {"player": "Aladric"}])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_walk_sees_each_entry_once(send, evening, db, player, query, size):
    walked, after, new = [], "", 100
    while after is not None:
        page = send("GET", HISTORY + as_query({**query, "pageSize": size, "after": after})).json
        assert len(page["Values"]) <= size
        walked += page["Values"]
        after = page["Next"]
        # Entries that come while somebody walks are newer, and not in the way.
        db.history.insert_one(
            make_entry(player, Version=new, At=NOW + timedelta(days=1, minutes=new))
        )
        new += 1
    whole = send("GET", HISTORY + as_query({**query, "pageSize": 100, "to": time(60)})).json
    assert [entry["Id"] for entry in walked] == [entry["Id"] for entry in whole["Values"]]


def test_entries_of_the_same_moment_are_walked_once_each(send, db, player):
    db.history.insert_many([make_entry(player, Version=n) for n in range(25)])
    walked, after = [], ""
    while after is not None:
        page = send("GET", HISTORY + as_query({"pageSize": 3, "after": after})).json
        walked += [entry["Id"] for entry in page["Values"]]
        after = page["Next"]
    assert len(walked) == len(set(walked)) == 25


def test_a_role_that_may_not_see_users_does_not_see_their_history(
    client, as_role, evening, alice, db
):
    headers = as_role(Role.API)
    get = partial(client.get, headers=headers)
    seen = get(f"{HISTORY}?pageSize=100").json["Values"]
    assert {minute(entry) for entry in seen} == EVERY - USERS_OWN
    hidden = f"user:{alice['_id']}:10"
    for path in (f"?user={alice['_id']}", f"/{hidden}"):
        assert get(HISTORY + path).status_code == 403
    assert client.post(f"{HISTORY}/{hidden}/undo", headers=headers).status_code == 403
    assert get(f"{USERS}/Alice/history").status_code == 403


def test_one_entry_is_found_by_its_id_moved_or_not(send, player, db):
    send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
    path = f"{HISTORY}/player:{player['_id']}:1"
    unmoved = send("GET", path).json
    move_all(db)
    assert db.players.find_one({"_id": player["_id"]})["Journal"] == []
    assert send("GET", path).json == unmoved
    for unknown in (f"player:{player['_id']}:2", "player:x:1", "nonsense", f"user:{guid()}:1"):
        send("GET", f"{HISTORY}/{unknown}", status=404)


def test_what_is_half_moved_is_shown_once(send, entries, player, db):
    for _ in range(3):
        send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
    journal = db.players.find_one({"_id": player["_id"]})["Journal"]
    move_all(db)
    # As if the mover had been killed before it emptied the journal.
    db.players.update_one({"_id": player["_id"]}, {"$set": {"Journal": journal[1:]}})
    assert [entry["Id"][-2:] for entry in entries(f"{PLAYERS}/Aladric")] == [":3", ":2", ":1"]
    pages = entries(f"{PLAYERS}/Aladric", pageSize=2)
    assert [entry["Id"][-2:] for entry in pages] == [":3", ":2"]


def test_a_filter_looks_at_what_has_not_moved_too(send, entries, player):
    send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1}, X_Reason="gift")
    send("POST", f"{PLAYERS}/Aladric/spells/teach", {"spellid": SPELL})
    named = {"item": ITEM}, {"operation": "give"}, {"reason": "Gift"}, {"by": "clerk"}
    assert [len(entries(f"{PLAYERS}/Aladric", **query)) for query in named] == [1, 1, 1, 2]


def test_an_undo_is_found_by_its_spell_or_variable(send, entries, player):
    for path, body, *_ in CHANGES[1:]:
        send("POST", f"{PLAYERS}/Aladric/{path}", body)
        (newest,) = entries(f"{PLAYERS}/Aladric", pageSize=1)
        send("POST", f"{HISTORY}/{newest['Id']}/undo")
    found = {item: entries(f"{PLAYERS}/Aladric", item=item) for item in (SPELL, VARIABLE)}
    assert [[e["Operation"] for e in found[item]] for item in (SPELL, VARIABLE)] == [
        ["undo", "teach"],
        ["undo", "set-variable"],
    ]


def test_times_of_a_player_grow_whatever_the_clock_does(app, send, entries, player, monkeypatch):
    clock = service(app, Storage).clock
    times = iter([NOW, NOW, NOW - timedelta(hours=1), NOW + timedelta(seconds=1)])
    monkeypatch.setattr(type(clock), "now", lambda _: next(times))
    for _ in range(4):
        send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
    found = entries(f"{PLAYERS}/Aladric")
    assert [entry["Id"][-2:] for entry in found] == [":4", ":3", ":2", ":1"]
    assert len({entry["At"] for entry in found}) == 4


def test_entries_expire_unless_they_are_kept_for_ever(db, player, send):
    for days, expected in ((400, timedelta(days=400)), (0, None)):
        send("POST", f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
        Journals(db, days).move(SUBJECTS["players"], [player["_id"]])
        entry = db.history.find_one(sort=[("Version", -1)])
        assert (
            entry["ExpiresAt"] - entry["At"] if expected else entry.get("ExpiresAt")
        ) == expected
