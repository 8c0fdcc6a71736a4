"""Endpoints ai to al: notes of staff on players and users (contract-notes)."""

import pytest

from app.auth.roles import Role
from app.notes.domain import MOST_NOTES
from app.notes.schemas import NotePageSchema, NoteSchema
from tests.factories import NOW, guid, numbered_guid, sha256
from tests.swaps import move_all

TEXT = "Asked twice for the same sword;\n\tsee ticket 4711."
HISTORY = "/api/v1/history"
PATHS = {"players": "/api/v1/players/Aladric/", "users": "/api/v1/users/Alice/"}


@pytest.fixture(params=["players", "users"])
def kind(request):
    """Run a test for notes on a player, and for notes on a user."""
    return request.param


@pytest.fixture
def subject(world, kind):
    return world.add_player(Name="Aladric") if kind == "players" else world.add_user(Name="Alice")


@pytest.fixture
def staff(world):
    return world.add_user(Name="Staff", roles=(Role.API, Role.USERS_QUERY))


@pytest.fixture
def headers(world, staff):
    return world.headers(user=staff)


@pytest.fixture
def post(client, headers, kind, subject):
    def post(text=TEXT, key=None, **more):
        keyed = {"Idempotency-Key": key} if key else {}
        sent = {**headers, **keyed, **more}
        return client.post(f"{PATHS[kind]}notes", json={"Text": text}, headers=sent)

    return post


@pytest.fixture
def get(client, headers, kind, subject):
    return lambda path="notes", **query: client.get(
        PATHS[kind] + path, headers=headers, query_string=query
    )


@pytest.fixture
def texts(get):
    return lambda: [note["Text"] for note in get().json["Values"]]


@pytest.fixture
def store(db, kind, subject):
    """Return a way to store notes as another program would."""

    def store(notes):
        db[kind].update_one({"_id": subject["_id"]}, {"$set": {"Notes": notes}})

    return store


@pytest.fixture
def newest(get):
    return lambda: get("history", pageSize=1).json["Values"][0]


@pytest.fixture
def undo(client, headers, newest):
    """Undo an entry, or the newest one of the subject."""

    def undo(entry=None, status=200, **body):
        path = f"{HISTORY}/{(entry or newest())['Id']}/undo"
        answer = client.post(path, json=body, headers=headers)
        assert answer.status_code == status, answer.json
        return answer.json

    return undo


def stored_note(text=TEXT, at=NOW):
    return {"At": at, "UserId": guid(), "Name": "Staff", "Text": text}


def test_a_note_is_answered_and_listed(post, get, staff):
    answer = post()
    assert answer.status_code == 200
    note = answer.json
    assert list(note) == ["Id", "At", "By", "Text"]
    assert note["By"] == {"UserId": staff["_id"], "Name": "Staff"}
    assert note["Text"] == TEXT
    assert NoteSchema().validate(note) == {}
    page = get().json
    assert page == {"Values": [note], "Next": None}
    assert NotePageSchema().validate(page) == {}


def test_a_walk_meets_each_note_once_whatever_is_written_meanwhile(post, get, store):
    # Many of the same time, one of the first year, and one that is hidden.
    notes = {numbered_guid(number): stored_note(f"note {number}") for number in range(9)}
    notes[numbered_guid(9)] = stored_note("oldest", NOW.replace(year=1))
    store({**notes, numbered_guid(10): {**stored_note("hidden"), "IsHidden": True}})
    seen, page = [], get(pageSize=3).json
    while page["Next"]:
        seen += page["Values"]
        post("written meanwhile")
        page = get(pageSize=3, after=page["Next"]).json
    seen += page["Values"]
    assert [note["Id"] for note in seen] == [
        *(numbered_guid(number) for number in sorted(range(9), key=numbered_guid, reverse=True)),
        numbered_guid(9),
    ]
    assert seen[-1]["Text"] == "oldest"


def test_a_repeated_request_for_a_note_that_is_gone_says_so(post, store):
    post(key="k")
    store({})
    answer = post(key="k")
    assert answer.status_code == 409
    assert "no longer there" in answer.json["Message"]


def test_there_is_room_for_a_hundred_notes(post, get, store):
    store({numbered_guid(number): stored_note() for number in range(MOST_NOTES - 1)})
    assert post().status_code == 200
    answer = post()
    assert answer.status_code == 409
    assert answer.json["Message"] == "There are 100 notes already, and no room for another."
    assert len(get(pageSize=100).json["Values"]) == MOST_NOTES


@pytest.mark.parametrize(
    "text", ["a\x00b", "\x1b[2J", "a\r\nb", "a\x7fb", "a\x85b", "", " \n", "\u200b", "x" * 2001]
)
def test_a_text_with_control_characters_or_without_any_that_show_is_refused(post, get, text):
    answer = post(text)
    assert answer.status_code == 400
    assert list(answer.json["Errors"]) == ["Text"]
    assert get().json["Values"] == []


@pytest.mark.parametrize("text", ["x" * 2000, "a\n\tb", "👩‍💻 玩家　あ", "a\u00a0b", "a.$b"])
def test_any_other_text_is_kept_as_it_is(post, texts, text):
    assert post(text).json["Text"] == text
    assert texts() == [text]


def test_blanks_around_a_text_are_dropped_and_secrets_masked(post, texts):
    post(f"  sent me {sha256('secret')}, a hash\n")
    assert texts() == ["sent me ***, a hash"]


def test_the_text_is_nowhere_in_history_nor_in_the_journal(post, get, db, kind, subject):
    note = post(key="k", **{"X-Reason": "He%20wrote%20again"}).json
    unmoved = db[kind].find_one({"_id": subject["_id"]})["Journal"]
    assert [entry["Answer"] for entry in unmoved] == [note["Id"]]
    entry = get("history").json["Values"][0]
    assert (entry["Operation"], entry["Arguments"]) == ("note", {})
    assert entry["Reason"] == "He wrote again"
    assert entry["Changes"] == [{"Path": f"Notes.{note['Id']}", "Before": None, "After": None}]
    move_all(db, kind)
    moved = list(db.history.find())
    assert len(moved) == 1
    for told in (unmoved, moved, get("history").json):
        assert "ticket" not in repr(told)


@pytest.mark.parametrize("is_moved", [False, True])
def test_an_undo_hides_a_note_and_the_undo_of_it_shows_it_again(
    post, texts, undo, db, kind, is_moved
):
    post("stays")
    post("comes and goes")
    for expected in (["stays"], ["comes and goes", "stays"], ["stays"]):
        if is_moved:
            move_all(db, kind)
        assert undo()["Operation"] == "undo"
        assert texts() == expected
    assert "comes and goes" not in repr(list(db.history.find()))


def test_a_note_is_no_part_of_any_record(client, headers, world):
    player, user = world.add_player(Name="Aladric"), world.add_user(Name="Alice")
    for path in PATHS.values():
        client.post(f"{path}notes", json={"Text": TEXT}, headers=headers)
    for path in (
        *("players", "players/rank", f"players/{player['_id']}", "users", f"users/{user['_id']}"),
        *(f"users/{player['UserId']}/players", "users/Alice/moderation"),
        *("logs/user/Alice/activity", "logs/player/Aladric/activity"),
    ):
        answer = client.get(f"/api/v1/{path}", headers=headers)
        assert "ticket" not in answer.text, path
        assert '"Notes"' not in answer.text, path


@pytest.mark.parametrize("odd", ["x", 5, [1]])
def test_what_is_no_map_of_notes_is_listed_as_none_and_not_overwritten(
    post, get, db, kind, subject, odd
):
    broken = {**db[kind].find_one({"_id": subject["_id"]}), "Notes": odd}
    db[kind].delete_one({"_id": subject["_id"]})
    db[kind].insert_one(broken, bypass_document_validation=True)
    assert get().json["Values"] == []
    answer = post()
    assert answer.status_code == 409
    assert "db check" in answer.json["Message"]
    assert db[kind].find_one({"_id": subject["_id"]})["Notes"] == odd
