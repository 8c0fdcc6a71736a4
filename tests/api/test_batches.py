"""Batches: plans with a verdict for each row, carried out once, cancelled and undone."""

import csv
import io
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from pymongo.errors import AutoReconnect

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
from tests.changes import Killed
from tests.console_visitor import WatchedBody
from tests.factories import ITEM, gift, held, make_entry, numbered_guid

SPELL, VARIABLE, OTHER = (numbered_guid(number) for number in (2, 3, 4))
NOBODY = "The Nobody"
MIB = 2**20


@pytest.fixture
def send(staff):
    return lambda path, body=None, status=200, **headers: (
        staff(f"POST {path}", body, status, **headers).json
    )


@pytest.fixture
def plan(send):
    return lambda rows, **more: send("batches", {"Name": "Gifts", "Rows": rows, **more})


@pytest.fixture
def upload(staff):
    """Plan a batch by a file; return the answer, which must have the status."""

    def upload(data, kind="text/csv", status=200, query=""):
        answer = staff.send(f"batches{query}", data=data, content_type=kind)
        assert answer.status_code == status, answer.json
        return answer.json

    return upload


@pytest.fixture
def run(staff, run_batches):
    """Carry out a batch to its end, and return it."""

    def run(batch):
        staff(f"POST batches/{batch['Id']}/run")
        run_batches()
        return staff(f"GET batches/{batch['Id']}").json

    return run


@pytest.fixture
def rows_of(staff):
    return lambda batch, query="": staff(
        f"GET batches/{batch['Id']}/rows?pageSize=100&{query}"
    ).json["Values"]


def counts(batch):
    return tuple(batch[name] for name in ("Ready", "Done", "Refused", "Replanned"))


def whys(rows):
    return [row["Why"] for row in rows]


def test_a_plan_has_a_verdict_for_each_row_and_changes_nothing(world, plan, rows_of, db):
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob", Spells={"0": SPELL})
    batch = plan(
        [
            gift("Ann"),
            gift(NOBODY),
            gift("bob", 1, "take"),
            {"Player": bob["_id"], "Operation": "forget", "SpellId": SPELL},
            {"Player": "Bob", "Operation": "set-variable", "VariableId": VARIABLE, "Value": True},
            {"Player": "Bob", "Operation": "dance"},
            {"Player": "Bob", "Operation": "give", "ItemId": ITEM},
            "Bob",
        ],
        Reason="Ticket 4711",
    )
    assert (batch["State"], batch["Rows"], *counts(batch)) == ("planned", 8, 3, 0, 5, 0)
    assert (batch["Reason"], batch["By"]["Name"]) == ("Ticket 4711", "Clerk")
    found = rows_of(batch)
    assert [row["Row"] for row in found] == list(range(1, 9))
    assert [row["Row"] for row in found if row["Verdict"] == "ready"] == [1, 4, 5]
    assert whys(found) == [
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
    assert list(db.players.find(sort=[("Name", 1)])) == [ann, bob]


def test_rows_may_name_objects_of_the_catalogue(world, plan, upload, run, rows_of, db):
    world.add_player(Name="Ann")
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
    batch = upload("\n".join(lines))
    found = rows_of(batch)
    assert whys(found) == [
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
    assert (found[4]["Arguments"]["ItemId"], found[4]["Subject"]) == ("Fireball", None)
    assert run(batch)["Done"] == 3
    named, number = rows_of(plan([gift("Ann", item="health potion"), gift("Ann", item=7)]))
    assert named["Arguments"]["ItemId"] == ITEM
    assert number["Why"].startswith("The field 'itemid' must be a guid")


def test_rows_of_one_player_are_judged_one_after_another(world, plan, run, rows_of, db):
    world.add_player(Name="Ann")
    take = gift("Ann", 3, "take")
    batch = plan([take, gift("Ann", 5), take, take, gift("Ann", 1), take])
    assert [row["Row"] for row in rows_of(batch, "verdict=ready")] == [2, 3, 5, 6]
    assert counts(run(batch)) == (0, 4, 2, 0)
    assert held(db) == 0


def test_a_player_who_changed_since_is_judged_anew_and_flagged(
    world, plan, run, rows_of, staff, settings, db
):
    ann, bob = world.add_player(Name="Ann"), world.add_player(Name="Bob")
    gone = world.add_player(Name="Gone", Online=False)["_id"]
    batch = plan([gift("Ann"), gift("Bob", 2), gift("Bob", 2, "take"), gift("Gone")])
    staff("POST players/Ann/spells/teach", {"spellid": SPELL})
    staff("DELETE players/Gone")
    full = {str(n): {"ItemId": OTHER, "Quantity": 1} for n in range(settings.INVENTORY_SIZE)}
    db.players.update_one({"_id": bob["_id"]}, {"$set": {"Inventory": full, "Version": 9}})
    assert counts(run(batch)) == (0, 1, 3, 4)
    assert held(db, _id=ann["_id"]) == 5
    assert whys(rows_of(batch, "verdict=refused")) == [
        f"The inventory has no room for 2 of 2 of the item {ITEM}.",
        f"The inventory holds 0 of the item {ITEM}, not 2.",
        f"No player with id '{gone}'.",
    ]
    assert [row["Row"] for row in rows_of(batch, "verdict=replanned")] == [1, 2, 3, 4]


def test_csv_is_read_as_spreadsheets_write_it(world, upload, run, rows_of, db):
    ann = world.add_player(Name="Ann, the Tall")["_id"]
    bob = world.add_player(Name="Bób")["_id"]
    columns = ["player", "Operation", "ItemId", "Quantity", "BankOverflow", "VariableId", "Value"]
    for delimiter in ",;\t":
        file = io.StringIO()
        name = "Ann, the Tall" if delimiter == "," else ann
        csv.writer(file, delimiter=delimiter).writerows(
            [
                columns,
                [name, "give", ITEM, "5", "true", "", "", ""],
                ["Bób", "SET-VARIABLE", "", "", "", VARIABLE, "-3"],
                ["Bób", "set-variable", "", "", "", OTHER, "true"],
                ["Bób", "give", ITEM, "x", "", "", ""],
                ["Bób", "give", ITEM, "1", "", "", "", "beyond"],
            ]
        )
        data = b"\xef\xbb\xbf" + file.getvalue().encode()
        batch = upload(data, "text/csv; charset=utf-8", query="?name=Sheet")
        assert (batch["Name"], *counts(batch)) == ("Sheet", 3, 0, 2, 0)
        assert whys(rows_of(batch, "verdict=refused")) == [
            "The field 'quantity' must be a whole number.",
            "The line has more cells than there are columns.",
        ]
        run(batch)
    assert held(db, _id=ann) == 15
    variables = db.players.find_one({"_id": bob})["Variables"]
    assert variables == {VARIABLE: -3, OTHER: True}


NO_BATCH = [
    (b"", "The request body is not valid JSON: "),
    (b"[]", "The request body must be a JSON object."),
    (b'{"Rows": [' + b"[" * 5000, "The request body is not valid JSON: "),
    (b'{"Rows": []}', "A batch has at least one row."),
    (b'{"Rows": {}}', "The field 'Rows' must be a list."),
    (b'{"Lines": []}', "The field 'Lines' is unknown."),
    (b'{"Rows": [1], "Name": 5}', "The field 'Name' must be a string."),
    (b'{"Rows": [1], "Players": {}}', "The field 'Players' excludes Rows."),
    (b'{"Players": {}}', "The field 'Row' is for Players, and Players need it."),
    (b'{"Rows": [1], "Row": {}}', "The field 'Row' is for Players, and Players need it."),
    (b'{"Undo": {}}', "The field 'Undo' must contain By, Key"),
    (b'{"Undo": {"Partial": true}}', "The field 'Undo' must contain By, Key"),
    (b'{"Undo": {"Who": "x"}}', "The field 'Undo.Who' is unknown."),
    (b'{"Undo": {"By": ""}}', "The field 'Undo.By' must be 1 to 255 characters."),
]


def test_a_body_that_is_no_batch_is_refused_and_leaves_nothing(db, upload):
    for sent, sentence in NO_BATCH:
        refusal = upload(sent, "application/json", 400)
        assert refusal["Message"].startswith(sentence), sent
    sentence = "The file is not UTF-8: save a spreadsheet as CSV (UTF-8)."
    assert upload(b"\xd0\xcf\x11\xe0\xa1\xb1", "text/csv", 400)["Message"] == sentence
    assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]


CSV_HEAD = b"Player,Operation\n"


def read_rows(read, data):
    return list(read(io.BytesIO(data))["Rows"])


@pytest.mark.parametrize(
    ("start", "repeated"),
    [(b"", b'"a",'), (CSV_HEAD, b","), (CSV_HEAD, b'"a\n",'), (CSV_HEAD + b'"', b"a\n")],
)
def test_a_csv_line_that_is_too_long_is_refused_before_it_is_read(start, repeated):
    """Such a file of 30 MB took 1.4 GB of memory, or minutes."""
    body = WatchedBody(start + repeated * (2 * MIB // len(repeated)))
    with pytest.raises(Invalid, match=r"more than 131,072 characters\.$"):
        list(csv_body(body)["Rows"])
    assert body.taken < MIB


def test_a_file_has_100_columns_and_as_many_lines_as_a_spreadsheet_at_most(monkeypatch):
    columns = ",".join(f"column {number}" for number in range(101))
    with pytest.raises(Invalid, match="names more than 100 columns"):
        read_rows(csv_body, columns.encode())
    assert rows.MOST_LINES == 1_048_576
    monkeypatch.setattr(rows, "MOST_LINES", 1001)
    blank = b",,\n" * 1000
    assert read_rows(csv_body, CSV_HEAD + blank) == []
    with pytest.raises(Invalid, match="more than 1,001 lines"):
        read_rows(csv_body, CSV_HEAD + blank + b"\n")


def test_one_row_too_many_is_refused(monkeypatch, upload):
    assert planning.MOST_ROWS == 100_000
    monkeypatch.setattr(planning, "MOST_ROWS", 1000)
    for kind, start, end in (
        ("text/csv", CSV_HEAD, b""),
        ("application/json", b'{"Rows": [\n', b"1]}"),
    ):
        refusal = upload(start + b"1,\n" * 1001 + end, kind, 400)
        assert refusal["Code"] == "TOO_MANY_ROWS"


@pytest.mark.parametrize("values", [b"{},", b"[],", b"1,"])
def test_json_that_would_take_hundreds_of_megabytes_is_refused_before_it_is_parsed(values):
    body = b'{"Rows": [' + values * (15 * MIB // len(values))
    with pytest.raises(Invalid, match=r"has too many values for 100,000 rows\.$"):
        json_body(io.BytesIO(body))


def test_json_has_16_mib_at_most():
    body = b'{"Rows": [1]}'
    assert len(read_rows(json_body, body.ljust(16 * MIB))) == 1
    with pytest.raises(Invalid, match="The file has more than 16 MiB of JSON: send CSV"):
        json_body(io.BytesIO(body.ljust(16 * MIB + 1)), "The file")


def test_a_batch_and_its_undo_leave_things_as_they_were(world, plan, run, send, db):
    fields = ("Inventory", "Bank", "Spells")
    two = {"3": {"ItemId": ITEM, "Quantity": 2}}
    names = [world.add_player(Inventory=two)["Name"] for _ in range(3)]
    before = list(db.players.find({}, fields))
    teach = {"Operation": "teach", "SpellId": SPELL}
    batch = plan(
        [
            *map(gift, names),
            *(gift(name, 4, "take") for name in names),
            *({"Player": name, **teach} for name in names),
        ]
    )
    assert send(f"batches/{batch['Id']}/undo", status=409)["Code"] == "BATCH_NOT_ENDED"
    run(batch)
    undo = send(f"batches/{batch['Id']}/undo")
    assert (undo["Name"], undo["Undoes"], undo["Ready"]) == ("Undo of Gifts", batch["Id"], 9)
    assert run(undo)["Done"] == 9
    assert list(db.players.find({}, fields)) == before
    again = send(f"batches/{batch['Id']}/undo")
    assert (again["State"], again["Refused"]) == ("done", 9)
    assert run(send(f"batches/{undo['Id']}/undo"))["Done"] == 9
    assert held(db) == 9


def test_an_undo_takes_what_is_left_and_tells_what_is_missing(
    world, plan, run, send, staff, rows_of, db
):
    names = ("Ann", "Bob", "Cid", "Dan")
    for name in names:
        world.add_player(Name=name)
    batch = plan([gift(name) for name in names])
    run(batch)

    def spend(name, quantity):
        send(f"players/{name}/items/take", {"itemid": ITEM, "quantity": quantity})

    for name, spent in (("Ann", 3), ("Bob", 5), ("Cid", 1)):
        spend(name, spent)
    path = f"batches/{batch['Id']}/undo"
    assert counts(send(path)) == (1, 0, 3, 0)
    undo = send(path, {"Partial": True})
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
    spend("Ann", 1)
    assert counts(run(undo)) == (0, 3, 1, 1)
    last = rows_of(undo)[3]
    assert last["Warning"] == missing.format(4)
    assert held(db) == 0
    entry = staff(f"GET history/{last['Entry']}").json
    assert (entry["Warning"], entry["Arguments"]["Partial"]) == (missing.format(4), True)
    # Each change is undone once, whatever was missing; and the undo of the undo is exact.
    assert send(path, {"Partial": True})["Refused"] == 4
    run(send(f"batches/{undo['Id']}/undo"))
    assert [held(db, Name=name) for name in names] == [1, 0, 4, 5]


def test_rows_that_were_not_done_become_a_new_batch(world, plan, run, send, rows_of, db):
    for name in ("Ann", "Bob"):
        world.add_player(Name=name)
    rows = [gift("Ann"), gift("Bob", 3, "take"), gift(NOBODY), gift("Ann", item="Potion")]
    batch = plan([*rows, gift("Ann", "x")])
    path = f"batches/{batch['Id']}/retry"
    assert send(path, status=409)["Code"] == "BATCH_NOT_ENDED"
    assert run(batch)["Retries"] is None
    # What had to be mended is mended by now, and the player has another name.
    send("players/Bob/items/give", {"itemid": ITEM, "quantity": 3})
    send("players/Bob/name", {"Name": "Rob"})
    world.add_player(Name=NOBODY)
    world.add_object(Id=OTHER, Type="item", Name="Potion")
    rest = send(path)
    told = (rest["Name"], rest["Retries"], *counts(rest))
    assert told == ("Rest of Gifts", batch["Id"], 3, 0, 1, 0)
    found = rows_of(rest)
    assert [row["Row"] for row in found] == [2, 3, 4, 5]
    assert found[2]["Arguments"]["ItemId"] == OTHER
    assert [found[3]["Why"]] == whys(rows_of(batch)[4:]) != [None]
    assert run(rest)["Done"] == 3
    assert (held(db, Name="Ann"), held(db, OTHER), held(db, Name="Rob")) == (5, 5, 0)


def test_the_rest_of_a_cancelled_batch_and_of_an_undo_can_be_tried(world, plan, run, send, db):
    world.add_player(Name="Ann")
    batch = plan([gift("Ann"), gift("Ann", 1, "take")])
    send(f"batches/{batch['Id']}/cancel")
    rest = send(f"batches/{batch['Id']}/retry")
    assert run(rest)["Done"] == 2
    send("players/Ann/items/take", {"itemid": ITEM, "quantity": 4})
    undo = send(f"batches/{rest['Id']}/undo")
    assert counts(run(undo)) == (0, 1, 1, 0)
    send("players/Ann/items/give", {"itemid": ITEM, "quantity": 4})
    again = run(send(f"batches/{undo['Id']}/retry"))
    assert (again["Done"], held(db)) == (1, 0)
    assert send(f"batches/{again['Id']}/retry", status=409)["Code"] == "NOTHING_LEFT"


def test_two_retries_of_a_batch_do_a_row_once(world, plan, run, send, rows_of, staff, db):
    batch = plan([gift("Ann"), gift("Bob"), gift("Bob", 2)])
    for name in ("Ann", "Bob"):
        world.add_player(Name=name)
    first, second = (send(f"batches/{batch['Id']}/retry") for _ in range(2))
    assert (first["Ready"], second["Ready"]) == (3, 3)
    assert (run(first)["Done"], run(second)["Refused"]) == (3, 3)
    # A plan that is made later finds them done, and so does the rest of the rest.
    later = [send(f"batches/{one['Id']}/retry") for one in (batch, second)]
    assert {one["Name"] for one in later} == {"Rest of Gifts"}
    assert {why for one in (second, *later) for why in whys(rows_of(one))} == {RETRIED}
    assert [held(db, Name=name) for name in ("Ann", "Bob")] == [5, 7]
    assert [row["Entry"] for row in rows_of(batch) + rows_of(second)] == [None] * 6
    entry = rows_of(first)[0]["Entry"]
    assert staff(f"GET history/{entry}").json["Batch"] == first["Id"]
    run(send(f"batches/{first['Id']}/undo"))
    assert held(db) == 0


class TestPlanning:
    """While a batch is planned, its worker may die, stand still, or lose an answer."""

    @pytest.fixture
    def batches(self, app):
        return service(app, Batches)

    @pytest.fixture
    def players(self, world):
        return [world.add_player()["_id"] for _ in range(3)]

    def test_one_that_dies_leaves_nothing_that_could_be_run(
        self, players, plan, batches, db, monkeypatch
    ):
        def die(*_):
            raise Killed

        for step in ("complete", "remove"):
            monkeypatch.setattr(batches, step, die)
        with pytest.raises(Killed):
            plan(list(map(gift, players)))
        monkeypatch.undo()
        past = batches.now() - timedelta(hours=1)
        for field in ("At", "PlannedUntil"):
            batches.remove_stale()
            assert db.batches.find_one()["State"] == "planning"
            db.batches.update_one({}, {"$set": {field: past}})
        batches.remove_stale()
        assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]

    def test_a_long_one_says_that_it_is_under_way(self, players, plan, batches, db, monkeypatch):
        """Otherwise it would be taken for one whose worker has died."""
        monkeypatch.setattr(planning, "CHUNK", 1)
        add_rows, seen = batches.add_rows, set()

        def see(*args):
            add_rows(*args)
            seen.add(db.batches.find_one()["PlannedUntil"])
            monkeypatch.setattr(batches, "now", lambda: max(seen))

        monkeypatch.setattr(batches, "add_rows", see)
        plan(list(map(gift, players)))
        assert len(seen) == 3

    def test_one_whose_last_answer_is_lost_stays_whole(
        self, players, send, run, batches, db, monkeypatch
    ):
        """The worker takes the plan for failed, and the batch can be run all the same."""
        complete = batches.complete

        def lose_the_answer(*args):
            complete(*args)
            raise AutoReconnect("connection closed")

        monkeypatch.setattr(batches, "complete", lose_the_answer)
        send("batches", {"Rows": list(map(gift, players))}, 503)
        assert run({"Id": db.batches.find_one()["_id"]})["Done"] == 3
        assert held(db) == 15

    @pytest.mark.parametrize("when", ["before its rows", "after its rows"])
    def test_one_that_was_removed_meanwhile_is_not_completed(
        self, players, send, batches, db, monkeypatch, when
    ):
        """By others, who take a planner that stands still for dead; its rows go all the same."""
        add_rows = batches.add_rows

        def add_and_remove(batch, rows):
            if when == "before its rows":
                batches.remove(batch["_id"])
            add_rows(batch, rows)
            assert db.batch_rows.count_documents({}) == 3
            batches.remove(batch["_id"])

        monkeypatch.setattr(batches, "add_rows", add_and_remove)
        refused = send("batches", {"Rows": list(map(gift, players))}, 503)
        assert refused["Message"].startswith("Planning the batch took too long")
        assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]

    def test_one_that_another_worker_has_made_meanwhile_is_told_as_a_replay(
        self, players, staff, batches, db, monkeypatch
    ):
        """A client gave up waiting, and its request came again while the first was planned."""
        begin, others = batches.begin, []

        def overtaken(fields, key):
            others.append(batches.complete(begin(fields, key), {})["_id"])
            return begin(fields, key)

        monkeypatch.setattr(batches, "begin", overtaken)
        body, key = {"Rows": [gift(players[0])]}, {"Idempotency_Key": "once"}
        answers = [staff("POST batches", body, **key) for _ in range(2)]
        assert {answer.json["Id"] for answer in answers} == {*others}
        assert {answer.headers["Idempotency-Replayed"] for answer in answers} == {"true"}
        assert (len(others), db.batches.count_documents({})) == (1, 1)
        db.batches.update_one({}, {"$set": {"State": "planning"}})
        again = staff("POST batches", body, 503, **key)
        assert again.json["Code"] == "TOO_MANY_CHANGES"


def test_players_are_chosen_by_a_search(world, send, run, rows_of, db, monkeypatch):
    for name in ("Aldo", "Waldo", "Bob"):
        world.add_player(Name=name)
    online = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_one({"Name": "Bob"}, {"$set": online})
    world.add_object(Id=ITEM, Type="item", Name="Potion")
    row = {"Operation": "give", "ItemId": "potion", "Quantity": 2}
    for chosen, names in (
        ({"Search": "ALD"}, ["Aldo", "Waldo"]),
        ({"Online": True}, ["Bob"]),
        ({}, ["Aldo", "Bob", "Waldo"]),
    ):
        batch = send("batches", {"Players": chosen, "Row": row})
        assert [found["Subject"]["Name"] for found in rows_of(batch)] == names
    run(batch)
    assert held(db) == 6
    monkeypatch.setattr(planning, "MOST_PLAYERS", 2)
    for chosen, sent, why in (
        ({}, row, "The field 'Players' matches more than 2 players."),
        ({"Search": "nobody"}, row, "The field 'Players' matches nobody."),
        ({"Search": "al"}, row, "The field 'Players.Search' must be 3 to 255 characters."),
        ({}, {"Operation": "dance"}, "'Operation' must be one of"),
        ({}, {"Operation": "undo", "Id": "x"}, "has no field 'Player'"),
        ({}, {"Operation": "give", "Player": "Bob"}, "given twice"),
    ):
        assert why in send("batches", {"Players": chosen, "Row": sent}, 400)["Message"]
    assert db.batches.count_documents({}) == 3


def test_all_that_somebody_did_is_undone(world, send, run, client, db):
    thief = Caller(client, world.headers(user=world.add_user(roles=Role, Name="Thief")), "/api/v1/")
    for name in ("Ann", "Bob"):
        world.add_player(Name=name)
        thief(f"POST players/{name}/items/give", {"itemid": ITEM, "quantity": 2})
    send("players/Bob/items/give", {"itemid": OTHER, "quantity": 1})
    batch = send("batches", {"Undo": {"By": "Thief"}})
    assert (batch["Undo"], run(batch)["Done"]) == ({"By": "Thief"}, 2)
    assert (held(db), held(db, OTHER)) == (0, 1)
    nothing = send("batches", {"Undo": {"Key": "none"}}, 409)
    assert nothing["Message"] == "There is nothing to undo: no change matches."


def test_an_undo_within_the_chosen_changes_is_left_out(world, staff, send, run, db):
    world.add_player(Name="Ann")
    change = staff("POST players/Ann/items/give", {"itemid": ITEM, "quantity": 2})
    undo = send(f"history/{change.headers['X-History-Id']}/undo")["Id"]
    chosen = {"Undo": {"By": "Clerk"}}
    assert counts(send("batches", chosen)) == (0, 0, 2, 0)
    send(f"history/{undo}/undo")
    assert held(db) == 2
    batch = send("batches", chosen)
    assert counts(batch) == (1, 0, 2, 0)
    run(batch)
    assert held(db) == 0


def test_a_change_is_undone_by_one_row_of_a_batch(world, plan, run, rows_of, db):
    world.add_player(Name="Ann", Inventory={"3": {"ItemId": ITEM, "Quantity": 50}})
    run(plan([gift("Ann")]))
    entry = db.history.find_one({"Operation": "give"})["_id"]
    batch = plan([{"Operation": "undo", "Id": entry} for _ in range(3)])
    assert counts(batch) == (1, 0, 2, 0)
    sentence = f"The change {entry} is already undone by row 1 of this batch."
    assert whys(rows_of(batch)) == [None, sentence, sentence]
    run(batch)
    assert held(db) == 50


def test_many_undos_of_undos_are_found_by_a_few_questions(world, app, monkeypatch):
    """One question for each of them would take longer than a request may."""
    player, history, asked = world.add_player(), service(app, History), []
    entries = [make_entry(player, Version=number) for number in range(2, 42)]
    for undone, undo in pairwise(entries):
        undo |= {"Operation": "undo", "Undoes": undone["_id"]}
    world.db.history.insert_many(entries)
    get_many = history.get_many

    def counted(ids, filters):
        asked.append(len(ids))
        return get_many(ids, filters)

    monkeypatch.setattr(history, "get_many", counted)
    with app.app_context():
        rows = list(planning.chosen_changes({"Operation": "undo"}, ("player",)))
    # Of those chosen, each second one cancels out the one before it.
    assert (len(rows), sum(row.fault is not None for row in rows)) == (39, 19)
    assert len(asked) <= 2
