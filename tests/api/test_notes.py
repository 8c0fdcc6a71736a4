"""Notes of staff on players and users (contract-notes)."""

import pytest

from app.users.notes import NotePageSchema
from tests.factories import NOW, guid, numbered_guid, sha256

TEXT = "Asked twice for the same sword;\n\tsee ticket 4711."
PATHS = {"players": "players/Aladric", "users": "users/Alice"}


@pytest.fixture(params=PATHS)
def kind(request):
    """Run a test for notes on a player, and for notes on a user."""
    return request.param


@pytest.fixture
def post(staff, kind, player, alice):
    return lambda text=TEXT, status=200, **headers: (
        staff(f"POST {PATHS[kind]}/notes", {"Text": text}, status, **headers).json
    )


@pytest.fixture
def get(staff, kind, player, alice):
    return lambda path="notes": staff(f"GET {PATHS[kind]}/{path}").json


@pytest.fixture
def store(db, kind, player, alice):
    """Return a way to store notes as another program would."""
    return lambda notes: db[kind].update_many({}, {"$set": {"Notes": notes}})


def stored_note(text=TEXT, at=NOW):
    return {"At": at, "UserId": guid(), "Name": "Staff", "Text": text}


def test_a_note_is_answered_and_listed(post, get, staff):
    note = post()
    assert list(note) == ["Id", "At", "By", "Text"]
    assert (note["By"], note["Text"]) == ({"UserId": staff.user["_id"], "Name": "Clerk"}, TEXT)
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
    assert [note["Id"] for note in seen] == [*map(numbered_guid, (8, 7, 6, 5, 4, 3, 2, 1, 0, 9))]


def test_a_text_is_kept_as_it_is_unless_it_has_control_characters_or_none_that_show(staff, player):
    def write(text, status=200):
        return staff("POST players/Aladric/notes", {"Text": text}, status).json

    for text in ("a\x00b", "\x1b[2J", "a\r\nb", "a\x85b", "", " \n", "\u200b", "x" * 2001):
        assert list(write(text, 400)["Errors"]) == ["Text"], text
    for text in ("x" * 2000, "a\n\tb", "👩‍💻 玩家　あ", "a\u00a0b", "a.$b"):
        assert write(text)["Text"] == text
        assert staff("GET players/Aladric/notes").json["Values"][0]["Text"] == text
    # Blanks around it are dropped, and secrets masked.
    masked = write(f"  sent me {sha256('secret')}, a hash\n")
    assert masked["Text"] == "sent me ***, a hash"


def test_the_text_is_nowhere_in_history(post, get, db):
    note = post(Idempotency_Key="k", X_Reason="He%20wrote%20again")
    entry = get("history")["Values"][0]
    assert (entry["Operation"], entry["Arguments"]) == ("note", {})
    assert entry["Reason"] == "He wrote again"
    assert entry["Changes"] == [{"Path": f"Notes.{note['Id']}", "Before": None, "After": None}]
    for told in (db.history.find_one(), get("history")):
        assert "ticket" not in repr(told)


def test_a_note_is_no_part_of_any_record(staff, player, alice):
    for path in PATHS.values():
        staff(f"POST {path}/notes", {"Text": TEXT})
    for path in (
        *("players", "players/rank", "players/Aladric", "users", "users/Alice"),
        *("users/Alice/players", "users/Alice/moderation"),
        *("logs/user/Alice/activity", "logs/player/Aladric/activity"),
    ):
        told = staff(f"GET {path}").text
        assert [word for word in ("ticket", '"Notes"') if word in told] == [], path


def test_a_repeated_request_gets_its_note_whoever_has_the_name_now(
    kind, post, store, world, player, alice, db
):
    first = post(Idempotency_Key="k")
    same = {"_id": {"players": player, "users": alice}[kind]["_id"]}
    db[kind].update_one(same, {"$set": {"Name": "Renamed", "NameKey": "renamed"}})
    assert post(Idempotency_Key="k") == first
    if kind == "players":
        world.add_player(Name="Aladric")
    else:
        world.add_user(Name="Alice", Email="other@example.com")
    assert post(Idempotency_Key="k") == first
    # Neither the note nor its subject need be there.
    store({})
    for gone in (lambda: None, lambda: db[kind].delete_one(same)):
        gone()
        assert post(Idempotency_Key="k") == first
    assert db.history.count_documents({}) == 1
