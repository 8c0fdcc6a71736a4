"""No answer, log line, metric or mail holds a password, a hash, a code or a token."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from tests import tiers
from tests.endpoint_table import DOORS, FRONT_DOORS
from tests.factories import NOW, guid
from tests.system.leaks import Known, misframed, right_ask, wrong_asks
from tests.system.secret_leaks import DATABASE, WatchedService
from tests.system.test_mail import code_in
from tests.tiers import some

RESET = next(door for door in DOORS if door.number == "26")


@pytest.fixture(scope="module", params=some([("DEBUG", "json"), ("INFO", "text")], 1), ids="-".join)
def service(request, tmp_path_factory, mongodb_uri, real_storage):
    level, form = request.param
    db = real_storage.client[DATABASE]
    service = WatchedService(db)
    # What is logged at INFO is logged at DEBUG as well, so a part of the requests does.
    service.stride = 1 if level == "DEBUG" and tiers.is_everything else 7
    db.command("createUser", "keeper", pwd=service.known.mongodb, roles=["dbOwner"])
    init_database(db, COLLECTIONS)
    folder = tmp_path_factory.mktemp("secrets")
    with service.open(folder, mongodb_uri, LOG_LEVEL=level, LOG_FORMAT=form):
        yield service
    db.command("dropUser", "keeper")
    real_storage.client.drop_database(DATABASE)


def test_nothing_that_is_fed_to_any_door_comes_out(service):
    """The doors are all there are: another test holds their table against the routes."""
    for turn, door in list(enumerate(DOORS))[:: service.stride]:
        service.reset()
        service.sign_in(door)
        # Nobody has the token of this user, or knows the ids of sign-ins, so there are none to be
        # found; and we are no browser.
        is_found = (
            not door.route.endswith(("[token]", "sign_in]")) and door.route not in FRONT_DOORS
        )
        assert service.send(right_ask(door, service.known)) == (200 if is_found else 404)
        service.sign_in(door)
        # Each door gets others of them, and all doors together get all.
        stride = max(service.stride, 3)
        wrong = wrong_asks(door, service.known, turn)
        for ask in itertools.islice(wrong, turn % stride, None, stride):
            assert service.send(ask) < 500, ask
        service.learn()
    for text in misframed(service.known):
        service.send_raw(text)
    assert service.leaks() == []


def test_a_mail_holds_its_code_and_no_other_secret(service):
    service.reset()
    service.sign_in(RESET)
    service.mailbox.messages.clear()
    assert service.send(right_ask(RESET, service.known)) == 200
    (message,) = service.mailbox.messages
    code = code_in(message)
    assert message.as_string().count(code) == 2  # as text and as HTML
    assert service.known.found_in(message.as_string(), allowed=[code]) == set()
    assert service.leaks() == []


def test_a_mail_server_that_refuses_us_is_told_of_without_secrets(service):
    service.reset()
    service.sign_in(RESET)
    service.knows_postman = False
    assert service.send(right_ask(RESET, service.known)) == 503
    service.knows_postman = True
    assert service.leaks() == []
    assert "did not accept it" in service.server.output.read_text()


def test_a_bug_is_told_of_without_secrets(service):
    """A write that the database refuses is one, and its refusal quotes what was to be written."""
    prepared = service.prepared(DOORS)
    with service.refusing_writes():
        statuses = [service.send(ask) for ask in prepared]
    # A change that does not fit what is stored is a 409; what else is refused, nobody expected.
    assert statuses.count(409) >= 8
    assert 500 in statuses
    assert service.leaks() == []
    assert "Traceback" in service.server.output.read_text()


def test_a_database_that_is_away_is_told_of_without_secrets(service):
    prepared = service.prepared([door for door in DOORS if door.roles])
    with service.proxy.cut(), ThreadPoolExecutor(len(prepared)) as crowd:
        # Who may not ask for approval is refused by what the worker still knows of the caller.
        assert set(crowd.map(service.send, prepared)) <= {200, 403, 503}
    assert service.leaks() == []


def test_a_command_prints_no_secret_but_what_it_is_for(
    tmp_path, monkeypatch, quartermaster, real_db
):
    """Transcripts show that none prints a password."""
    known, file = Known(), tmp_path / "users.jsonl"
    settings = {"SECRET_KEY": known.key, "LOG_LEVEL": "DEBUG", "MAIL_PASSWORD": known.mail}
    for name, value in {**settings, "MAIL_USERNAME": "mail"}.items():
        monkeypatch.setenv(f"QM_{name}", value)
    quartermaster("user", "create", "Zoe", "--email", "z@b.co", "--password-stdin", stdin="x")
    quartermaster("api", "grant", "Zoe", "api")
    record = {"Id": guid(), "Name": "Yan", "Email": "y@example.com"}
    for wrong in ({"Password": known.word}, {"PasswordHash": known.password}):
        file.write_text(json.dumps({**record, **wrong}))
        assert known.found_in(quartermaster("import", "users", file).output) == set()
    reset = {"Code": known.code, "ExpiresAt": NOW, "Failures": 0}
    real_db.users.update_one({}, {"$set": {"Reset": reset}})
    token = quartermaster("token", "Zoe").stdout.strip()
    stored_hash = real_db.users.find_one()["PasswordHash"]
    known.add(token, stored_hash, real_db.refresh_tokens.find_one()["_id"])
    # An export is a copy of the accounts, hashes included; codes and tokens are left out.
    assert known.found_in(quartermaster("export", "users").output) == {stored_hash}
