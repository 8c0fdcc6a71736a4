"""Notes of staff on players and users (contract-notes)."""

import pytest

from app.users.notes import MOST_NOTES, NotePageSchema, NoteSchema
from tests.factories import NOW, guid, numbered_guid, sha256

TEXT = "Asked twice for the same sword;\n\tsee ticket 4711."
PATHS = {"players": "players/Aladric", "users": "users/Alice"}


@pytest.fixture(params=["players", "users"])
def kind(request):
    """Run a test for notes on a player, and for notes on a user."""
    return request.param


@pytest.fixture
def subject(world, kind):
    return world.add_player(Name="Aladric") if kind == "players" else world.add_user(Name="Alice")


@pytest.fixture
def post(staff, kind, subject):
    return lambda text=TEXT, status=200, **headers: (
        staff(f"POST {PATHS[kind]}/notes", {"Text": text}, status, **headers).json
    )


@pytest.fixture
def get(staff, kind, subject):
    return lambda path="notes": staff(f"GET {PATHS[kind]}/{path}").json


@pytest.fixture
def texts(get):
    return lambda: [note["Text"] for note in get()["Values"]]


@pytest.fixture
def store(db, kind, subject):
    """Return a way to store notes as another program would."""
    update = db[kind].update_one
    return lambda notes: update({"_id": subject["_id"]}, {"$set": {"Notes": notes}})


def stored_note(text=TEXT, at=NOW):
    return {"At": at, "UserId": guid(), "Name": "Staff", "Text": text}


def test_a_note_is_answered_and_listed(post, get, staff):
    note = post()
    assert list(note) == ["Id", "At", "By", "Text"]
    assert (note["By"], note["Text"]) == ({"UserId": staff.user["_id"], "Name": "Clerk"}, TEXT)
    assert NoteSchema().validate(note) == {}
    assert get() == {"Values": [note], "Next": None}
    assert NotePageSchema().validate(get()) == {}


def test_a_walk_meets_each_note_once_whatever_is_written_meanwhile(post, get, store):
    # Many of the same time, one of the first year, and one that is hidden.
    notes = {numbered_guid(number): stored_note(f"note {number}") for number in range(9)}
    notes[numbered_guid(9)] = stored_note("oldest", NOW.replace(year=1))
    store({**notes, numbered_guid(10): {**stored_note("hidden"), "IsHidden": True}})
    page = get("notes?pageSize=3")
    seen = page["Values"]
    while page["Next"]:
        post("written meanwhile")
        page = get(f"notes?pageSize=3&after={page['Next']}")
        seen += page["Values"]
    same_time = sorted(map(numbered_guid, range(9)), reverse=True)
    assert [note["Id"] for note in seen] == [*same_time, numbered_guid(9)]
    assert seen[-1]["Text"] == "oldest"


def test_a_repeated_request_for_a_note_that_is_gone_gets_it_from_its_entry(post, store, texts):
    first = post(Idempotency_Key="k")
    store({})
    again = post(Idempotency_Key="k")
    assert {**again, "At": first["At"]} == first
    assert texts() == []


def test_there_is_room_for_a_hundred_notes(post, get, store):
    store({numbered_guid(number): stored_note() for number in range(MOST_NOTES - 1)})
    post()
    assert post(status=409)["Message"] == "There are already 100 notes, the maximum."
    assert len(get("notes?pageSize=100")["Values"]) == MOST_NOTES


def test_a_text_is_kept_as_it_is_unless_it_has_control_characters_or_none_that_show(post, texts):
    for text in ("a\x00b", "\x1b[2J", "a\r\nb", "a\x85b", "", " \n", "\u200b", "x" * 2001):
        assert list(post(text, 400)["Errors"]) == ["Text"], text
    kept = ["x" * 2000, "a\n\tb", "👩‍💻 玩家　あ", "a\u00a0b", "a.$b"]
    assert [post(text)["Text"] for text in kept] == kept
    assert texts() == kept[::-1]
    # Blanks around it are dropped, and secrets masked.
    post(f"  sent me {sha256('secret')}, a hash\n")
    assert texts()[0] == "sent me ***, a hash"


def test_the_text_is_nowhere_in_history(post, get, db, kind, subject):
    note = post(Idempotency_Key="k", X_Reason="He%20wrote%20again")
    entry = get("history")["Values"][0]
    assert (entry["Operation"], entry["Arguments"]) == ("note", {})
    assert entry["Reason"] == "He wrote again"
    assert entry["Changes"] == [{"Path": f"Notes.{note['Id']}", "Before": None, "After": None}]
    (stored,) = db.history.find()
    assert stored["Answer"]["Id"] == note["Id"]
    for told in (stored, get("history")):
        assert "ticket" not in repr(told)


def test_a_note_is_no_part_of_any_record(staff, world):
    player, user = world.add_player(Name="Aladric"), world.add_user(Name="Alice")
    for path in PATHS.values():
        staff(f"POST {path}/notes", {"Text": TEXT})
    for path in (
        *("players", "players/rank", f"players/{player['_id']}", "users", f"users/{user['_id']}"),
        *("users/Alice/players", "users/Alice/moderation"),
        *("logs/user/Alice/activity", "logs/player/Aladric/activity"),
    ):
        told = staff(f"GET {path}").text
        assert [word for word in ("ticket", '"Notes"') if word in told] == [], path


def test_a_repeated_request_gets_its_note_whoever_has_the_name_now(staff, kind, post, world, db):
    first = post(Idempotency_Key="k")
    (entry,) = db.history.find()
    same_subject = {"_id": entry["Subject"]["Id"]}
    db[kind].update_one(same_subject, {"$set": {"Name": "Renamed", "NameKey": "renamed"}})
    assert post(Idempotency_Key="k") == first
    name = PATHS[kind].split("/")[1]
    if kind == "players":
        world.add_player(Name=name)
    else:
        world.add_user(Name=name, Email="other@example.com")
    assert post(Idempotency_Key="k") == first
    db[kind].delete_one(same_subject)
    again = post(Idempotency_Key="k")
    assert {**again, "At": first["At"]} == first
    assert db.history.count_documents({}) == 1
