"""The pages of batches: the forms that plan one, its rows, and what runs, cancels and undoes it."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from datetime import datetime, timezone

import pytest

from app.batches.running import BatchWorker
from app.core.permissions import Role
from app.http.uploads import FIELDS_BYTES
from tests.applications import service
from tests.console_visitor import (
    SAME_ORIGIN,
    body_of,
    commands_of,
    page_of,
    visitor,
)
from tests.factories import make_batch, numbered_guid

ITEM, OTHER, SPELL, VARIABLE, TWIN = (numbered_guid(number) for number in range(1, 6))
NAMES = ("Aladric", "Elowen", "Thalia")
GIFT = {"operation": "give", "itemid": "Health Potion", "quantity": "5"}


@pytest.fixture(autouse=True)
def catalogue(world):
    for id_, type_, name in (
        (ITEM, "item", "Health Potion"),
        (OTHER, "item", "Twin Blade"),
        (SPELL, "spell", "Fireball"),
        (VARIABLE, "playervariable", "Reputation"),
    ):
        world.add_object(Id=id_, Type=type_, Name=name)


@pytest.fixture
def players(world):
    return [world.add_player(Name=name) for name in NAMES]


@pytest.fixture
def staff(app, world):
    return visitor(app, world, Role.API)


@pytest.fixture
def plan(staff, db):
    """Plan a batch by a form, and return it as it is stored."""

    def plan(kind="players", **fields):
        answer = staff.submit("/batches/new/" + kind, 303, **fields)
        return db.batches.find_one({"_id": answer.headers["Location"].rpartition("/")[2]})

    return plan


@pytest.fixture
def gift(plan, players):
    """A batch for two players, and for somebody who is none."""
    return plan(**GIFT, players="Aladric\nThe Nobody\nElowen", Name="Gifts", reason="Ticket 4711")


def show(staff, batch, query=""):
    answer = staff.get(f"/batches/{batch['_id']}{query}")
    assert answer.status_code == 200, page_of(answer)
    return answer


def run(staff, batch):
    """Run a batch, which the service carries out, and return its page."""
    staff.submit(f"/batches/{batch['_id']}/run", 303)
    while service(staff.app, BatchWorker).work():
        pass
    return show(staff, batch)


def rows_of(db, batch):
    return list(db.batch_rows.find({"Batch": batch["_id"]}, sort=[("_id", 1)]))


def held(world, name):
    return world.db.players.find_one({"Name": name})["Inventory"]


def table(answer):
    """Return the rows of the table: their cells as text."""
    lines = re.findall(r"<tr>\s*(<td class=\"num\">.*?)</tr>", answer.text, re.DOTALL)
    return [" ".join(page_of(Part(line)).split()) for line in lines]


class Part:
    def __init__(self, text):
        self.text = text


def test_the_list_says_what_to_do_next_and_then_what_there_is(staff, players, plan):
    empty = staff.get("/batches")
    assert "There are no batches yet." in page_of(empty)
    assert 'href="/console/batches/new"' in empty.text
    plan(**GIFT, players="Aladric\nThe Nobody", Name="Gifts", reason="Ticket 4711")
    plan(**GIFT, players="Aladric")
    listed = staff.read("/batches")
    assert "0 of 1 done, 1 refused" in listed
    assert listed.index("Give 5 × Health Potion to 1 player") < listed.index("Gifts")
    for told in ("“Ticket 4711”", staff.user["Name"], "planned"):
        assert told in listed


def test_a_list_of_names_is_planned_and_nothing_is_changed_yet(staff, gift, world, db):
    assert [(row["Player"], row["Verdict"]) for row in rows_of(db, gift)] == [
        ("Aladric", "ready"),
        ("The Nobody", "refused"),
        ("Elowen", "ready"),
    ]
    assert (gift["Name"], gift["Reason"], gift["Via"]) == ("Gifts", "Ticket 4711", "console")
    assert gift["By"] == {"UserId": staff.user["_id"], "Name": staff.user["Name"], "Key": None}
    page = show(staff, gift)
    assert "Give 5 × Health Potion to 2 players?" in page_of(page)
    assert "1 of 3 rows is refused and will not be carried out." in page_of(page)
    assert held(world, "Aladric") == {}
    assert table(page)[1].startswith("2 The Nobody Give 5 × Health PotionNo player with name")


def test_a_batch_of_which_all_rows_were_refused_is_not_called_done(staff, players, plan, db):
    batch = plan(**GIFT, players="The Nobody\nNo One")
    runs = staff.post(f"/batches/{batch['_id']}/run")
    told = page_of(staff.get(runs.location.removeprefix("/console")))
    assert "No row of the batch is left to run." in told
    for page in (show(staff, batch), staff.get("/batches")):
        assert '<span class="mark bad">refused</span>' in page.text
        assert 'class="mark good"' not in page.text


def test_a_name_or_id_that_was_pasted_twice_counts_once(plan, players, db):
    elowen = players[1]["_id"]
    lines = ["aladric", "", "  Aladric ", elowen, elowen.upper(), "Nobody", "Nobody"]
    batch = plan(**GIFT, players="\r\n".join(lines))
    rows = [row["Player"].casefold() for row in rows_of(db, batch)]
    assert rows == ["aladric", elowen, "nobody"]


# Files.


def lines(*rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


HEAD = ("Player", "Operation", "ItemId", "Quantity")
CSV_FILE = lines(HEAD, ("Aladric", "give", ITEM, 5), ("elowen", "take", ITEM, 2))
JSON_FILE = json.dumps(
    {
        "Name": "From the file",
        "Reason": "In the file",
        "Rows": [{"Player": "Aladric", "Operation": "give", "ItemId": ITEM, "Quantity": 5}],
    }
).encode()


def upload(staff, content, name="batch.csv", **fields):
    hidden = {"token": staff.token(), "key": str(uuid.uuid4())}
    file = (io.BytesIO(content), name)
    return staff.send("/batches/new/file", {**hidden, **fields, "file": file})


def test_a_file_of_csv_is_planned(staff, players, db):
    """With commas, a byte order mark, semicolons or line feeds."""
    mark, lines = b"\xef\xbb\xbf", b"\n".join(CSV_FILE.splitlines())
    for content in (CSV_FILE, mark + CSV_FILE, CSV_FILE.replace(b",", b";"), lines):
        db.batches.delete_many({})
        answer = upload(staff, content, Name="Gifts", reason="Ticket 4711")
        assert answer.status_code == 303, page_of(answer)
        (batch,) = db.batches.find()
        assert (batch["Name"], batch["Reason"], batch["Via"]) == ("Gifts", "Ticket 4711", "console")
        assert [row["Verdict"] for row in rows_of(db, batch)] == ["ready", "refused"]


def test_a_file_of_json_may_hold_its_name_and_its_reason(staff, players, db):
    assert upload(staff, JSON_FILE, "x").status_code == 303
    assert upload(staff, JSON_FILE, "y", Name="Typed", reason="Typed too").status_code == 303
    batches = list(db.batches.find(sort=[("At", 1)]))
    assert [(batch["Name"], batch["Reason"]) for batch in batches] == [
        ("From the file", "In the file"),
        ("Typed", "Typed too"),
    ]


NO_FILES = {
    **dict.fromkeys((b"", b" \r\n"), "Choose a file"),
    b"Player,Operation\r\n": "A batch has at least one row.",
    b"Player,Operation\r\n\xff\xfe,give\r\n": "The file is not UTF-8: save a spreadsheet as CSV",
    b"a," * 100_000: "A line of the file has more than 131,072 characters.",
    b'{"Rows": [': "not valid JSON",
    b"[]": "must be a JSON object",
    b'{"Gifts": []}': "unknown",
}


def test_a_file_that_is_none_is_refused_beside_what_was_typed(staff, db):
    for content, fault in NO_FILES.items():
        answer = upload(staff, content, Name="Gifts")
        assert answer.status_code == 400
        assert fault in page_of(answer)
        assert 'value="Gifts"' in answer.text
    assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]


# Werkzeug does not close the file of a form that it cannot parse.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_is_too_large_or_broken_off_is_refused(app, staff, monkeypatch, db):
    monkeypatch.setitem(app.config, "BATCH_CONTENT_LENGTH", 2000)
    assert upload(staff, CSV_FILE + b"x" * 2000).status_code == 413
    token = staff.token()
    fields = f'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\n{token}\r\n'
    fields += f'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n{uuid.uuid4()}\r\n'
    file = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    headers = {**SAME_ORIGIN, "Content-Type": "multipart/form-data; boundary=b"}
    for body in (fields + file + CSV_FILE.decode(), fields + fields + file + "x\r\n--b--\r\n"):
        answer = staff._client.post("/console/batches/new/file", data=body, headers=headers)
        assert answer.status_code == 400, page_of(answer)
    monkeypatch.undo()
    long = f'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n{"x" * (FIELDS_BYTES + 1)}\r\n'
    answer = staff._client.post("/console/batches/new/file", data=long + fields, headers=headers)
    assert answer.status_code == 413
    assert db.batches.count_documents({}) == 0


def test_no_other_form_takes_a_file(staff, players):
    fields = {"token": staff.token(), "key": str(uuid.uuid4()), "file": (io.BytesIO(b"x"), "x")}
    assert staff.send("/players/Aladric/give", fields).status_code == 415


# Changes of history.


def test_what_a_person_did_is_undone_from_the_filters_of_history(staff, plan, gift, world, db):
    run(staff, gift)
    name = staff.user["Name"]
    link = f"/console/batches/new/changes?by={name}&amp;operation=give"
    listed = staff.get(f"/history?by={name}&operation=give")
    assert f'href="{link}"' in listed.text
    form = staff.get(link.replace("&amp;", "&").removeprefix("/console"))
    assert re.search(f'name="By"[^>]* value="{name}"', form.text)
    assert '<option value="give" selected>Give</option>' in form.text
    batch = plan("changes", By=name, Operation="give", Item="health potion", Name="Undone")
    page = page_of(show(staff, batch))
    assert "Undo 2 changes?" in page
    assert f"all changes made by {name}, with the operation give, about Health Potion" in page
    run(staff, batch)
    assert [held(world, name) for name in NAMES[:2]] == [{}, {}]


def test_where_a_batch_would_undo_more_than_is_listed_no_link_leads_to_it(staff, gift, db):
    run(staff, gift)
    for query in ("", "?player=Aladric&operation=give", "?reason=Ticket"):
        listed = staff.read(f"/history{query}")
        assert "Health Potion" in listed
        assert "Undo all of these" not in listed


# The page of a batch.


def test_rows_are_filtered_by_verdict_and_player(staff, gift):
    assert [line.split()[1] for line in table(show(staff, gift, "?verdict=ready"))] == [
        "Aladric",
        "Elowen",
    ]
    (refused,) = table(show(staff, gift, "?verdict=refused"))
    assert "No player with name 'The Nobody'." in refused
    (own,) = table(show(staff, gift, "?player=elowen"))
    assert own == "3 Elowen Give 5 × Health Potion ready"
    assert "No row matches." in page_of(show(staff, gift, "?verdict=done"))
    assert "No row matches." in page_of(show(staff, gift, "?player=Thalia"))
    for query, status in (("player=Nobody", 404), ("verdict=good", 400), ("after=x", 400)):
        answer = staff.get(f"/batches/{gift['_id']}?{query}")
        assert answer.status_code == status
        assert 'role="alert"' in answer.text


def test_a_batch_is_run_told_and_linked_to_its_entries(staff, gift, world, db):
    page = run(staff, gift)
    assert "Result done" in page_of(page)
    assert held(world, "Aladric")["0"] == {"ItemId": ITEM, "Quantity": 5}
    (entry, _) = db.history.find(sort=[("_id", 1)])
    assert (entry["Via"], entry["Reason"]) == ("batch", "Ticket 4711")
    assert entry["By"]["Name"] == staff.user["Name"]
    done = show(staff, gift, "?verdict=done")
    assert f'href="/console/history/{entry["_id"]}"' in done.text.replace("%3A", ":")
    assert "form-run" not in done.text
    # Whoever presses the button later is told that nothing is left.
    again = staff.post(f"/batches/{gift['_id']}/run")
    assert again.headers["Location"].endswith("done=batch-done")


def test_a_batch_that_runs_is_watched_paused_and_gone_on_with(staff, gift, world, db):
    path = f"/batches/{gift['_id']}"
    staff.submit(f"{path}/pause", 409)
    runs = staff.get(staff.post(f"{path}/run").headers["Location"].removeprefix("/console"))
    assert "The batch was started." in page_of(runs)
    # Nothing is done by the page: whoever closes it stops nothing.
    assert held(world, "Aladric") == {}
    assert runs.text.count('data-follow="running"') == 6
    assert "even if you leave this page" in page_of(runs)
    author = f'<span dir="auto">{staff.user["Name"]}</span>'
    assert f"<dt>Run by</dt><dd>{author}</dd>" in runs.text.replace("\n", "")
    paused = staff.get(staff.post(f"{path}/pause").headers["Location"].removeprefix("/console"))
    assert "The batch is paused." in page_of(paused)
    assert "data-follow" not in paused.text
    assert not service(staff.app, BatchWorker).work()
    assert held(world, "Aladric") == {}
    page = page_of(show(staff, gift))
    assert "Nothing changes until somebody resumes it" in page
    assert "2 ready" in page
    run(staff, gift)
    assert held(world, "Aladric")["0"]["Quantity"] == 5


def test_an_undo_is_planned_and_shown_before_it_is_run(staff, gift, world, db):
    early = staff.submit(f"/batches/{gift['_id']}/undo", 409)
    assert "The batch is not finished" in page_of(early)
    run(staff, gift)
    late = staff.submit(f"/batches/{gift['_id']}/cancel", 409)
    assert "nothing is left to cancel" in page_of(late)
    key = str(uuid.uuid4())
    answers = [staff.post(f"/batches/{gift['_id']}/undo", key, reason="Wrong item") for _ in "ab"]
    assert len({answer.headers["Location"] for answer in answers}) == 1
    (undo,) = db.batches.find({"Undoes": gift["_id"]})
    assert (undo["Name"], undo["Reason"]) == ("Undo of Gifts", "Wrong item")
    page = show(staff, undo)
    assert "Undo 2 changes?" in page_of(page)
    assert f'href="/console/batches/{gift["_id"]}"' in page.text
    assert "Undo give: −5 Health Potion" in table(page)[0]
    assert 'class="plus"' not in page.text
    assert held(world, "Aladric") != {}
    run(staff, undo)
    assert held(world, "Aladric") == {}


def test_a_batch_that_is_being_planned_offers_nothing_yet(staff, db):
    batch = make_batch(State="planning", Counts={})
    db.batches.insert_one(batch)
    page = show(staff, batch)
    assert "Planning" in page_of(page)
    assert 'data-follow="running"' in page.text
    assert "form-run" not in page.text
    for verb in ("run", "pause", "cancel", "undo"):
        answer = staff.submit(f"/batches/{batch['_id']}/{verb}", 409)
        assert "still being planned" in page_of(answer)
    assert "1 rows" in staff.read("/batches")


def test_the_result_is_a_file_without_formulas(staff, world, plan, db):
    world.add_player(Name='=HYPERLINK("evil")')
    world.add_player(Name="Aladric")
    batch = plan(**GIFT, players='=HYPERLINK("evil")\nAladric\n@Nobody\n\uff1dNobody')
    run(staff, batch)
    answer = staff.get(f"/batches/{batch['_id']}.csv")
    assert answer.mimetype == "text/csv"
    assert "attachment" in answer.headers["Content-Disposition"]
    head, *rows = csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))
    assert head[:7] == ["Row", "Player", "PlayerId", "Operation", "What", "Verdict", "Why"]
    assert {"Batch", "ItemId", "Quantity", "SpellId", "Value", "Id"} <= set(head)
    assert [row[1] for row in rows] == [
        '\'=HYPERLINK("evil")',
        "Aladric",
        "'@Nobody",
        "'\uff1dNobody",
    ]
    assert [row[5] for row in rows] == ["done", "done", "refused", "refused"]
    assert rows[1][4] == "Give 5 × Health Potion"
    assert rows[1][7] == db.history.find_one({"Subject.Name": "Aladric"})["_id"]
    refused = staff.get(f"/batches/{batch['_id']}.csv?verdict=refused").data.decode()
    assert refused.count("\n") == 3


def file_form(data):
    return {"file": (io.BytesIO(data), "batch.csv"), "Name": "Again"}


def test_the_result_file_is_no_batch(staff, gift):
    file = staff.get(f"/batches/{gift['_id']}.csv").data
    answer = staff.submit("/batches/new/file", 400, **file_form(file))
    assert "plan the rest of that batch instead" in page_of(answer)


def test_a_batch_without_a_name_is_called_after_what_it_does(client, staff, world, plan, db):
    world.add_player(Name="Aladric")
    world.add_player(Name="Elowen")
    batch = plan(**GIFT, players="Aladric\nElowen")
    assert batch["Name"] == "Give 5 × Health Potion to 2 players"
    refused = plan(**GIFT, players="Nobody", reason="Summer")
    assert refused["Name"] == "Batch of 1 row"
    for _ in range(2):
        path = staff.post(f"/batches/{refused['_id']}/retry").headers["Location"]
        refused = db.batches.find_one({"_id": path.rpartition("/")[2]})
        assert (refused["Name"], refused["Reason"]) == ("Rest of Batch of 1 row", "Summer")


def test_a_malformed_row_keeps_what_was_sent(staff, world, plan, db):
    world.add_player(Name="Aladric")
    lines = ("Player,Operation,ItemId,Quantity", "Aladric,give,Iron Sword,many")
    batch = plan("file", **file_form("\n".join(lines).encode()))
    page = page_of(staff.get(f"/batches/{batch['_id']}"))
    assert "Give many × Iron Sword" in page
    assert "must be a whole number" in page
    file = staff.get(f"/batches/{batch['_id']}.csv").data.decode("utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(file))
    assert (row["ItemId"], row["Quantity"], row["Verdict"]) == ("Iron Sword", "many", "refused")
    retried = staff.post(f"/batches/{batch['_id']}/retry").headers["Location"]
    assert "Give many × Iron Sword" in page_of(staff.get(retried.removeprefix("/console")))


def test_refused_rows_become_a_batch_by_one_click(staff, world, gift, db):
    page = run(staff, gift)
    assert "Plans a batch with the rows that are not done." in page_of(page)
    world.add_player(Name="The Nobody")
    answer = staff.submit(f"/batches/{gift['_id']}/retry", 303)
    rest = db.batches.find_one({"_id": answer.headers["Location"].rpartition("/")[2]})
    page = show(staff, rest)
    assert "Rest of Gifts" in page_of(page)
    assert f'href="/console/batches/{gift["_id"]}"' in page.text
    assert [row["Verdict"] for row in rows_of(db, rest)] == ["ready"]
    # The link of its change leads to its rows about this player.
    run(staff, rest)
    (player,) = db.players.find({"Name": "The Nobody"})
    history = staff.get(f"/players/{player['_id']}/history").text
    assert f'href="/console/batches/{rest["_id"]}?player={player["_id"]}"' in history
    assert "retry" not in verbs_of(show(staff, rest))


def test_a_batch_is_made_for_the_players_of_a_search(staff, players, plan, db):
    listed = staff.get("/players?search=ala")
    assert "Make a batch for this player" in page_of(listed)
    link = re.search(r'href="/console(/batches/new/found[^"]*)"', listed.text)[1]
    form = staff.get(link.replace("&amp;", "&"))
    assert "For all players whose name contains “ala”, at most 10,000." in page_of(form)
    (line,) = commands_of(form)
    assert body_of(line)["Players"] == {"Search": "ala"}
    batch = plan("found", **GIFT, Search="ala")
    assert [row["Subject"]["Name"] for row in rows_of(db, batch)] == ["Aladric"]
    assert "Make a batch for these 3 players" in staff.read("/players?search=a")
    assert len(rows_of(db, plan("found", **GIFT))) == 3
    assert "Make a batch" not in staff.read("/players/online")
    online = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_one({"Name": "Thalia"}, {"$set": online})
    assert "/batches/new/found?online=true" in staff.get("/players/online").text
    batch = plan("found", **GIFT, Online="true")
    assert [row["Subject"]["Name"] for row in rows_of(db, batch)] == ["Thalia"]
    answer = staff.submit("/batches/new/found", 400, **GIFT, Search="nobody at all")
    assert "matches nobody" in page_of(answer)
    # The refused form is still about the same players.
    assert "whose name contains “nobody at all”" in page_of(answer)


def test_an_undo_in_the_console_takes_what_is_left(staff, gift, db):
    run(staff, gift)
    db.players.update_one({"Name": "Elowen"}, {"$set": {"Inventory.0.Quantity": 2}})
    answer = staff.submit(f"/batches/{gift['_id']}/undo", 303, Partial="true")
    undo = db.batches.find_one({"_id": answer.headers["Location"].rpartition("/")[2]})
    assert any(
        "3 of 5 of the item Health Potion cannot be" in row for row in table(show(staff, undo))
    )
    by = {"By": staff.user["Name"], "Operation": "give"}
    for fields, refused in (({}, 1), ({"Partial": "true"}, 0)):
        answer = staff.submit("/batches/new/changes", 303, **by, **fields)
        id_ = answer.headers["Location"].rpartition("/")[2]
        assert db.batches.find_one({"_id": id_})["Counts"]["Refused"] == refused


def verbs_of(page):
    return [line[-1].rpartition("/")[2] for line in commands_of(page)]


def test_the_curl_lines_do_what_the_forms_do(staff, players, gift):
    typed = {**GIFT, "players": "Aladric", "Name": "n" * 101}
    (line,) = commands_of(staff.post("/batches/new/players", **typed))
    row = {"Player": "PLAYER", "Operation": "give", "ItemId": ITEM, "Quantity": 5}
    assert body_of(line)["Rows"] == [{**row, "BankOverflow": False}]
    (line,) = commands_of(staff.get("/batches/new/file"))
    assert line[-1] == "http://localhost/api/v1/batches?name=NAME"
    assert "@batch.csv" in line
    (line,) = commands_of(staff.get("/batches/new/changes"))
    assert body_of(line) == {"Name": "", "Undo": {"By": "NAME"}}
    assert verbs_of(show(staff, gift)) == ["run", "cancel"]
    staff.post(f"/batches/{gift['_id']}/run")
    assert verbs_of(show(staff, gift)) == ["pause", "cancel"]
    staff.post(f"/batches/{gift['_id']}/cancel")
    assert verbs_of(show(staff, gift)) == ["retry"]
