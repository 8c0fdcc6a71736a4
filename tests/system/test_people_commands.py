"""The commands for keys, sign-ins, personal data and erasure."""

import json
import re

import pytest

from app.auth.api_keys import digest_of
from tests.factories import (
    NOW,
    guid,
    make_bag,
    make_entry,
    make_factor,
    make_player,
    make_user,
    numbered_guid,
)

NAME = "Zweronika"
MAIL = "zweronika@example.com"


@pytest.fixture
def quartermaster(monkeypatch, quartermaster, tmp_path):
    """Return a way to run a command; it returns status and output."""
    settings = {"SECRET_KEY": "s" * 40, "DATA_DIR": str(tmp_path / "data")}
    for name, value in {**settings, "AUTH_CACHE_SECONDS": "0"}.items():
        monkeypatch.setenv(f"QM_{name}", value)

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


def test_a_lost_second_factor_is_reset(quartermaster, person, real_db, tmp_path):
    code, output = quartermaster("run", "reset-second-factor", NAME)
    assert (code, "This account has no second factor." in output) == (1, True)
    factor = {"$set": {"SecondFactor": make_factor()}}
    real_db.users.update_one({"_id": person["_id"]}, factor)
    code, output = quartermaster("run", "reset-second-factor", NAME, "--reason", "Lost phone.")
    assert (code, '"MailSent":true' in output) == (0, True)
    assert len(list((tmp_path / "data" / "outbox").iterdir())) == 1
    assert real_db.users.find_one({"_id": person["_id"]})["SecondFactor"] is None
    entry = real_db.history.find_one({"Via": "cli"})
    assert (entry["Operation"], entry["Reason"]) == ("reset-second-factor", "Lost phone.")


def test_a_second_factor_is_not_exported_and_survives_an_import(
    quartermaster, person, real_db, tmp_path
):
    factor = make_factor(codes=["AAAA-BBBB-CCCC-DDDD"])
    real_db.users.update_one({"_id": person["_id"]}, {"$set": {"SecondFactor": factor}})
    files = [tmp_path / "users.jsonl", tmp_path / "person.json"]
    assert quartermaster("export", "users", files[0])[0] == 0
    assert quartermaster("user", "export", NAME, files[1])[0] == 0
    for file in files:
        assert NAME in file.read_text()
        for secret in ("RecoveryCodes", "LastStep", *factor["RecoveryCodes"]):
            assert secret not in file.read_text()
    files[0].write_text(files[0].read_text().replace(MAIL, "moved@example.com"))
    assert quartermaster("import", "users", files[0])[0] == 0
    stored = real_db.users.find_one({"_id": person["_id"]})
    assert (stored["Email"], stored["SecondFactor"]) == ("moved@example.com", factor)


def only_key(db, user):
    (key,) = db.users.find_one({"_id": user["_id"]})["Keys"].items()
    return key


def test_a_key_is_made_listed_rotated_and_revoked(quartermaster, person, real_db):
    item = guid()
    budget = ("--items-per-day", "100", "--item", item, "--address", "203.0.113.0/24")
    code, output = quartermaster("key", "create", NAME, "shop", "items.move", *budget)
    secret = output.splitlines()[-1]
    assert (code, len(secret)) == (0, 49)
    key_id, stored = only_key(real_db, person)
    assert stored["Secrets"][0]["Digest"] == digest_of(secret)
    assert stored["Budget"]["ItemsPerDay"] == 100
    code, output = quartermaster("key", "list", NAME)
    assert code == 0
    assert re.search(rf"{key_id}  shop  items\.move  .* UTC  .*203\.0\.113\.0/24", output)
    assert item in output
    assert secret not in output
    code, output = quartermaster("key", "rotate", NAME, "shop", "--overlap", "0")
    assert code == 0
    assert output.splitlines()[-1] != secret
    code, output = quartermaster("key", "revoke", NAME, key_id)
    assert (code, "Revoked the key" in output) == (0, True)
    assert real_db.users.find_one({"_id": person["_id"]})["Keys"] == {}
    operations = [entry["Operation"] for entry in real_db.history.find({"Via": "cli"})]
    assert operations == ["create-key", "rotate-key", "revoke-key"]


WRONG = [
    ("create", "nobody", "shop", "players.read"),
    ("create", NAME, "shop", "players.write"),
    ("create", NAME, "shop", "players.read", "--address", "x"),
    ("create", NAME, "shop", "players.read", "--item", "x"),
    ("revoke", NAME, "shop"),
    ("rotate", NAME, numbered_guid(1)),
    ("list", "nobody"),
]


def test_what_is_wrong_is_one_sentence(quartermaster, person):
    for arguments in WRONG:
        code, output = quartermaster("key", *arguments)
        assert (arguments, code) == (arguments, 1)
        assert output.startswith("Error: ")
        assert output.strip().endswith(".")
        assert "Traceback" not in output


def test_sign_ins_are_listed_and_ended(quartermaster, person, real_db):
    quartermaster("api", "grant", NAME, "api")
    quartermaster("token", NAME)
    quartermaster("token", NAME)
    code, output = quartermaster("user", "sign-ins", NAME)
    lines = output.splitlines()
    assert (code, len(lines)) == (0, 3)
    chain = lines[1].split()[0]
    assert quartermaster("user", "end-sign-in", NAME, chain)[0] == 0
    assert len(quartermaster("user", "sign-ins", NAME)[1].splitlines()) == 2
    assert quartermaster("user", "end-sign-in", NAME, chain)[0] == 1
    assert quartermaster("user", "end-sign-in", NAME, "x")[0] == 1


LINK, UNLINK = ("run", "link-company-account"), ("run", "unlink-company-account")


def test_an_account_is_linked_to_a_company_account(quartermaster, person, real_db, monkeypatch):
    code, output = quartermaster(*LINK, NAME, "Subject=4711")
    assert (code, "QM_OPENID_ISSUER is not set" in output) == (1, True)
    issuer = "https://login.example.com"
    for name, value in (("ISSUER", issuer), ("CLIENT_ID", "x"), ("CLIENT_SECRET", "x")):
        monkeypatch.setenv(f"QM_OPENID_{name}", value)
    assert quartermaster(*LINK, NAME, "Subject=4711")[0] == 0
    user = real_db.users.find_one({"_id": person["_id"]})
    assert user["OpenId"] == {"Issuer": issuer, "Subject": "4711"}
    real_db.users.insert_one(make_user(Name="Other"))
    code, output = quartermaster(*LINK, "Other", "Subject=4711")
    assert (code, "Another account is linked" in output) == (1, True)
    for name, subject in (("Nobody", "4712"), ("Other", ""), ("Other", "x" * 256)):
        assert quartermaster(*LINK, name, f"Subject={subject}")[0] == 1, subject
    by_groups = {"GroupRoles": ["administrator"], "Roles": []}
    without_password = {"GroupRoles": [], "Roles": ["administrator"], "PasswordHash": None}
    for last, command in (
        (by_groups, (*UNLINK, NAME)),
        (by_groups, (*LINK, NAME, "Subject=4712")),
        (without_password, (*UNLINK, NAME)),
    ):
        real_db.users.update_one({"_id": person["_id"]}, {"$set": last})
        code, output = quartermaster(*command)
        assert (code, "Nobody could manage staff then" in output) == (1, True), command
    support = {"GroupRoles": ["support"], "Roles": [], "PasswordHash": person["PasswordHash"]}
    real_db.users.update_one({"_id": person["_id"]}, {"$set": support})
    assert quartermaster(*UNLINK, NAME)[0] == 0
    user = real_db.users.find_one({"_id": person["_id"]})
    assert (user["OpenId"], user["GroupRoles"]) == (None, [])
    assert quartermaster(*LINK, "Other", "Subject=4711")[0] == 0
    entries = list(real_db.history.find({"Operation": {"$regex": "link-company-account"}}))
    assert len(entries) == 3
    assert "4711" not in str(entries)


def test_personal_data_are_written_for_their_owner_alone(quartermaster, person, tmp_path):
    file = tmp_path / "person.json"
    assert quartermaster("user", "export", NAME, str(file), "--reason", "Asked for it")[0] == 0
    assert file.stat().st_mode & 0o777 == 0o600
    data = json.loads(file.read_text())
    assert data["User"]["Email"] == MAIL
    assert data["Characters"][0]["Name"] == "Quixandra"
    export, earlier = data["HistoryAbout"][:2]
    assert (export["Operation"], export["Via"]) == ("export-personal-data", "cli")
    assert (export["Reason"], earlier["Reason"]) == ("Asked for it", f"for {NAME}")
    assert quartermaster("user", "export", "nobody", str(file))[0] == 1


def test_a_person_is_erased_and_stays_erased_after_a_restore(
    quartermaster, person, real_db, tmp_path
):
    kinds = ("users", "players", "bags")
    lines = {kind: tmp_path / f"{kind}.jsonl" for kind in (*kinds, "erasures")}
    for kind in kinds:
        assert quartermaster("export", kind, str(lines[kind]))[0] == 0
    copies = {kind: real_db[kind].find_one() for kind in kinds}
    assert quartermaster("user", "erase", NAME, "--confirm", "somebody")[0] == 1
    assert quartermaster("user", "erase", NAME, stdin="somebody\n")[0] == 1
    code, output = quartermaster("user", "erase", NAME, stdin=f"{NAME}\n")
    assert code == 0, output
    assert "1 players" in output
    assert NAME not in output.splitlines()[-1]
    stored = [repr(list(real_db[name].find())) for name in real_db.list_collection_names()]
    assert not [text for text in stored if NAME in text or MAIL in text]
    assert quartermaster("db", "check")[0] == 0
    # An import says who it is that must not come back.
    for kind in kinds:
        code, output = quartermaster("import", kind, str(lines[kind]))
        assert (code, "was erased" in output) == (1, True)
    # A restored backup from before knows of no erasure; the exported one tells it.
    assert quartermaster("export", "erasures", str(lines["erasures"]))[0] == 0
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
    with lines["erasures"].open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert quartermaster("import", "erasures", str(lines["erasures"]))[0] == 0
    code, output = quartermaster("db", "check")
    assert code == 1
    assert output.count("was erased, but exists again (can be repaired)") == 3
    code, output = quartermaster("db", "check", "--repair")
    assert code == 0, output
    assert [user["_id"] for user in real_db.users.find()] == [owner["_id"]]
    assert [player["_id"] for player in real_db.players.find()] == [other["_id"]]
    stored = [repr(list(real_db[name].find())) for name in real_db.list_collection_names()]
    assert not [text for text in stored if NAME in text or MAIL in text]


def test_an_erasure_that_was_killed_is_finished_by_db_check(quartermaster, person, real_db):
    record = {"_id": person["_id"], "BegunAt": NOW, "Players": [], "Bags": [], "FinishedAt": None}
    fenced = {"FencedAt": NOW, "Lifetime": 3.0, "Texts": [NAME]}
    real_db.erasures.insert_one({**record, **fenced})
    code, output = quartermaster("db", "check")
    assert (code, "is not finished (can be repaired)" in output) == (1, True)
    assert quartermaster("db", "check", "--repair")[0] == 0
    assert real_db.users.count_documents({}) == 0
    assert real_db.erasures.find_one()["FinishedAt"] is not None
