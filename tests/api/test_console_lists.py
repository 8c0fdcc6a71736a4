"""Lists of the console: what is marked in them, who is banned and muted, and their CSV files."""

import csv
import io
import re
from datetime import datetime, timedelta, timezone

import pytest

from app.console.frame import lists
from app.core.permissions import Role
from tests.console_visitor import Visitor, markup_of, page_of, texts_in, visitor
from tests.factories import NOW, guid, make_role

FUTURE = datetime(2099, 11, 24, 12, tzinfo=timezone.utc)
FORMULAS = ('=HYPERLINK("evil")', "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\uff1dx")


def rows_of(answer):
    assert (answer.status_code, answer.mimetype) == (200, "text/csv"), page_of(answer)
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig"))))


def marks_on(browser, path):
    return texts_in(browser.get(path), ".mark")


def note(text, **more):
    return {"At": NOW, "UserId": guid(), "Name": "Clerk", "Text": text, **more}


def test_notes_are_counted_wherever_a_player_or_a_user_is_listed(lead, world):
    notes = {guid(): one for one in (note("one"), note("two"), note("gone", IsHidden=True))}
    user = world.add_user(Name="thalia", Notes={guid(): note("only")})
    world.add_player(Name="Thalion", UserId=user["_id"], Notes=notes)
    for page in ("/players?search=thal", "/search?q=thal", "/suggest?q=thal"):
        assert "2 notes" in marks_on(lead, page), page
    for page in ("/users?search=thal", "/search?q=thal"):
        assert "1 note" in marks_on(lead, page), page
    assert "2" in marks_on(lead, "/players/Thalion")
    assert "1" in marks_on(lead, "/users/thalia")


def test_a_deleted_player_is_found_and_marked_for_readers_of_history(app, lead, world, db):
    player = world.add_player(Name="Thalion")
    lead.submit(f"/players/{player['_id']}/delete", 303, confirm="Thalion")
    world.add_player(Name="Thalionne")
    for page in ("search?q=thal", "suggest?q=thal", f"search?q={player['_id']}"):
        assert "deleted" in marks_on(lead, f"/{page}"), page
        assert f"/console/players/{player['_id']}" in lead.get(f"/{page}").text
    for page in ("players?search=thal", f"players/{player['_id']}/history"):
        assert "deleted" in marks_on(lead, f"/{page}"), page
    # The fields of forms suggest only those who can be chosen.
    options = markup_of(lead.get("/suggest/player?q=thalion")).select("[data-value]")
    assert [option["data-value"] for option in options] == ["Thalionne"]
    db.roles.insert_one(make_role("looker", "players.read"))
    looker = Visitor(app)
    looker.user = world.add_user(Roles=["looker"])
    looker.begin_session()
    assert "deleted" not in marks_on(looker, "/search?q=thal")


@pytest.mark.parametrize(
    ("state", "flag", "until", "why", "by"),
    [
        ("banned", "IsBanned", "BannedUntil", "BanReason", "BannedBy"),
        ("muted", "IsMuted", "MutedUntil", "MuteReason", "MutedBy"),
    ],
)
def test_banned_and_muted_users_are_listed_until_it_is_over(
    lead, world, db, state, flag, until, why, by
):
    assert f"Nobody is {state} now." in lead.read(f"/users/{state}")
    over = datetime.now(timezone.utc) - timedelta(seconds=1)
    for name, end in (("ended", over), ("timed", FUTURE), ("for-ever", None)):
        world.add_user(Name=name)
        penalty = {flag: True, why: f"Why {name}", until: end}
        db.users.update_one({"Name": name}, {"$set": penalty})
    db.users.update_one({"Name": "timed"}, {"$set": {by: "Clerk"}})
    shown = lead.read(f"/users/{state}")
    assert "Why ended" not in shown
    assert all(text in shown for text in ("2099-11-24 12:00 UTC", "Clerk", "Why timed", "the game"))
    rows = {row["Name"]: row for row in rows_of(lead.get(f"/users/{state}.csv"))}
    assert rows.keys() == {"timed", "for-ever"}
    told = [rows["timed"][column] for column in (until, by, why)]
    assert told == ["2099-11-24T12:00:00.000Z", "Clerk", "Why timed"]


def test_the_list_of_banned_users_has_pages(lead, world, db):
    def names(page):
        return texts_in(page, "tbody th a")

    wanted = [f"user{number:02}" for number in range(52)]
    for name in wanted:
        world.add_user(Name=name, IsBanned=True)
    page = lead.get("/users/banned")
    following = markup_of(page).select_one("a[rel=next]")["href"].removeprefix("/console")
    assert names(page) + names(lead.get(following)) == wanted[:50]
    assert len(rows_of(lead.get("/users/banned.csv"))) == 52


def test_the_file_of_a_list_has_its_filter_and_no_formulas(lead, world):
    for name in (*FORMULAS, "a;=1"):
        world.add_player(Name=f"{name} thal")
    world.add_player(Name="somebody else")
    rows = rows_of(lead.get("/players.csv?search=thal&after=ignored"))
    assert {row["Name"] for row in rows} == {f"'{name} thal" for name in FORMULAS} | {"a;'=1 thal"}
    for row in rows:
        lead.submit(f"/players/{row['Id']}/notes", 303, Text="A note")
    found = rows_of(lead.get(f"/history.csv?player={rows[0]['Id']}"))
    assert [(row["Operation"], row["Subject"]) for row in found] == [("note", rows[0]["Name"])]
    assert rows_of(lead.get("/players.csv?search=thal"))[0]["Marks"] == "1 note"
    link = f'href="/console/players/{rows[0]["Id"]}/history.csv"'
    assert link in lead.get(f"/players/{rows[0]['Id']}/history").text
    refused = lead.get("/history.csv?player=Nobody")
    assert (refused.status_code, refused.mimetype) == (404, "text/html")


def test_a_long_list_is_streamed_to_its_end(lead, world, monkeypatch):
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 3)
    names = [f"Thalion {number}" for number in range(8)]
    for name in names:
        world.add_player(Name=name, Online=True, LastSeen=FUTURE)
    assert [row["Name"] for row in rows_of(lead.get("/players.csv?sort=name"))] == names
    assert len(rows_of(lead.get("/players/online.csv?page=1"))) == len(names)


def test_a_file_tells_nobody_more_than_the_pages_do(app, lead, world, db):
    user = world.add_user(Name="thalia")
    world.add_player(Name="Thalion", UserId=user["_id"])
    lead.submit("/users/thalia/ban", 303, duration="3", reason="Ticket 4711")
    clerk, reader = visitor(app, world), visitor(app, world, Role.API, Role.USERS_QUERY)
    for browser, marks, kinds in ((lead, "banned", ["user"]), (clerk, "", [])):
        assert rows_of(browser.get("/players.csv"))[0]["Marks"] == marks
        assert [row["Kind"] for row in rows_of(browser.get("/history.csv"))] == kinds
    # Addresses are personal data.
    assert "Email" not in rows_of(reader.get("/users.csv"))[0]
    addresses = {row["Email"] for row in rows_of(lead.get("/users.csv"))}
    assert addresses == {user["Email"] for user in db.users.find()}


def test_no_command_and_no_collection_is_named_outside_of_what_is_for_developers(lead):
    for path in ("/players?search=zzz", "/game", "/health", "/users", "/catalogue/npc"):
        page = markup_of(lead.get(path))
        for part in page.select("details.curl"):
            part.decompose()
        names = re.search(r"quartermaster \w+ \w+|QM_|/api/v1|collection", page.get_text())
        assert not names, path
