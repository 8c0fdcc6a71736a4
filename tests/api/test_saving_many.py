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
def players(world):
    return [world.add_player(Name=name, Level=2, X=1)["_id"] for name in ("Ann", "Bob", "Cid")]


def codes(results):
    return [result["Code"] for result in results]


def saved(player_id, version):
    return {"Id": player_id, "Version": version, "Code": None, "Message": None}


def versions(db, ids):
    return [db.players.find_one({"_id": id_})["Version"] for id_ in ids]


def test_each_row_is_saved_or_refused_alone_and_in_order(save, players, db, staff):
    (ann, bob, cid), new, deleted = players, guid(), guid()
    save({"Id": deleted, "Name": "Deleted", "UserId": guid()})
    staff(f"DELETE players/{deleted}")
    results = save(
        {"Id": ann, "Version": 0, "X": 2},
        {"Id": bob, "Version": 7, "Level": 3},
        {"Id": guid(), "Version": 1, "Level": 3},
        {"Id": new.upper(), "Name": "Nova", "UserId": guid()},
        {"Id": deleted, "Name": "Back", "UserId": guid()},
        {"Id": guid(), "Level": 3},
        {"Id": cid, "Version": 0, "Level": "high"},
        {"Id": guid(), "Name": "ann", "UserId": guid()},
    )
    assert [results[0], results[3]] == [saved(ann, 1), saved(new, 1)]
    assert codes(results) == [
        *(None, "VERSION_CHANGED", "NOT_FOUND", None),
        *("WAS_DELETED", "INVALID", "INVALID", "PLAYER_NAME_TAKEN"),
    ]
    assert results[1]["Version"] == 0
    assert results[1]["Message"] == "The player has changed: its Version is now 0."
    # As of a single save, the position alone makes no entry.
    assert entries_of(db, {"_id": ann}) == []
    assert [entry["Operation"] for entry in entries_of(db, {"_id": new})] == ["save"]
    assert (versions(db, players), db.players.count_documents({})) == ([1, 0, 0], 4)


def test_a_key_makes_each_row_once_and_lets_refused_rows_be_tried_again(save, players, staff, db):
    ann, bob, _ = players
    rows = {"Id": ann, "Version": 0, "X": 5}, {"Id": bob, "Version": 1, "Level": 9}
    assert codes(save(*rows, Idempotency_Key="k")) == [None, "VERSION_CHANGED"]
    assert save({"Id": bob, "Level": 3})[0]["Version"] == 1
    # The row that was made is made no more; the other can be made by now.
    first, again = (staff("PUT players", {"Players": rows}, Idempotency_Key="k") for _ in range(2))
    assert first.json["Values"] == [saved(ann, 1), saved(bob, 2)]
    assert "Idempotency-Replayed" not in first.headers
    assert (again.json, again.headers["Idempotency-Replayed"]) == (first.json, "true")
    assert [len(entries_of(db, {"_id": id_})) for id_ in (ann, bob)] == [1, 2]
    assert codes(save({**rows[0], "X": 6}, Idempotency_Key="k")) == ["KEY_REUSED"]
    assert db.players.find_one({"_id": ann})["X"] == 5


def test_what_is_wrong_with_the_whole_request_saves_nobody(save, players, staff, db):
    row = {"Id": players[0], "Level": 3}
    for rows in (
        *([], [row, {**row, "Id": players[0].upper()}], [row, {"Level": 3}], [row, None]),
        [row, {"Id": "Ann"}],
        [row, *({"Id": guid()} for _ in range(500))],
        [row, {"Id": guid(), **{f"Own{number}": 1 for number in range(100)}}],
    ):
        refused = save(*rows, status=400)
        assert [name.partition(".")[0] for name in refused["Errors"]] == ["Players"], rows
    staff("PUT players", {"Players": [row], "All": True}, 400)
    save(row, status=400, Idempotency_Key="x" * 256)
    assert versions(db, players) == [0, 0, 0]


def test_rows_without_time_are_told_and_can_be_sent_again(save, players, db, monkeypatch):
    rows = [{"Id": id_, "Version": 0, "Level": 3} for id_ in players]
    # The clock of the service, which is late after the first row.
    times = iter([0.0])
    monkeypatch.setattr(saving, "monotonic", lambda: next(times, float("inf")))
    told = [(one["Code"], one["Message"]) for one in save(*rows)]
    assert told == [(None, None), *[("UNAVAILABLE", saving.NOT_TRIED)] * 2]
    assert versions(db, players) == [1, 0, 0]
    monkeypatch.undo()
    assert codes(save(*rows[1:])) == [None, None]


def test_a_database_that_fails_for_one_row_leaves_the_results_of_the_others(
    save, players, monkeypatch
):
    rows = [{"Id": id_, "Level": 3} for id_ in players]
    real, failures = Players.save, []

    def fail_once(store, player_id, *args):
        if player_id == players[1]:
            raise failures.pop()
        return real(store, player_id, *args)

    monkeypatch.setattr(Players, "save", fail_once)
    failures += [OperationFailure("no such command", 59), AutoReconnect("gone")]
    assert codes(save(*rows)) == [None, "UNAVAILABLE", None]
    # A bug of ours is none of the game's.
    assert save(*rows, status=500)["Code"] == "INTERNAL_ERROR"
