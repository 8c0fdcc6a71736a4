"""A game without a driver for MongoDB saves many characters with one request."""

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from app.game.server import saving
from app.players.store import Players
from tests.changes import entries_of
from tests.factories import guid


@pytest.fixture
def save(staff):
    """Save characters; return their results, or the refusal of the whole request."""

    def save(*rows, status=200, **headers):
        answer = staff("PUT players", {"Players": rows}, status, **headers)
        return answer.json["Values"] if status == 200 else answer.json

    return save


@pytest.fixture
def stored(db):
    return lambda player_id: db.players.find_one({"_id": player_id})


@pytest.fixture
def entries(db):
    return lambda player_id: entries_of(db, {"_id": player_id})


def saved(player_id, version):
    return {"Id": player_id, "Version": version, "Code": None, "Message": None}


def test_each_row_is_saved_or_refused_alone_and_in_order(save, world, stored, entries, db, staff):
    names = ("Ann", "Bob", "Cid")
    ann, bob, cid = (world.add_player(Name=name, Level=2, X=1)["_id"] for name in names)
    gone, new, deleted, nameless = guid(), guid(), world.add_player()["_id"], guid()
    staff(f"DELETE players/{deleted}")
    results = save(
        {"Id": ann, "Version": 0, "X": 2},
        {"Id": bob, "Version": 7, "Level": 3},
        {"Id": gone, "Version": 1, "Level": 3},
        {"Id": new.upper(), "Name": "Nova", "UserId": guid()},
        {"Id": deleted, "Name": "Back", "UserId": guid()},
        {"Id": nameless, "Level": 3},
        {"Id": cid, "Version": 0, "Level": "high"},
        {"Id": guid(), "Name": "ann", "UserId": guid()},
    )
    assert [results[0], results[3]] == [saved(ann, 1), saved(new, 1)]
    refused = ["VERSION_CHANGED", "NOT_FOUND", "WAS_DELETED", "INVALID", "INVALID"]
    codes = [result["Code"] for result in results]
    assert codes == [None, *refused[:2], None, *refused[2:], "PLAYER_NAME_TAKEN"]
    assert results[1]["Version"] == 0
    assert results[1]["Message"] == "The player has changed: its Version is now 0."
    # As of a single save, the position alone makes no entry.
    assert (stored(ann)["X"], entries(ann)) == (2, [])
    assert (stored(bob)["Level"], stored(cid)["Version"]) == (2, 0)
    assert [entry["Operation"] for entry in entries(new)] == ["save"]
    assert db.players.count_documents({}) == 4
    # Once more: what was saved has another version now, and nothing is saved twice.
    (again,) = save({"Id": ann, "Version": 0, "X": 2})
    assert (again["Code"], again["Version"]) == ("VERSION_CHANGED", 1)


def test_a_key_makes_each_row_once_and_lets_refused_rows_be_tried_again(
    save, staff, world, stored, entries
):
    ann, bob = (world.add_player(Level=2)["_id"] for _ in range(2))
    rows = {"Id": ann, "Version": 0, "X": 5}, {"Id": bob, "Version": 1, "Level": 9}
    first = save(*rows, Idempotency_Key="k")
    assert [result["Code"] for result in first] == [None, "VERSION_CHANGED"]
    assert save({"Id": bob, "Level": 3})[0]["Version"] == 1
    # The row that was made is made no more; the other can be made by now.
    answer = staff("PUT players", {"Players": rows}, Idempotency_Key="k")
    assert answer.json["Values"] == [saved(ann, 1), saved(bob, 2)]
    assert "Idempotency-Replayed" not in answer.headers
    again = staff("PUT players", {"Players": rows}, Idempotency_Key="k")
    assert (again.json, again.headers["Idempotency-Replayed"]) == (answer.json, "true")
    assert [len(entries(id_)) for id_ in (ann, bob)] == [1, 2]
    reused = save({**rows[0], "X": 6}, Idempotency_Key="k")
    assert (reused[0]["Code"], stored(ann)["X"]) == ("KEY_REUSED", 5)


def test_what_is_wrong_with_the_whole_request_saves_nobody(app, save, staff, world, stored):
    id_ = world.add_player(Level=2)["_id"]
    row = {"Id": id_, "Level": 3}
    for rows in (
        *([], [row, row], [row, {**row, "Id": id_.upper()}], [row, {"Level": 3}], [row, None]),
        *([row, {"Id": "Ann"}], [row, {"Id": 5}], [row, *({"Id": guid()} for _ in range(500))]),
        [row, {"Id": guid(), **{f"Own{number}": 1 for number in range(100)}}],
    ):
        refused = save(*rows, status=400)
        assert [name.partition(".")[0] for name in refused["Errors"]] == ["Players"], rows
    for body in ({"Players": row}, {"Players": None}, {}, {"Players": [row], "All": True}):
        staff("PUT players", body, 400)
    save(row, status=400, Idempotency_Key="x" * 256)
    app.config["REASON_REQUIRED"] = True
    save(row, status=400)
    assert stored(id_)["Version"] == 0


def test_rows_without_time_are_told_and_can_be_sent_again(save, world, stored, monkeypatch):
    ids = [world.add_player(Level=2)["_id"] for _ in range(3)]
    rows = [{"Id": id_, "Version": 0, "Level": 3} for id_ in ids]
    # The clock of the service, which is late after the first row.
    times = iter([0.0])
    monkeypatch.setattr(saving, "monotonic", lambda: next(times, float("inf")))
    results = save(*rows)
    assert [result["Code"] for result in results] == [None, "UNAVAILABLE", "UNAVAILABLE"]
    assert results[1]["Message"] == saving.NOT_TRIED
    assert [stored(id_)["Version"] for id_ in ids] == [1, 0, 0]
    monkeypatch.undo()
    assert save(*rows[1:]) == [saved(id_, 1) for id_ in ids[1:]]


def test_a_database_that_fails_for_one_row_leaves_the_results_of_the_others(
    save, world, monkeypatch
):
    ids = [world.add_player(Level=2)["_id"] for _ in range(3)]
    rows = [{"Id": id_, "Version": 0, "Level": 3} for id_ in ids]
    real = Players.save

    def failing(error):
        def save(players, player_id, *args):
            if player_id == ids[1]:
                raise error
            return real(players, player_id, *args)

        monkeypatch.setattr(Players, "save", save)

    failing(AutoReconnect("gone"))
    assert [result["Code"] for result in save(*rows)] == [None, "UNAVAILABLE", None]
    # A bug of ours is none of the game's.
    failing(OperationFailure("no such command", 59))
    assert save(*rows, status=500)["Code"] == "INTERNAL_ERROR"
