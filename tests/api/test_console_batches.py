"""The pages of batches: the forms that plan one, its rows, and what runs, cancels and undoes it."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import uuid
from datetime import datetime, timezone

import pytest

from app.http.uploads import FIELDS_BYTES
from tests.console_visitor import body_of, commands_of, page_of, visitor
from tests.factories import ITEM, held, make_batch

NAMES = ("Aladric", "Elowen", "Thalia")
GIFT = {"operation": "give", "itemid": "Health Potion", "quantity": "5"}
CSV_FILE = f"Player,Operation,ItemId,Quantity\nAladric,give,{ITEM},5\nelowen,take,{ITEM},2\n"
JSON_FILE = json.dumps(
    {
        "Name": "From the file",
        "Reason": "In the file",
        "Rows": [{"Player": "Aladric", "Operation": "give", "ItemId": ITEM, "Quantity": 5}],
    }
)


@pytest.fixture(autouse=True)
def players(world):
    world.add_object(Id=ITEM, Type="item", Name="Health Potion")
    return [world.add_player(Name=name) for name in NAMES]


@pytest.fixture
def clerk(app, world):
    return visitor(app, world)


@pytest.fixture
def planned(clerk, db):
    """Send a form that plans a batch, and return that as it is stored."""

    def planned(path, **fields):
        answer = clerk.submit(path, 303, **fields)
        return db.batches.find_one({"_id": answer.headers["Location"].rpartition("/")[2]})

    return planned


@pytest.fixture
def plan(planned):
    """Plan a batch for the players of a list of names."""
    return lambda players, **fields: planned(
        "/batches/new/players", **GIFT, players=players, **fields
    )


@pytest.fixture
def batch(plan):
    """A batch for two players, and for somebody who is none."""
    return plan("Aladric\nThe Nobody\nElowen", Name="Gifts", reason="Ticket 4711")


@pytest.fixture
def show(clerk):
    def show(batch, query=""):
        answer = clerk.get(f"/batches/{batch['_id']}{query}")
        assert answer.status_code == 200, page_of(answer)
        return answer

    return show


@pytest.fixture
def run(clerk, show, run_batches):
    """Run a batch, which the service carries out, and return its page."""

    def run(batch):
        clerk.submit(f"/batches/{batch['_id']}/run", 303)
        run_batches()
        return show(batch)

    return run


def upload(clerk, text, **fields):
    file = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    return clerk.post("/batches/new/file", **fields, file=(file, "batch.csv"))


def rows_of(db, batch):
    return list(db.batch_rows.find({"Batch": batch["_id"]}, sort=[("_id", 1)]))


def table(answer):
    """Return the rows of the table: their cells as text."""
    lines = re.findall(r"<tr>\s*(<td class=\"num\">.*?)</tr>", answer.text, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", "", line)).split()) for line in lines]


def verbs_of(page):
    return [line[-1].rpartition("/")[2] for line in commands_of(page)]


def test_the_list_says_what_to_do_next_and_then_what_there_is(clerk, plan):
    """A batch without a name is called after what it does."""
    empty = clerk.get("/batches")
    assert "There are no batches yet." in page_of(empty)
    assert 'href="/console/batches/new"' in empty.text
    plan("Aladric\nThe Nobody", Name="Gifts", reason="Ticket 4711")
    assert plan("Aladric")["Name"] == "Give 5 × Health Potion to 1 player"
    listed = clerk.read("/batches")
    assert listed.index("Give 5 × Health Potion to 1 player") < listed.index("Gifts")
    for told in ("0 of 1 done, 1 refused", "“Ticket 4711”", clerk.user["Name"], "planned"):
        assert told in listed


def test_a_list_of_names_is_planned_and_nothing_is_changed_yet(clerk, batch, show, db):
    assert (batch["Name"], batch["Reason"], batch["Via"]) == ("Gifts", "Ticket 4711", "console")
    assert batch["By"] == {"UserId": clerk.user["_id"], "Name": clerk.user["Name"], "Key": None}
    page = show(batch)
    assert "Give 5 × Health Potion to 2 players?" in page_of(page)
    assert "1 of 3 rows is refused and will not be carried out." in page_of(page)
    assert table(page)[1].startswith("2 The Nobody Give 5 × Health PotionNo player with name")
    assert held(db) == 0


def test_a_name_or_id_that_was_pasted_twice_counts_once(plan, players, db):
    elowen = players[1]["_id"]
    lines = ["aladric", "", "  Aladric ", elowen, elowen.upper(), "Nobody", "Nobody"]
    rows = rows_of(db, plan("\r\n".join(lines)))
    assert [row["Player"].casefold() for row in rows] == ["aladric", elowen, "nobody"]


def test_a_batch_of_which_all_rows_were_refused_is_not_called_done(clerk, plan, show):
    batch = plan("The Nobody\nNo One")
    runs = clerk.submit(f"/batches/{batch['_id']}/run", 303)
    assert "No row of the batch is left to run." in page_of(clerk.led_to(runs))
    for page in (show(batch), clerk.get("/batches")):
        assert '<span class="mark bad">refused</span>' in page.text
        assert 'class="mark good"' not in page.text


def test_a_file_is_planned_with_what_was_typed_or_what_it_says(clerk, db):
    typed = {"Name": "Typed", "reason": "Typed too"}
    for file, fields in ((CSV_FILE, typed), (JSON_FILE, {}), (JSON_FILE, typed)):
        assert upload(clerk, file, **fields).status_code == 303
    batches = list(db.batches.find(sort=[("At", 1)]))
    assert [(batch["Name"], batch["Reason"]) for batch in batches] == [
        ("Typed", "Typed too"),
        ("From the file", "In the file"),
        ("Typed", "Typed too"),
    ]
    assert [row["Verdict"] for row in rows_of(db, batches[0])] == ["ready", "refused"]


NO_FILES = [
    (b"", "Choose a file"),
    (b" \r\n", "Choose a file"),
    (b"Player,Operation\r\n", "A batch has at least one row."),
    (b"Player,Operation\r\n\xff\xfe,give\r\n", "The file is not UTF-8: save a spreadsheet as CSV"),
    (b"[]", "The file must be a JSON object"),
]


def test_a_file_that_is_none_is_refused_beside_what_was_typed(clerk, db):
    for content, fault in NO_FILES:
        answer = upload(clerk, content, Name="Gifts")
        assert (answer.status_code, fault in page_of(answer)) == (400, True)
        assert 'value="Gifts"' in answer.text
    assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]


# Werkzeug does not close the file of a form that it cannot parse.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_is_too_large_or_broken_off_is_refused(app, clerk, monkeypatch, db):
    def send(*parts):
        return clerk.stream(
            "/batches/new/file",
            io.BytesIO("".join(parts).encode()),
            "multipart/form-data; boundary=b",
        ).status_code

    def part(name, text, more=""):
        return f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{text}'

    fields = f"{part('token', clerk.token())}\r\n{part('key', uuid.uuid4())}\r\n"
    file = part("file", CSV_FILE, '; filename="x"')
    assert send(fields, file) == send(fields, fields, file, "\r\n--b--\r\n") == 400
    long = part("x", "x" * (FIELDS_BYTES + 1))
    assert send(f"{long}\r\n", fields) == 413
    monkeypatch.setitem(app.config, "BATCH_CONTENT_LENGTH", 2000)
    assert upload(clerk, CSV_FILE + "x" * 2000).status_code == 413
    assert db.batches.count_documents({}) == 0


def test_no_other_form_takes_a_file(clerk):
    clerk.submit("/players/Aladric/give", 415, file=(io.BytesIO(b"x"), "x"))


def test_what_a_person_did_is_undone_from_the_filters_of_history(
    clerk, planned, batch, show, run, db
):
    run(batch)
    name = clerk.user["Name"]
    link = f"/console/batches/new/changes?by={name}&amp;operation=give"
    assert f'href="{link}"' in clerk.get(f"/history?by={name}&operation=give").text
    form = clerk.get(link.replace("&amp;", "&").removeprefix("/console"))
    assert re.search(f'name="By"[^>]* value="{name}"', form.text)
    assert '<option value="give" selected>Give</option>' in form.text
    chosen = {"By": name, "Operation": "give", "Item": "health potion"}
    undo = planned("/batches/new/changes", **chosen)
    page = page_of(show(undo))
    assert "Undo 2 changes?" in page
    assert f"all changes made by {name}, with the operation give, about Health Potion" in page
    run(undo)
    assert held(db) == 0


def test_where_a_batch_would_undo_more_than_is_listed_no_link_leads_to_it(clerk, batch, run):
    run(batch)
    for query in ("", "?player=Aladric&operation=give", "?reason=Ticket"):
        listed = clerk.read(f"/history{query}")
        assert "Health Potion" in listed
        assert "Undo all of these" not in listed


def test_rows_are_filtered_by_verdict_and_player(clerk, batch, show):
    for query, rows in (
        ("verdict=ready", ["Aladric", "Elowen"]),
        ("player=elowen", ["Elowen"]),
        ("player=Thalia", []),
    ):
        page = show(batch, f"?{query}")
        assert [line.split()[1] for line in table(page)] == rows
        assert ("No row matches." in page_of(page)) == (not rows)
    for query, status in (("player=Nobody", 404), ("verdict=good", 400), ("after=x", 400)):
        answer = clerk.get(f"/batches/{batch['_id']}?{query}")
        assert (answer.status_code, 'role="alert"' in answer.text) == (status, True)


def test_a_batch_is_run_watched_paused_and_resumed(clerk, batch, show, run, run_batches, db):
    path = f"/batches/{batch['_id']}"
    assert verbs_of(show(batch)) == ["run", "cancel"]
    clerk.submit(f"{path}/pause", 409)
    runs = clerk.led_to(clerk.post(f"{path}/run"))
    assert "The batch was started." in page_of(runs)
    assert "even if you leave this page" in page_of(runs)
    assert runs.text.count('data-follow="running"') == 6
    assert verbs_of(runs) == ["pause", "cancel"]
    author = f'<span dir="auto">{clerk.user["Name"]}</span>'
    assert f"<dt>Run by</dt><dd>{author}</dd>" in runs.text.replace("\n", "")
    paused = clerk.led_to(clerk.post(f"{path}/pause"))
    assert "The batch is paused." in page_of(paused)
    assert "Nothing changes until somebody resumes it" in page_of(paused)
    assert "data-follow" not in paused.text
    run_batches()
    assert held(db) == 0
    assert "Result done" in page_of(run(batch))
    assert held(db) == 10
    entry = db.history.find_one(sort=[("_id", 1)])["_id"]
    done = show(batch, "?verdict=done")
    assert f'href="/console/history/{entry}"' in done.text.replace("%3A", ":")
    assert verbs_of(done) == ["undo", "retry"]
    # Whoever presses the button later is told that nothing is left.
    assert clerk.post(f"{path}/run").headers["Location"].endswith("done=batch-done")
    late = clerk.submit(f"{path}/cancel", 409)
    assert "nothing is left to cancel" in page_of(late)


def test_an_undo_is_planned_and_shown_before_it_is_run(clerk, planned, batch, show, run, db):
    path = f"/batches/{batch['_id']}/undo"
    assert "The batch is not finished" in page_of(clerk.submit(path, 409))
    run(batch)
    undo = planned(path, reason="Wrong item")
    assert undo["Reason"] == "Wrong item"
    page = show(undo)
    assert "Undo 2 changes?" in page_of(page)
    assert f'href="/console/batches/{batch["_id"]}"' in page.text
    assert "Undo give: −5 Health Potion" in table(page)[0]
    assert 'class="plus"' not in page.text
    assert held(db) == 10
    run(undo)
    assert held(db) == 0


def test_an_undo_takes_what_is_left(clerk, planned, batch, show, run, db):
    run(batch)
    db.players.update_one({"Name": "Elowen"}, {"$set": {"Inventory.0.Quantity": 2}})
    undo = planned(f"/batches/{batch['_id']}/undo", Partial="true")
    lines = " ".join(table(show(undo)))
    assert "3 of 5 of the item Health Potion cannot be" in lines
    by = {"By": clerk.user["Name"], "Operation": "give"}
    for fields, refused in (({}, 1), ({"Partial": "true"}, 0)):
        assert planned("/batches/new/changes", **by, **fields)["Counts"]["Refused"] == refused


def test_a_batch_that_is_being_planned_offers_nothing_yet(clerk, show, db):
    batch = make_batch(State="planning", Counts={})
    db.batches.insert_one(batch)
    page = show(batch)
    assert "Planning" in page_of(page)
    assert 'data-follow="running"' in page.text
    assert verbs_of(page) == []
    for verb in ("run", "pause", "cancel", "undo"):
        answer = clerk.submit(f"/batches/{batch['_id']}/{verb}", 409)
        assert "still being planned" in page_of(answer)
    assert "1 rows" in clerk.read("/batches")


def test_the_result_is_a_file_without_formulas_and_no_batch(clerk, world, plan, run, db):
    formula = '=HYPERLINK("evil")'
    world.add_player(Name=formula)
    batch = plan(f"{formula}\nAladric\n@Nobody\n\uff1dNobody")
    run(batch)
    answer = clerk.get(f"/batches/{batch['_id']}.csv")
    assert answer.mimetype == "text/csv"
    assert "attachment" in answer.headers["Content-Disposition"]
    head, *rows = csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))
    assert head[:7] == ["Row", "Player", "PlayerId", "Operation", "What", "Verdict", "Why"]
    assert {"Batch", "ItemId", "Quantity", "SpellId", "Value", "Id"} <= set(head)
    assert [row[1] for row in rows] == [f"'{formula}", "Aladric", "'@Nobody", "'\uff1dNobody"]
    assert [row[5] for row in rows] == ["done", "done", "refused", "refused"]
    assert rows[1][4] == "Give 5 × Health Potion"
    assert rows[1][7] == db.history.find_one({"Subject.Name": "Aladric"})["_id"]
    refused = clerk.get(f"/batches/{batch['_id']}.csv?verdict=refused").data.decode()
    assert refused.count("\n") == 3
    again = upload(clerk, answer.data)
    assert "plan the rest of that batch instead" in page_of(again)


def test_a_malformed_row_keeps_what_was_sent(clerk, show, planned, db):
    upload(clerk, "Player,Operation,ItemId,Quantity\nAladric,give,Iron Sword,many")
    batch = db.batches.find_one()
    page = page_of(show(batch))
    assert "Give many × Iron Sword" in page
    assert "must be a whole number" in page
    file = clerk.get(f"/batches/{batch['_id']}.csv").data.decode("utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(file))
    assert (row["ItemId"], row["Quantity"], row["Verdict"]) == ("Iron Sword", "many", "refused")
    rest = planned(f"/batches/{batch['_id']}/retry")
    assert "Give many × Iron Sword" in page_of(show(rest))


def test_refused_rows_become_a_batch_by_one_click(clerk, world, batch, planned, show, run):
    assert "Plans a batch with the rows that are not done." in page_of(run(batch))
    nobody = world.add_player(Name="The Nobody")["_id"]
    rest = planned(f"/batches/{batch['_id']}/retry")
    assert (rest["Name"], rest["Reason"]) == ("Rest of Gifts", "Ticket 4711")
    assert f'href="/console/batches/{batch["_id"]}"' in show(rest).text
    assert "retry" not in verbs_of(run(rest))
    # The link of its change leads to its rows about this player.
    history = clerk.get(f"/players/{nobody}/history").text
    assert f'href="/console/batches/{rest["_id"]}?player={nobody}"' in history


def test_a_batch_is_made_for_the_players_of_a_search(clerk, planned, db):
    listed = clerk.get("/players?search=ala")
    assert "Make a batch for this player" in page_of(listed)
    link = re.search(r'href="/console(/batches/new/found[^"]*)"', listed.text)[1]
    form = clerk.get(link.replace("&amp;", "&"))
    assert "For all players whose name contains “ala”, at most 10,000." in page_of(form)
    (line,) = commands_of(form)
    assert body_of(line)["Players"] == {"Search": "ala"}
    batch = planned("/batches/new/found", **GIFT, Search="ala")
    assert [row["Subject"]["Name"] for row in rows_of(db, batch)] == ["Aladric"]
    assert "Make a batch for these 3 players" in clerk.read("/players?search=a")
    assert "Make a batch" not in clerk.read("/players/online")
    online = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_one({"Name": "Thalia"}, {"$set": online})
    assert "/batches/new/found?online=true" in clerk.get("/players/online").text
    batch = planned("/batches/new/found", **GIFT, Online="true")
    assert [row["Subject"]["Name"] for row in rows_of(db, batch)] == ["Thalia"]
    # The refused form is still about the same players.
    refused = page_of(clerk.submit("/batches/new/found", 400, **GIFT, Search="nobody at all"))
    assert "whose name contains “nobody at all”" in refused


def test_the_curl_lines_do_what_the_forms_do(clerk):
    typed = {**GIFT, "players": "Aladric", "Name": "n" * 101}
    (line,) = commands_of(clerk.post("/batches/new/players", **typed))
    row = {"Player": "PLAYER", "Operation": "give", "ItemId": ITEM, "Quantity": 5}
    assert body_of(line)["Rows"] == [{**row, "BankOverflow": False}]
    (line,) = commands_of(clerk.get("/batches/new/file"))
    assert line[-1] == "http://localhost/api/v1/batches?name=NAME"
    assert "@batch.csv" in line
    (line,) = commands_of(clerk.get("/batches/new/changes"))
    assert body_of(line) == {"Name": "", "Undo": {"By": "NAME"}}
