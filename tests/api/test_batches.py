"""Batches: plans with a verdict for each row, carried out once, cancelled and undone."""

import csv
import io
from datetime import datetime, timezone
from itertools import pairwise

import pytest

from app.batches import planning, rows
from app.batches.domain import RETRIED
from app.batches.rows import csv_body, json_body
from app.batches.store import Batches
from app.core.errors import Invalid
from app.core.operations import batch_operations
from app.core.permissions import Role
from app.history.store import History
from tests.applications import service
from tests.callers import Caller
from tests.console_visitor import WatchedBody
from tests.factories import make_entry, numbered_guid

ITEM, SPELL, VARIABLE, OTHER = map(numbered_guid, range(4))
NOBODY = "The Nobody"
MIB = 2**20


@pytest.fixture
def upload(staff):
    """Plan a batch by a file; return the answer, which must have the status."""

    def upload(data, kind="text/csv", status=200, query=""):
        answer = staff.send(f"batches{query}", data=data, content_type=kind)
        assert answer.status_code == status, answer.json
        return answer.json

    return upload


@pytest.fixture
def plan(staff):
    return lambda rows, **more: staff("POST batches", {"Name": "Gifts", "Rows": rows, **more}).json


@pytest.fixture
def run(staff):
    """Carry out a batch to its end, and return what the last answer said."""

    def run(batch):
        while True:
            progress = staff(f"POST batches/{batch['Id']}/advance").json
            if progress["State"] == "done":
                return progress

    return run


@pytest.fixture
def rows_of(staff):
    return lambda batch, query="": staff(
        f"GET batches/{batch['Id']}/rows?pageSize=100&{query}"
    ).json["Values"]


@pytest.fixture
def refused(staff):
    """Return why a request for a batch is refused."""
    return lambda batch, verb: staff(f"POST batches/{batch['Id']}/{verb}", status=409).json[
        "Message"
    ]


def give(player, quantity=5, operation="give"):
    return {"Player": player, "Operation": operation, "ItemId": ITEM, "Quantity": quantity}


def counts(batch):
    return tuple(batch[name] for name in ("Ready", "Done", "Refused", "Replanned"))


def stored(world, player):
    return world.db.players.find_one({"_id": player["_id"]})


def held(world, player, item=ITEM):
    slots = stored(world, player)["Inventory"].values()
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == item)


def test_a_plan_has_a_verdict_for_each_row_and_changes_nothing(world, plan, rows_of):
    ann = world.add_player(Name="Ann")
    bob = world.add_player(Name="Bob", Spells={"0": SPELL})
    rows = [
        give("Ann"),
        give(NOBODY),
        give("bob", 1, "take"),
        {"Player": bob["_id"], "Operation": "forget", "SpellId": SPELL},
        {"Player": "Bob", "Operation": "set-variable", "VariableId": VARIABLE, "Value": True},
        {"Player": "Bob", "Operation": "dance"},
        {"Player": "Bob", "Operation": "give", "ItemId": ITEM},
        "Bob",
    ]
    batch = plan(rows, Reason="Ticket 4711")
    assert (batch["State"], batch["Rows"], *counts(batch)) == ("planned", 8, 3, 0, 5, 0)
    assert batch["Reason"] == "Ticket 4711"
    assert batch["By"]["Name"] == "Clerk"
    found = rows_of(batch)
    assert [row["Row"] for row in found] == list(range(1, 9))
    assert [row["Verdict"] for row in found] == [
        *("ready", "refused", "refused", "ready", "ready", "refused", "refused", "refused")
    ]
    assert [row["Why"] for row in found] == [
        None,
        f"No player with name '{NOBODY}'.",
        f"The inventory holds 0 of the item {ITEM}, not 1.",
        None,
        None,
        f"The field 'Operation' must be one of {', '.join(batch_operations())}.",
        "The field 'quantity' is required.",
        "A row must be an object with at most 100 named values.",
    ]
    assert found[0]["Subject"] == {"Kind": "player", "Id": ann["_id"], "Name": "Ann"}
    assert found[0]["Arguments"] == {"ItemId": ITEM, "Quantity": 5, "BankOverflow": False}
    assert stored(world, ann) == ann
    assert stored(world, bob) == bob


def test_rows_may_name_objects_of_the_catalogue(world, plan, upload, run, rows_of, staff):
    ann = world.add_player(Name="Ann")
    for id_, type_, name in (
        (ITEM, "item", "Health Potion"),
        (SPELL, "spell", "Fireball"),
        (VARIABLE, "playervariable", "Reputation"),
        (OTHER, "item", "Twin"),
        (numbered_guid(9), "item", "twin"),
    ):
        world.add_object(Id=id_, Type=type_, Name=name)
    lines = [
        "Player,Operation,ItemId,SpellId,VariableId,Quantity,Value",
        "Ann,give,health POTION,,,5,",
        "Ann,teach,,Fireball,,,",
        "Ann,set-variable,,,reputation,,7",
        "Ann,give,Twin,,,1,",
        "Ann,give,Fireball,,,1,",
        f"Ann,give,{'x' * 300},,,1,",
    ]
    for batch in (
        upload("\n".join(lines)),
        plan([*csv_as_json(lines), {"Player": "Ann", "Operation": "give", "ItemId": 7}]),
    ):
        found = rows_of(batch)
        assert [row["Why"] for row in found][:6] == [
            *(None, None, None),
            "The catalogue has 2 objects of the type item with the name 'Twin': use the id.",
            "The catalogue has no item with the name 'Fireball'.",
            "The field 'itemid' must be a guid.",
        ]
        assert [row["Arguments"] for row in found][:3] == [
            {"ItemId": ITEM, "Quantity": 5, "BankOverflow": False},
            {"SpellId": SPELL},
            {"VariableId": VARIABLE, "Value": 7},
        ]
        # What was asked for stays, so that the row can be tried again.
        assert found[4]["Arguments"]["ItemId"] == "Fireball"
        assert found[4]["Subject"] is None
    assert found[6]["Why"].startswith("The field 'itemid' must be a guid;")
    run(batch)
    assert held(world, ann) == 5


def csv_as_json(lines):
    numbers = ("Quantity", "Value")
    return [
        {name: int(cell) if name in numbers else cell for name, cell in row.items() if cell}
        for row in csv.DictReader(lines)
    ]


def test_rows_are_carried_out_once_with_their_entries(world, plan, run, rows_of, staff):
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    rows = [
        give("Ann"),
        give("Bob", 3),
        {"Player": "Ann", "Operation": "teach", "SpellId": SPELL},
        {"Player": "Bob", "Operation": "set-variable", "VariableId": VARIABLE, "Value": 7},
        give("Ann", 2, "take"),
    ]
    batch = plan(rows, Reason="Ticket 4711")
    assert counts(batch) == (5, 0, 0, 0)
    assert run(batch) == {"State": "done", "Ready": 0, "Done": 5, "Refused": 0, "Replanned": 0}
    assert run(batch)["Done"] == 5
    assert held(world, ann) == 3
    assert held(world, bob) == 3
    assert stored(world, bob)["Variables"] == {VARIABLE: 7}
    entries = staff("GET history").json["Values"]
    assert sorted(entry["Operation"] for entry in entries) == [
        *("give", "give", "set-variable", "take", "teach")
    ]
    assert {(e["Via"], e["By"]["Name"], e["Reason"]) for e in entries} == {
        ("batch", "Clerk", "Ticket 4711")
    }
    assert {row["Entry"] for row in rows_of(batch)} == {entry["Id"] for entry in entries}
    assert len(entries) == 5


def test_rows_of_one_player_are_judged_one_after_another(world, plan, run, rows_of):
    ann = world.add_player(Name="Ann")
    take = give("Ann", 3, "take")
    batch = plan([take, give("Ann", 5), take, take, give("Ann", 1), take])
    assert [row["Verdict"] for row in rows_of(batch)] == [
        *("refused", "ready", "ready", "refused", "ready", "ready")
    ]
    assert run(batch)["Done"] == 4
    assert held(world, ann) == 0
    assert [row["Replanned"] for row in rows_of(batch)] == [False] * 6


def test_a_player_who_changed_since_is_judged_anew_and_flagged(
    world, plan, run, rows_of, staff, settings
):
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    batch = plan([give("Ann"), give("Bob", 2), give("Bob", 2, "take")])
    staff("POST players/Ann/spells/teach", {"spellid": SPELL})
    full = {str(n): {"ItemId": OTHER, "Quantity": 1} for n in range(settings.INVENTORY_SIZE)}
    world.db.players.update_one({"_id": bob["_id"]}, {"$set": {"Inventory": full, "Version": 9}})
    assert run(batch) == {"State": "done", "Ready": 0, "Done": 1, "Refused": 2, "Replanned": 3}
    assert held(world, ann) == 5
    assert [row["Why"] for row in rows_of(batch, "verdict=refused")] == [
        f"The inventory has no room for 2 of 2 of the item {ITEM}.",
        f"The inventory holds 0 of the item {ITEM}, not 2.",
    ]
    assert [row["Row"] for row in rows_of(batch, "verdict=replanned")] == [1, 2, 3]


def test_csv_is_read_as_spreadsheets_write_it(world, upload, run, rows_of):
    ann, bob = world.add_player(Name="Ann, the Tall"), world.add_player(Name="Bób")
    columns = ["player", "Operation", "ItemId", "Quantity", "BankOverflow", "VariableId", "Value"]
    for delimiter in ",;\t":
        file = io.StringIO()
        name = "Ann, the Tall" if delimiter == "," else ann["_id"]
        csv.writer(file, delimiter=delimiter).writerows(
            [
                columns,
                [name, "give", ITEM, "5", "true", "", ""],
                ["Bób", "SET-VARIABLE", "", "", "", VARIABLE, "-3"],
                ["Bób", "set-variable", "", "", "", OTHER, "true"],
                ["Bób", "give", ITEM, "x", "", "", ""],
            ]
        )
        data = b"\xef\xbb\xbf" + file.getvalue().encode()
        batch = upload(data, "text/csv; charset=utf-8", query="?name=Sheet")
        assert (batch["Name"], *counts(batch)) == ("Sheet", 3, 0, 1, 0)
        (wrong,) = rows_of(batch, "verdict=refused")
        assert wrong["Why"] == "The field 'quantity' must be a whole number."
        run(batch)
    assert held(world, ann) == 15
    assert stored(world, bob)["Variables"] == {VARIABLE: -3, OTHER: True}


def test_a_line_with_too_many_cells_is_refused(world, upload, rows_of):
    world.add_player(Name="Ann")
    lines = f"Player,Operation,ItemId,Quantity\nAnn,give,{ITEM},1,\nAnn,give,{ITEM},1,2\n"
    first, second = rows_of(upload(lines.encode()))
    assert first["Verdict"] == "ready"
    assert second["Why"] == "The line has more cells than there are columns."


NO_BATCH = [
    (b"", "The request body is not valid JSON: "),
    (b"[]", "The request body must be a JSON object."),
    (b'{"Rows": [}', "The request body is not valid JSON: "),
    (b'{"Rows": []}', "A batch has at least one row."),
    (b"{}", "A batch has at least one row."),
    (b'{"Rows": {}}', "The field 'Rows' must be a list."),
    (b'{"Lines": []}', "The field 'Lines' is unknown."),
    (b'{"Rows": [1], "Name": 5}', "The field 'Name' must be a string."),
    (b'{"Rows": [1], "Players": {}}', "The field 'Players' excludes Rows."),
    (b'{"Players": {}}', "The field 'Row' is for Players, and Players need it."),
    (b'{"Rows": [1], "Row": {}}', "The field 'Row' is for Players, and Players need it."),
    (b'{"Rows": [1], "Undo": {"By": "x"}}', "The field 'Undo' excludes Rows."),
    (b'{"Undo": {}}', "The field 'Undo' must contain By, Key"),
    (b'{"Undo": {"Who": "x"}}', "The field 'Undo.Who' is unknown."),
    (b'{"Undo": {"Itme": "x"}}', "The field 'Undo.Itme' is unknown."),
    (b'{"Rows": [' + b"[" * 5000, "The request body is not valid JSON: "),
    (b'{"Rows": [{"a": "\xff"}]}', "The request body is not valid JSON: "),
    (b'{"Rows": [1]} x', "The request body is not valid JSON: "),
    (b'{"Name": "\\ud800Bob", "Rows": [1]}', "The request body is not valid JSON: "),
    (b'{"Undo": null}', "The field 'Undo' must contain By, Key"),
    (b'{"Undo": []}', "The field 'Undo' must contain By, Key"),
    (b'{"Undo": {"By": ""}}', "The field 'Undo.By' must be 1 to 255 characters."),
]


def test_a_body_that_is_no_batch_is_refused_and_leaves_nothing(world, upload):
    for sent, sentence in NO_BATCH:
        refusal = upload(sent, "application/json", 400)
        assert refusal["Message"].startswith(sentence), sent
    sentence = "The file is not UTF-8: save a spreadsheet as CSV (UTF-8)."
    assert upload(b"\xd0\xcf\x11\xe0\xa1\xb1", "text/csv", 400)["Message"] == sentence
    assert not any(world.db[name].find_one({}) for name in ("batches", "batch_rows", "batch_parts"))


CSV_HEAD = b"Player,Operation\n"


def read_rows(read, file):
    return list(read(file)["Rows"])


TOO_LONG = [
    (b"", b"a,"),
    (b"", b'"a",'),
    (CSV_HEAD, b"a,"),
    (CSV_HEAD, b","),
    (CSV_HEAD, b'"a\n",'),
    (CSV_HEAD + b'"', b"a\n"),
]


def test_a_csv_line_that_is_too_long_is_refused_before_it_is_read():
    """Such a file of 30 MB took 1.4 GB of memory, or minutes."""
    for start, repeated in TOO_LONG:
        body = WatchedBody(start + repeated * (2 * MIB // len(repeated)))
        with pytest.raises(Invalid, match=r"more than 131,072 characters\.$"):
            read_rows(csv_body, body)
        assert body.taken < MIB


def test_a_file_has_100_columns_and_as_many_lines_as_a_spreadsheet_at_most(monkeypatch):
    columns = ",".join(f"column {number}" for number in range(101))
    with pytest.raises(Invalid, match="names more than 100 columns"):
        read_rows(csv_body, io.BytesIO(columns.encode()))
    assert rows.MOST_LINES == 1_048_576
    monkeypatch.setattr(rows, "MOST_LINES", 1001)
    blank = b",,\n" * 1000
    assert read_rows(csv_body, io.BytesIO(CSV_HEAD + blank)) == []
    with pytest.raises(Invalid, match="more than 1,001 lines"):
        read_rows(csv_body, io.BytesIO(CSV_HEAD + blank + b"\n"))


@pytest.mark.parametrize(
    ("kind", "start", "end"),
    [("text/csv", CSV_HEAD, b""), ("application/json", b'{"Rows": [\n', b"1]}")],
)
def test_one_row_too_many_is_refused(monkeypatch, upload, kind, start, end):
    assert planning.MOST_ROWS == 100_000
    monkeypatch.setattr(planning, "MOST_ROWS", 1000)
    refusal = upload(start + b"1,\n" * 1001 + end, kind, 400)
    assert refusal["Code"] == "TOO_MANY_ROWS"


@pytest.mark.parametrize("values", [b"{},", b"[],", b'"a",', b"1,", b'{"a":[[]]},'])
def test_json_that_would_take_hundreds_of_megabytes_is_refused_before_it_is_parsed(values):
    body = b'{"Rows": [' + values * (15 * MIB // len(values))
    with pytest.raises(Invalid, match=r"has too many values for 100,000 rows\.$"):
        json_body(io.BytesIO(body))


def test_json_has_16_mib_at_most():
    body = b'{"Rows": [1]}'
    assert len(read_rows(json_body, io.BytesIO(body.ljust(16 * MIB)))) == 1
    with pytest.raises(Invalid, match="The file has more than 16 MiB of JSON: send CSV"):
        json_body(io.BytesIO(body.ljust(16 * MIB + 1)), "The file")


def test_a_batch_and_its_undo_leave_things_as_they_were(world, plan, run, staff, refused):
    before = [
        world.add_player(Name=f"Player {number}", Inventory={"3": {"ItemId": ITEM, "Quantity": 2}})
        for number in range(3)
    ]
    rows = [give(p["Name"]) for p in before]
    rows += [give(p["Name"], 4, "take") for p in before]
    rows += [{"Player": p["Name"], "Operation": "teach", "SpellId": SPELL} for p in before]
    batch = plan(rows)
    assert refused(batch, "undo").startswith("The batch is not finished")
    run(batch)
    undo = staff(f"POST batches/{batch['Id']}/undo").json
    told = (undo["Name"], undo["Undoes"], *counts(undo))
    assert told == ("Undo of Gifts", batch["Id"], 9, 0, 0, 0)
    assert run(undo)["Done"] == 9
    for player in before:
        now = stored(world, player)
        assert {n: now[n] for n in ("Inventory", "Bank", "Spells")} == {
            n: player[n] for n in ("Inventory", "Bank", "Spells")
        }
    again = staff(f"POST batches/{batch['Id']}/undo").json
    assert counts(again) == (0, 0, 9, 0)
    assert again["State"] == "done"
    redo = staff(f"POST batches/{undo['Id']}/undo").json
    assert run(redo)["Done"] == 9
    assert [held(world, player) for player in before] == [3, 3, 3]


def test_an_undo_takes_what_is_left_and_tells_what_is_missing(world, plan, run, staff, rows_of):
    players = {name: world.add_player(Name=name) for name in ("Ann", "Bob", "Cid", "Dan")}
    batch = plan([give(name) for name in players])
    run(batch)
    for name, spent in (("Ann", 3), ("Bob", 5), ("Cid", 1)):
        staff(f"POST players/{name}/items/take", {"itemid": ITEM, "quantity": spent})
    path = f"POST batches/{batch['Id']}/undo"
    assert [row["Verdict"] for row in rows_of(staff(path).json)] == ["ready", *["refused"] * 3]
    undo = staff(path, {"Partial": True}).json
    missing = (
        "{} of 5 of the item " + ITEM + " cannot be taken back: the player no longer has them."
    )
    assert [(row["Verdict"], row["Warning"]) for row in rows_of(undo)] == [
        ("ready", None),
        ("ready", missing.format(1)),
        ("refused", None),
        ("ready", missing.format(3)),
    ]
    # Since the plan, somebody has spent one more.
    staff("POST players/Ann/items/take", {"itemid": ITEM, "quantity": 1})
    assert run(undo)["Done"] == 3
    found = rows_of(undo)
    assert (found[3]["Warning"], found[3]["Replanned"]) == (missing.format(4), True)
    assert [held(world, player) for player in players.values()] == [0, 0, 0, 0]
    entry = staff(f"GET history/{rows_of(undo)[3]['Entry']}").json
    assert (entry["Warning"], entry["Arguments"]["Partial"]) == (missing.format(4), True)
    # Each change is undone once, whatever was missing; and the undo of the undo is exact.
    assert staff(path, {"Partial": True}).json["Refused"] == 4
    redo = staff(f"POST batches/{undo['Id']}/undo", {"Partial": True}).json
    assert [row["Warning"] for row in rows_of(redo)] == [None, None, None]
    run(redo)
    assert [held(world, player) for player in players.values()] == [1, 0, 4, 5]


def test_the_undo_of_chosen_changes_can_be_partial_too(world, staff, rows_of):
    world.add_player(Name="Ann")
    staff("POST players/Ann/items/give", {"itemid": ITEM, "quantity": 5})
    staff("POST players/Ann/items/take", {"itemid": ITEM, "quantity": 2})
    chosen = {"Operation": "give", "Item": ITEM, "Partial": True}
    batch = staff("POST batches", {"Undo": chosen}).json
    assert batch["Undo"] == chosen
    (row,) = rows_of(batch)
    assert (row["Verdict"], row["Warning"][:6]) == ("ready", "2 of 5")
    staff("POST batches", {"Undo": {"Partial": True}}, status=400)


def test_rows_that_were_not_done_become_a_new_batch(world, plan, run, staff, rows_of, refused):
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    rows = [give("Ann"), give("Bob", 3, "take"), give(NOBODY), {**give("Ann"), "ItemId": "Potion"}]
    batch = plan([*rows, {**give("Ann"), "Quantity": "x"}], Reason="Ticket 4711")
    assert refused(batch, "retry").startswith("The batch is not finished")
    run(batch)
    # What had to be mended is mended by now, and the player has another name.
    staff("POST players/Bob/items/give", {"itemid": ITEM, "quantity": 3})
    world.db.players.update_one({"_id": bob["_id"]}, {"$set": {"Name": "Rob", "NameKey": "rob"}})
    world.add_player(Name=NOBODY)
    world.add_object(Id=OTHER, Type="item", Name="Potion")
    rest = staff(f"POST batches/{batch['Id']}/retry").json
    assert (rest["Name"], rest["Retries"], *counts(rest)) == (
        "Rest of Gifts",
        batch["Id"],
        3,
        0,
        1,
        0,
    )
    assert staff(f"GET batches/{batch['Id']}").json["Retries"] is None
    found = rows_of(rest)
    assert [row["Row"] for row in found] == [2, 3, 4, 5]
    assert (
        found[3]["Why"]
        == rows_of(batch)[4]["Why"]
        == "The field 'quantity' must be a whole number."
    )
    assert found[2]["Arguments"]["ItemId"] == OTHER
    assert run(rest)["Done"] == 3
    assert [held(world, ann), held(world, ann, OTHER), held(world, bob)] == [5, 5, 0]
    done = plan([give("Ann")])
    run(done)
    assert refused(done, "retry").startswith("There is nothing to try again")


def test_the_rest_of_a_cancelled_batch_and_of_an_undo_can_be_tried(world, plan, run, staff):
    ann = world.add_player(Name="Ann")
    batch = plan([give("Ann"), give("Ann", 1, "take")])
    staff(f"POST batches/{batch['Id']}/cancel")
    key = {"Idempotency-Key": "again"}
    rest = staff(f"POST batches/{batch['Id']}/retry", **key).json
    again = staff(f"POST batches/{batch['Id']}/retry", **key).json
    assert (again["Id"], again["Ready"]) == (rest["Id"], 2)
    run(rest)
    staff("POST players/Ann/items/take", {"itemid": ITEM, "quantity": 4})
    undo = staff(f"POST batches/{rest['Id']}/undo").json
    assert counts(undo)[:3] == (1, 0, 1)
    run(undo)
    staff("POST players/Ann/items/give", {"itemid": ITEM, "quantity": 4})
    assert run(staff(f"POST batches/{undo['Id']}/retry").json)["Done"] == 1
    assert held(world, ann) == 0


def test_two_retries_of_a_batch_do_a_row_once(world, plan, run, staff, rows_of, db):
    batch = plan([give("Ann"), give("Bob"), give("Bob", 2)])
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    first, second = (staff(f"POST batches/{batch['Id']}/retry").json for _ in range(2))
    assert (first["Ready"], second["Ready"]) == (3, 3)
    assert (run(first)["Done"], run(second)["Refused"]) == (3, 3)
    assert {row["Why"] for row in rows_of(second)} == {RETRIED}
    # A plan that is made later finds them done, and so does the rest of the rest.
    for later in (batch, second):
        third = staff(f"POST batches/{later['Id']}/retry").json
        assert (counts(third), {row["Why"] for row in rows_of(third)}) == ((0, 0, 3, 0), {RETRIED})
    assert [held(world, ann), held(world, bob)] == [5, 7]
    assert [row["Entry"] for row in rows_of(batch) + rows_of(second)] == [None] * 6
    for row in rows_of(first):
        assert staff(f"GET history/{row['Entry']}").json["Batch"] == first["Id"]
    run(staff(f"POST batches/{first['Id']}/undo").json)
    assert [held(world, ann), held(world, bob)] == [0, 0]


def test_a_plan_that_another_worker_has_made_meanwhile_is_told_as_a_replay(
    app, world, staff, db, monkeypatch
):
    """A client gave up waiting, and its request came again while the first was being planned."""
    world.add_player(Name="Ann")
    batches = service(app, Batches)
    begin, others = batches.begin, []

    def overtaken(fields, key):
        others.append(batches.complete(begin(fields, key), {})["_id"])
        return begin(fields, key)

    monkeypatch.setattr(batches, "begin", overtaken)
    key = {"Idempotency_Key": "once"}
    answers = [staff("POST batches", {"Rows": [give("Ann")]}, **key) for _ in range(2)]
    assert {answer.json["Id"] for answer in answers} == set(others)
    assert {answer.headers["Idempotency-Replayed"] for answer in answers} == {"true"}
    staff("POST batches", {"Rows": [give("Ann", 1)]}, 409, **key)
    assert (len(others), db.batches.count_documents({})) == (1, 1)
    db.batches.update_one({}, {"$set": {"State": "planning"}})
    again = staff("POST batches", {"Rows": [give("Ann")]}, 503, **key)
    assert again.json["Code"] == "TOO_MANY_CHANGES"


def test_players_are_chosen_by_a_search(world, staff, run, rows_of, monkeypatch):
    players = [world.add_player(Name=name) for name in ("Aldo", "Waldo", "Bob")]
    online = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    world.db.players.update_one({"Name": "Bob"}, {"$set": online})
    world.add_object(Id=ITEM, Type="item", Name="Potion")
    row = {"Operation": "give", "ItemId": "potion", "Quantity": 2}

    def planned(status=200, **chosen):
        return staff("POST batches", {"Players": chosen, "Row": row}, status=status).json

    for chosen, names in (
        ({"Search": "ALD"}, ["Aldo", "Waldo"]),
        ({"Online": True}, ["Bob"]),
        ({}, ["Aldo", "Bob", "Waldo"]),
    ):
        batch = planned(**chosen)
        assert [found["Subject"]["Name"] for found in rows_of(batch)] == names
    run(batch)
    assert [held(world, player) for player in players] == [2, 2, 2]
    monkeypatch.setattr(planning, "MOST_PLAYERS", 2)
    for chosen, why in (
        ({}, "The field 'Players' matches more than 2 players."),
        ({"Search": "nobody"}, "The field 'Players' matches nobody."),
        ({"Search": "al"}, "The field 'Players.Search' must be 3 to 255 characters."),
    ):
        assert planned(400, **chosen)["Message"] == why
    for row, why in (
        ({"Operation": "dance"}, "'Operation' must be one of"),
        ({"Operation": "undo", "Id": "x"}, "has no field 'Player'"),
        ({"Operation": "give", "Player": "Bob"}, "given twice"),
    ):
        assert why in planned(400)["Message"], row
    assert world.db.batches.count_documents({}) == 3


def test_a_change_names_its_batch(world, plan, run, staff, rows_of):
    world.add_player(Name="Ann")
    batch = plan([give("Ann")])
    run(batch)
    (entry,) = staff("GET players/Ann/history").json["Values"]
    assert entry["Batch"] == batch["Id"]
    assert staff("GET history").json["Values"][0]["Batch"] == batch["Id"]
    assert rows_of(batch)[0]["Entry"] == entry["Id"]
    # Nobody else can use the key of a row.
    body, key = {"itemid": ITEM, "quantity": 1}, {"Idempotency-Key": f"batch {OTHER}:000001"}
    staff("POST players/Ann/items/give", body, 400, **key)


def test_all_that_somebody_did_is_undone(world, staff, run, client):
    thief = Caller(client, world.headers(user=world.add_user(roles=Role, Name="Thief")), "/api/v1/")
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    for name in ("Ann", "Bob", "Ann"):
        thief(f"POST players/{name}/items/give", {"itemid": ITEM, "quantity": 2})
    thief("POST players/Ann/name", {"Name": "Anne"})
    staff("POST players/Bob/items/give", {"itemid": OTHER, "quantity": 1})
    batch = staff("POST batches", {"Name": "Clean", "Undo": {"By": "Thief"}}).json
    assert batch["Undo"] == {"By": "Thief"}
    assert counts(batch) == (4, 0, 0, 0)
    assert run(batch)["Done"] == 4
    assert held(world, ann) == held(world, bob) == 0
    assert held(world, bob, OTHER) == 1
    assert stored(world, ann)["Name"] == "Ann"
    nothing = staff("POST batches", {"Undo": {"Key": "none"}}, 409).json
    assert nothing["Message"] == "There is nothing to undo: no change matches."


def test_an_undo_within_the_chosen_changes_is_left_out(world, staff, run):
    ann = world.add_player(Name="Ann")
    gift = staff("POST players/Ann/items/give", {"itemid": ITEM, "quantity": 2})
    undo = staff(f"POST history/{gift.headers['X-History-Id']}/undo").json["Id"]
    chosen = {"Undo": {"By": "Clerk"}}
    assert counts(staff("POST batches", chosen).json) == (0, 0, 2, 0)
    staff(f"POST history/{undo}/undo")
    assert held(world, ann) == 2
    batch = staff("POST batches", chosen).json
    assert counts(batch) == (1, 0, 2, 0)
    run(batch)
    assert held(world, ann) == 0


def test_a_change_is_undone_by_one_row_of_a_batch(world, plan, run, rows_of):
    ann = world.add_player(Name="Ann", Inventory={"3": {"ItemId": ITEM, "Quantity": 50}})
    run(plan([give("Ann")]))
    entry = world.db.history.find_one({"Operation": "give"})["_id"]
    batch = plan([{"Operation": "undo", "Id": entry} for _ in range(3)])
    assert counts(batch) == (1, 0, 2, 0)
    sentence = f"The change {entry} is already undone by row 1 of this batch."
    assert [row["Why"] for row in rows_of(batch)] == [None, sentence, sentence]
    assert run(batch)["Done"] == 1
    assert held(world, ann) == 50


def test_a_row_that_can_no_longer_be_done_was_judged_anew(world, plan, run, rows_of, staff):
    ann = world.add_player(Name="Ann", Online=False)
    batch = plan([give("Ann")])
    staff("DELETE players/Ann")
    assert counts(run(batch)) == (0, 0, 1, 1)
    (row,) = rows_of(batch, "verdict=replanned")
    assert row["Why"] == f"No player with id '{ann['_id']}'."


def test_many_undos_of_undos_are_found_by_a_few_questions(world, app, monkeypatch):
    """One question for each of them would take longer than a request may."""
    player = world.add_player(Name="Ann")
    history = service(app, History)
    entries = [
        make_entry(player, _id=f"player:{player['_id']}:{number}", Operation="give")
        for number in range(2, 42)
    ]
    for undone, undo in pairwise(entries):
        undo |= {"Operation": "undo", "Undoes": undone["_id"]}
    world.db.history.insert_many(entries)
    get_many, asked = history.get_many, []

    def counted(ids, filters):
        asked.append(len(ids))
        return get_many(ids, filters)

    monkeypatch.setattr(history, "get_many", counted)
    with app.app_context():
        rows = list(planning.chosen_changes({"Operation": "undo"}, ("player",)))
    assert len(rows) == 39
    assert len(asked) <= 2
    # Of those chosen, each second one cancels out the one before it.
    assert sum(row.fault is not None for row in rows) == 19


def test_an_undo_that_one_may_not_make_spoils_no_other_row(world, caller):
    world.add_player(Name="Ann")
    entry = make_entry(world.add_user(Name="Alice"), kind="user")
    world.db.history.insert_one(entry)
    undo = {"Operation": "undo", "Id": entry["_id"]}
    clerk = caller("/api/v1/batches", Role.API)
    batch = clerk("POST ", {"Rows": [give("Ann"), undo]}).json
    assert counts(batch) == (1, 0, 1, 0)
    row = clerk(f"GET /{batch['Id']}/rows").json["Values"][1]
    assert row["Why"] == "This request needs the role 'users.query'."
    assert row["Subject"] is None
    assert clerk(f"POST /{batch['Id']}/advance").json["Done"] == 1
