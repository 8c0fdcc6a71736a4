"""History: every change has its entry, and who may find it by what."""

from datetime import datetime, timedelta, timezone

import pytest

from app.storage.client import Storage
from app.storage.history import Entries
from tests.applications import service
from tests.endpoint_table import CODE
from tests.factories import NOW, guid, make_entry, moment, numbered_guid, sha256

ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
OLD, NEW = sha256("old"), sha256("new")
ADDRESSES = ("old@example.com", "new@example.com")
GIFT = {"itemid": ITEM, "quantity": 1}
GIVE = "POST players/Aladric/items/give"
FIELDS = [
    *("Id", "At", "Subject", "Operation", "By", "ApprovedBy", "Via"),
    *("RequestId", "Reason"),
    *("Arguments", "Changes", "Undoes", "Warning", "UndoneBy", "Batch"),
]


@pytest.fixture
def alice(world):
    code = {"Code": CODE, "ExpiresAt": datetime.now(timezone.utc) + timedelta(hours=1)}
    return world.add_user("old", Name="Alice", Email=ADDRESSES[0], Reset={**code, "Failures": 0})


@pytest.fixture
def entries(staff):
    """Return the entries that a query finds, of the player unless said, the newest first."""
    return lambda query="", of="players/Aladric/": staff(f"GET {of}history?{query}").json["Values"]


def test_a_change_has_its_entry_at_once_with_what_was_asked_and_what_came_of_it(
    staff, entries, world
):
    sent_at = datetime.now(timezone.utc) - timedelta(seconds=1)
    held, five = ({"ItemId": ITEM, "Quantity": quantity} for quantity in (3, 5))
    player = world.add_player(Name="Aladric", Inventory={"4": held})
    reason = "Ticket%204711%3A%20s%C3%BC%C3%9F"
    answer = staff(GIVE, {"itemid": ITEM, "quantity": 2}, X_Reason=reason)
    (entry,) = entries()
    assert list(entry) == FIELDS
    assert moment(entry.pop("At")) >= sent_at
    nothing = dict.fromkeys(("ApprovedBy", "Undoes", "Warning", "UndoneBy", "Batch"))
    assert entry == {
        **{"Id": answer.headers["X-History-Id"], "Operation": "give", "Via": "api", **nothing},
        "Subject": {"Kind": "player", "Id": player["_id"], "Name": "Aladric"},
        "By": {"UserId": staff.user["_id"], "Name": "Clerk", "Key": None},
        **{"RequestId": answer.headers["X-Request-ID"], "Reason": "Ticket 4711: süß"},
        "Arguments": {"ItemId": ITEM, "Quantity": 2, "BankOverflow": False},
        "Changes": [{"Path": "Inventory.4", "Before": held, "After": five}],
    }


def test_what_changes_nothing_is_read_or_refused_leaves_no_entry(staff, entries, player, db):
    staff("GET players/Aladric/items")
    staff("POST players/Aladric/items/take", GIFT, 409)
    assert entries() == []
    assert db.players.find_one({"_id": player["_id"]}) == player
    for _ in range(2):
        answer = staff(f"POST players/Aladric/variables/{VARIABLE}", {"value": 7})
    assert "X-History-Id" not in answer.headers
    assert len(entries()) == 1


USER_CHANGES = [
    ("email/change", {"new": ADDRESSES[1], "authorization": OLD}, "change-email", {"Email"}),
    ("manage/email/change", {"new": ADDRESSES[0]}, "change-email", {"Email"}),
    ("password/change", {"new": NEW, "authorization": OLD}, "change-password", {"Password"}),
    ("manage/password/change", {"new": OLD}, "change-password", {"Password"}),
    ("password/reset", {"new": NEW, "code": CODE}, "reset-password", {"Password"}),
]


def test_of_a_user_it_tells_that_secrets_changed_and_no_secret(staff, entries, alice, db):
    staff("POST users/Alice/password/reset", {"new": NEW, "code": "WRONGONE"}, 403)
    assert entries(of="users/Alice/") == []
    for path, body, operation, paths in USER_CHANGES:
        # Each change voids the code.
        db.users.update_one({"_id": alice["_id"]}, {"$set": {"Reset": alice["Reset"]}})
        staff(f"POST users/Alice/{path}", body)
        entry = entries(of="users/Alice/")[0]
        assert entry["Operation"] == operation
        assert {change["Path"] for change in entry["Changes"]} - {"ResetCode"} == paths, path
        assert all(change["Before"] is change["After"] is None for change in entry["Changes"])
    kept = str(list(db.history.find()))
    secrets = (OLD, NEW, CODE, *ADDRESSES, "argon2", *db.users.distinct("PasswordHash"))
    assert [secret for secret in secrets if secret and secret in kept] == []


# By what is wrong with them; test_hostile.py has more.
REASONS = {
    "500 characters at most": ["a" * 501, "%C3%A4" * 501],
    "percent-encoded": ["100% sure", "%ed%a0%80", "%ff%fe", "gr\u00fcn"],
    "control characters": ["%c2%85", "line%0Abreak", "nul%00"],
}


def test_a_reason_is_kept_whole_with_tokens_masked_or_refused(staff, entries, player):
    for fault, reasons in REASONS.items():
        for reason in reasons:
            assert fault in staff(GIVE, GIFT, 400, X_Reason=reason).json["Message"], reason
    assert entries() == []
    for sent, kept in (("%E5%89%A3" * 500, "\u5263" * 500), (f"password {OLD}", "password ***")):
        staff(GIVE, GIFT, X_Reason=sent)
        assert entries()[0]["Reason"] == kept


@pytest.fixture
def evening(db, player, alice):
    """A history of 30 entries, one a minute, by two people, of three kinds."""
    change = {"Path": "Inventory.0", "Before": None, "After": {"ItemId": ITEM, "Quantity": 1}}
    for number in range(30):
        is_user = number % 10 == 9
        name = ("Ben", "Ann")[number % 2]
        entry = {
            **{"Version": number + 1, "At": NOW + timedelta(minutes=number)},
            "Operation": "change-email" if is_user else ("give", "take")[number % 2],
            "By": {"UserId": guid_of(name), "Name": name} | ({"Key": "k1"} if number == 4 else {}),
            "Reason": f"Ticket {number}, Straße" if number % 3 == 0 else None,
            "Arguments": {} if is_user else {"ItemId": ITEM if number < 20 else SPELL},
            "Changes": [] if number % 4 else [change],
        }
        subject = (alice, "user") if is_user else (player, "player")
        db.history.insert_one(make_entry(*subject, **entry))


def guid_of(name):
    return f"{sum(map(ord, name)):08d}-0000-4000-8000-000000000000"


def minute(entry):
    at = moment(entry["At"])
    return int((at - NOW).total_seconds() // 60)


def time(minutes):
    return (NOW + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


EVERY = set(range(30))
USERS_OWN = {9, 19, 29}
FOUND = {
    "": EVERY,
    "player=aladric": EVERY - USERS_OWN,
    "user=Alice": USERS_OWN,
    "by=ann": {n for n in EVERY if n % 2},
    f"by={guid_of('Ben')}": {n for n in EVERY if not n % 2},
    "by=nobody": set(),
    "key=k1": {4},
    "operation=take": {n for n in EVERY - USERS_OWN if n % 2},
    f"item={ITEM}": {n for n in EVERY - USERS_OWN if n < 20 or n % 4 == 0},
    f"item={SPELL}": {n for n in EVERY - USERS_OWN if n >= 20},
    "reason=ticket": {n for n in EVERY if n % 3 == 0},
    "reason=STRASSE 12": {12},
    "reason=!!!": set(),
    "reason=": EVERY,
    f"from={time(10)}&to={time(12)}": {10, 11},
    "player=Aladric&user=Alice": set(),
    f"by=Ann&operation=take&from={time(5)}&to={time(12)}": {5, 7, 11},
    f"player=Aladric&by=ben&item={ITEM}&reason=ticket 6": {6},
}


def test_every_filter_finds_exactly_what_it_says(staff, evening):
    for query, expected in FOUND.items():
        found = staff(f"GET history?{query}&pageSize=100").json
        assert [minute(e) for e in found["Values"]] == sorted(expected, reverse=True), query
        assert found["Next"] is None


def test_a_walk_sees_each_entry_once_whatever_comes_meanwhile(staff, evening, db, player):
    db.history.insert_many([make_entry(player, Version=n, At=NOW) for n in range(100, 110)])
    for query in ("", "by=ann", "player=Aladric"):
        until = f"{query}&to={time(60)}"
        whole = staff(f"GET history?{until}&pageSize=100").json["Values"]
        walked, after = [], ""
        while after is not None:
            page = staff(f"GET history?{until}&pageSize=4&after={after}").json
            walked += page["Values"]
            after = page["Next"]
            later = NOW + timedelta(days=1, minutes=len(walked))
            db.history.insert_one(make_entry(player, _id=guid(), At=later))
        assert [entry["Id"] for entry in walked] == [entry["Id"] for entry in whole], query


UNDONE = {
    "teach": ("spells/teach", {"spellid": SPELL}, SPELL),
    "set-variable": (f"variables/{VARIABLE}", {"value": 7}, VARIABLE),
}


def test_an_undo_is_found_by_its_spell_or_variable(staff, entries, player):
    for operation, (path, body, item) in UNDONE.items():
        made = staff(f"POST players/Aladric/{path}", body)
        staff(f"POST history/{made.headers['X-History-Id']}/undo")
        assert [entry["Operation"] for entry in entries(f"item={item}")] == ["undo", operation]


def test_times_of_a_player_grow_whatever_the_clock_does(app, staff, entries, player, monkeypatch):
    clock = service(app, Storage).clock
    for seconds in (0, 0, -3600, 1):
        now = NOW + timedelta(seconds=seconds)
        monkeypatch.setattr(type(clock), "now", lambda _, now=now: now)
        staff(GIVE, GIFT)
    found = entries()
    assert [entry["Changes"][0]["After"]["Quantity"] for entry in found] == [4, 3, 2, 1]
    assert len({entry["At"] for entry in found}) == 4


def test_entries_expire_unless_they_are_kept_for_ever(db, player):
    for days, expected in ((400, timedelta(days=400)), (0, None)):
        entry = make_entry(player, _id=guid(), At=NOW)
        Entries(db, days).add(entry)
        expires = db.history.find_one({"_id": entry["_id"]}).get("ExpiresAt")
        assert expires == (NOW + expected if expected else None)
