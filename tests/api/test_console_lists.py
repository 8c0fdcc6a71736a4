"""Lists of the console: what is marked in them, who is banned and muted, and their CSV files."""

import csv
import io
import re
from datetime import datetime, timedelta, timezone

import pytest

from app.console.frame import lists
from app.core.permissions import Role, new_role
from tests.console_table import CONSOLE_DOORS, VALUES
from tests.console_visitor import PASSWORD, Visitor, page_of, visitor
from tests.factories import NOW, guid

FUTURE = datetime(2099, 11, 24, 12, tzinfo=timezone.utc)
FORMULA = '=HYPERLINK("evil")'
FORMULAS = (FORMULA, "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\uff1dx")


@pytest.fixture
def staff(app, world):
    return visitor(app, world, *Role)


def rows_of(answer):
    assert (answer.status_code, answer.mimetype) == (200, "text/csv"), page_of(answer)
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig"))))


def marks_of(answer):
    return re.findall('<span class="mark[^"]*">([^<]*)</span>', answer.text)


def note(text, **more):
    return {"At": NOW, "UserId": guid(), "Name": "Clerk", "Text": text, **more}


def test_notes_are_counted_wherever_a_player_or_a_user_is_listed(staff, world):
    notes = {guid(): one for one in (note("one"), note("two"), note("gone", IsHidden=True))}
    user = world.add_user(Name="thalia", Notes={guid(): note("only")})
    world.add_player(Name="Thalion", UserId=user["_id"], Notes=notes)
    for page in ("/players?search=thal", "/search?q=thal", "/suggest?q=thal"):
        assert "2 notes" in marks_of(staff.get(page)), page
    for page in ("/users?search=thal", "/search?q=thal"):
        assert "1 note" in marks_of(staff.get(page)), page
    assert "2" in marks_of(staff.get("/players/Thalion"))
    assert "1" in marks_of(staff.get("/users/thalia"))


def test_a_deleted_player_is_found_and_marked_for_readers_of_history(app, staff, world, db):
    player = world.add_player(Name="Thalion")
    staff.submit(f"/players/{player['_id']}/delete", 303, confirm="Thalion")
    world.add_player(Name="Thalionne")
    pages = ("/search?q=thal", "/suggest?q=thal", f"/search?q={player['_id']}")
    for page in (*pages, "/players?search=thal"):
        answer = staff.get(page)
        assert "deleted" in marks_of(answer), page
        assert f"/console/players/{player['_id']}" in answer.text
    gone = staff.get(f"/players/{player['_id']}/history")
    assert "deleted" in marks_of(gone)
    # The fields of forms suggest only those who can be chosen.
    assert "Thalion\n" not in staff.read("/suggest/player?q=thalion") + "\n"
    role = new_role("looker", ["players.read"], None)
    world.db.roles.insert_one(role)
    somebody = Visitor(app)
    somebody.user = world.add_user(PASSWORD, Name="looker", Roles=["looker"])
    somebody.begin_session()
    assert "deleted" not in marks_of(somebody.get("/search?q=thal"))


def test_every_page_of_a_thing_has_its_id_to_copy(staff, world):
    player = world.add_player(Name="Thalion")
    for path in (f"/players/{player['_id']}", f"/users/{staff.user['_id']}"):
        id_ = path.rpartition("/")[2]
        assert f'<code data-copy="Copy the id">{id_}</code>' in staff.get(path).text


@pytest.mark.parametrize(
    ("state", "flag", "until", "why", "by"),
    [
        ("banned", "IsBanned", "BannedUntil", "BanReason", "BannedBy"),
        ("muted", "IsMuted", "MutedUntil", "MuteReason", "MutedBy"),
    ],
)
def test_banned_and_muted_users_are_listed_until_it_is_over(
    staff, world, state, flag, until, why, by
):
    assert f"Nobody is {state} now." in staff.read(f"/users/{state}")
    over = datetime.now(timezone.utc) - timedelta(seconds=1)
    for name, end in (("ended", over), ("timed", FUTURE), ("for-ever", None)):
        world.add_user(Name=name, **{flag: True, why: f"Why {name}"})
        world.db.users.update_one({"Name": name}, {"$set": {until: end}})
    world.db.users.update_one({"Name": "timed"}, {"$set": {by: "Clerk"}})
    shown = staff.read(f"/users/{state}")
    assert "Why ended" not in shown
    assert all(text in shown for text in ("2099-11-24 12:00 UTC", "Clerk", "Why timed", "the game"))
    rows = {row["Name"]: row for row in rows_of(staff.get(f"/users/{state}.csv"))}
    assert rows.keys() == {"timed", "for-ever"}
    assert rows["timed"][until] == "2099-11-24T12:00:00.000Z"
    assert (rows["timed"][by], rows["timed"][why]) == ("Clerk", "Why timed")


def test_the_list_of_banned_users_has_pages(staff, world):
    for number in range(52):
        world.add_user(Name=f"user{number:02}", IsBanned=True)
    answer = staff.get("/users/banned")
    following = re.search(r'rel="next" href="/console([^"]*)"', answer.text)[1]
    assert "user24" in answer.text
    assert "user25" not in answer.text
    assert "user25" in staff.read(following)
    assert "user24" not in staff.read(following)
    assert len(rows_of(staff.get("/users/banned.csv"))) == 52


def test_the_file_of_a_list_has_its_filter_and_no_formulas(staff, world, db):
    for name in FORMULAS:
        world.add_player(Name=f"{name} thal")
    world.add_player(Name="a;=1 thal")
    world.add_player(Name="somebody else")
    rows = rows_of(staff.get("/players.csv?search=thal&after=ignored"))
    assert {row["Name"] for row in rows} == {f"'{name} thal" for name in FORMULAS} | {"a;'=1 thal"}
    for row in rows:
        staff.submit(f"/players/{row['Id']}/notes", 303, Text="A note")
    found = rows_of(staff.get(f"/history.csv?player={rows[0]['Id']}"))
    assert [(row["Operation"], row["Subject"]) for row in found] == [("note", rows[0]["Name"])]
    assert rows_of(staff.get("/players.csv?search=thal"))[0]["Marks"] == "1 note"
    link = f'href="/console/players/{rows[0]["Id"]}/history.csv"'
    assert link in staff.get(f"/players/{rows[0]['Id']}/history").text
    assert rows_of(staff.get(f"/history.csv?user={staff.user['_id']}")) == []
    refused = staff.get("/history.csv?player=Nobody")
    assert refused.status_code == 404
    assert "text/html" in refused.content_type


def test_a_long_list_is_streamed_to_its_end(staff, world, monkeypatch):
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 3)
    names = [f"Thalion {number}" for number in range(8)]
    for name in names:
        world.add_player(Name=name, Online=True, LastSeen=FUTURE)
    assert [row["Name"] for row in rows_of(staff.get("/players.csv?sort=name"))] == names
    assert len(rows_of(staff.get("/players/online.csv?page=1"))) == len(names)


def test_a_file_has_addresses_only_for_who_may_export_personal_data(app, staff, world):
    clerk = visitor(app, world, Role.API, Role.USERS_QUERY)
    assert "Email" not in rows_of(clerk.get("/users.csv"))[0]
    assert {row["Email"] for row in rows_of(staff.get("/users.csv"))} == {
        user["Email"] for user in world.db.users.find()
    }


def test_what_only_readers_of_users_see_is_in_no_file_of_others(app, staff, world, db):
    user = world.add_user(Name="thalia")
    world.add_player(Name="Thalion", UserId=user["_id"])
    staff.submit("/users/thalia/ban", 303, duration="3", reason="Ticket 4711")
    assert rows_of(staff.get("/players.csv"))[0]["Marks"] == "banned"
    assert [row["Kind"] for row in rows_of(staff.get("/history.csv"))] == ["user"]
    clerk = visitor(app, world)
    assert rows_of(clerk.get("/players.csv"))[0]["Marks"] == ""
    assert rows_of(clerk.get("/history.csv")) == []


def test_every_file_of_a_list_can_be_read_and_head_is_empty(staff, world):
    """Also where there is nothing in the list."""
    world.add_player(Name=VALUES["player"])
    doors = [door for door in CONSOLE_DOORS if door.route.endswith(".csv")]
    paths = [door.path_with(VALUES) for door in doors if "[batch]" not in door.route]
    assert len(paths) > 5
    for path in paths:
        local = path.removeprefix("/console").replace(VALUES["user"], staff.user["_id"])
        rows_of(staff.get(local))
        assert not staff._client.head(f"/console{local}").data


def test_no_command_and_no_collection_is_told_outside_of_what_is_for_developers(staff, world):
    world.add_player(Name="Thalion")
    for path in ("/players?search=zzz", "/game", "/health", "/users", "/catalogue/npc"):
        text = re.sub(
            r"<details class=\"curl\">.*?</details>", "", staff.get(path).text, flags=re.S
        )
        assert not re.search(r"quartermaster \w+ \w+|QM_|/api/v1|collection", text), path
