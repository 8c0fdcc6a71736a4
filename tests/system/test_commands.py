"""What no transcript can type: bytes, long texts, and what no command leaves in a database."""

import json
from datetime import datetime, timedelta, timezone

import pytest

from app.storage.schema.migrations import CURRENT
from tests.factories import NOW, make_entry, make_player


@pytest.mark.parametrize(
    "command",
    [
        *("db init", "db check", "db check --repair", "db version", "seed", "export players"),
        *("import players -", "api roles Ann", "token Ann"),
    ],
)
def test_the_database_of_a_newer_program_is_refused(quartermaster, real_db, command):
    real_db.schema.update_one({}, {"$set": {"SchemaVersion": CURRENT + 1}})
    refused = quartermaster(*command.split())
    real_db.schema.update_one({}, {"$set": {"SchemaVersion": CURRENT}})
    assert refused.exit_code == 1
    (sentence,) = refused.stderr.splitlines()
    assert f"is at SchemaVersion {CURRENT + 1}, and this program knows " in sentence


def test_a_password_may_hold_any_bytes(quartermaster):
    create = ("user", "create", "Ann", "--email", "ann@example.com", "--password-stdin")
    assert quartermaster(*create, stdin=b"\xff\xfe\n").exit_code == 0


def test_a_reason_that_is_too_long_is_refused(quartermaster):
    failed = quartermaster("api", "grant", "Nova", "api", "--reason", "x" * 501)
    assert (failed.exit_code, "at most 500" in failed.stderr) == (2, True)


def test_history_of_more_than_a_page_is_printed(quartermaster, real_db):
    someone = make_player(Name="Bob \a")
    real_db.history.insert_many([make_entry(someone, Version=n) for n in range(250)])
    found = quartermaster("history", "--json", "--limit", "240").stdout.splitlines()
    assert len({json.loads(line)["Id"] for line in found}) == 240
    assert "\a" not in quartermaster("history").stdout


def test_db_init_adds_entries_to_the_events_that_a_dump_has_lost(quartermaster, real_db):
    before = make_entry(make_player(), At=NOW)  # from before there were events
    now = datetime.now(timezone.utc)
    lost = [make_entry(make_player(), At=now - timedelta(minutes=n)) for n in (3, 2, 1)]
    real_db.history.insert_many([before, *lost])
    for _ in range(2):
        assert quartermaster("db", "init").exit_code == 0
        told = [id_ for event in real_db.events.find() for id_ in event["Entries"]]
        assert told == [entry["_id"] for entry in lost]
