"""What transcripts cannot tell of the commands for people: administrators, and erasures."""

import json

import pytest

from app.privacy.store import Erasures
from tests.factories import NOW, guid, make_bag, make_entry, make_player, make_user

NAME = "Zweronika"
MAIL = "zweronika@example.com"


@pytest.fixture
def quartermaster(monkeypatch, quartermaster):
    """Return a way to run a command; it returns status and output."""
    monkeypatch.setenv("QM_OPENID_ISSUER", "https://login.example.com")
    for name in ("CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"QM_OPENID_{name}", "x")

    def run(*arguments, stdin=None):
        done = quartermaster(*arguments, stdin=stdin)
        return done.exit_code, done.output

    return run


@pytest.fixture
def person(real_db):
    user = make_user(Name=NAME, Email=MAIL)
    bag = make_bag()
    held = {"0": {"ItemId": guid(), "Quantity": 1, "BagId": bag["_id"]}}
    player = make_player(Name="Quixandra", UserId=user["_id"], Inventory=held)
    real_db.bags.insert_one(bag)
    real_db.users.insert_one(user)
    real_db.players.insert_one(player)
    real_db.history.insert_one(make_entry(player, Reason=f"for {NAME}"))
    return user


@pytest.mark.parametrize("command", ["link-company-account", "unlink-company-account"])
def test_the_last_administrator_keeps_the_link_to_a_company_account(
    quartermaster, person, real_db, command
):
    """Of which the groups, or the only sign-in, are."""
    linked = {"Issuer": "https://login.example.com", "Subject": "4711"}
    by_groups = {"GroupRoles": ["administrator"], "Roles": []}
    without_password = {"GroupRoles": [], "Roles": ["administrator"], "PasswordHash": None}
    for last in (by_groups, without_password) if command.startswith("un") else (by_groups,):
        real_db.users.update_one({"_id": person["_id"]}, {"$set": {**last, "OpenId": linked}})
        values = () if command.startswith("un") else ("Subject=4712",)
        code, output = quartermaster("run", command, NAME, *values)
        assert (code, "Nobody could manage staff then" in output) == (1, True)
    assert real_db.users.find_one({"_id": person["_id"]})["OpenId"] == linked


def test_personal_data_are_written_for_their_owner_alone(quartermaster, person, tmp_path):
    file = tmp_path / "person.json"
    assert quartermaster("user", "export", NAME, str(file))[0] == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["Characters"][0]["Name"] == "Quixandra"


def traces_in(db):
    """Return what is stored of the name and the address of the person."""
    stored = [repr(list(db[name].find())) for name in db.list_collection_names()]
    return [text for text in stored if NAME in text or MAIL in text]


def test_a_person_is_erased_and_stays_erased_after_a_restore(
    quartermaster, person, real_db, tmp_path, monkeypatch
):
    monkeypatch.setattr(Erasures, "_seconds_to_settle", lambda *_: 0)
    kinds, erasures = ("users", "players", "bags"), tmp_path / "erasures"
    for kind in kinds:
        assert quartermaster("export", kind, tmp_path / kind)[0] == 0
    copies = {kind: real_db[kind].find_one() for kind in kinds}
    code, output = quartermaster("user", "erase", NAME, stdin=f"{NAME}\n")
    assert (code, "1 players" in output) == (0, True)
    assert NAME not in output.splitlines()[-1]
    assert traces_in(real_db) == []
    # An import says who it is that must not come back.
    for kind in kinds:
        code, output = quartermaster("import", kind, tmp_path / kind)
        assert (code, "was erased" in output) == (1, True)
    # A restored backup from before knows of no erasure; the exported one tells it.
    assert quartermaster("export", "erasures", erasures)[0] == 0
    real_db.erasures.delete_many({})
    for kind, copy in copies.items():
        real_db[kind].insert_one(copy)
    assert quartermaster("db", "check")[0] == 0
    # Nobody is erased by the import itself, whatever its lines say.
    owner = make_user()
    other = make_player(UserId=owner["_id"])
    real_db.users.insert_one(owner)
    real_db.players.insert_one(other)
    line = {"Id": guid(), "BegunAt": "2026-01-01T00:00:00Z", "Players": [other["_id"]]}
    lines = f"{erasures.read_text()}{json.dumps(line)}\n"
    assert quartermaster("import", "erasures", "-", stdin=lines)[0] == 0
    code, output = quartermaster("db", "check")
    assert code == 1
    assert output.count("was erased, but exists again (can be repaired)") == 3
    assert quartermaster("db", "check", "--repair")[0] == 0
    assert real_db.users.distinct("_id") == [owner["_id"]]
    assert real_db.players.distinct("_id") == [other["_id"]]
    assert traces_in(real_db) == []


def test_an_erasure_that_was_killed_is_finished_by_db_check(quartermaster, person, real_db):
    record = {"_id": person["_id"], "BegunAt": NOW, "Players": [], "Bags": [], "FinishedAt": None}
    fenced = {"FencedAt": NOW, "Lifetime": 3.0, "Texts": [NAME]}
    real_db.erasures.insert_one({**record, **fenced})
    code, output = quartermaster("db", "check")
    assert (code, "is not finished (can be repaired)" in output) == (1, True)
    assert quartermaster("db", "check", "--repair")[0] == 0
    assert real_db.users.count_documents({}) == 0
    assert real_db.erasures.find_one()["FinishedAt"] is not None
