"""The second factor at the token endpoint: asked for, used once, limited, reset, kept secret."""

from __future__ import annotations

import email
import email.policy
import json
from concurrent.futures import ThreadPoolExecutor

import pyotp
import pytest

from app.core.permissions import Role
from app.storage.client import Storage
from app.storage.limits import MINUTE, Limit, Limits
from app.users.mail import Mailer, MailNotSent
from app.users.second_factor.domain import new_recovery_codes
from app.users.second_factor.vault import Vault
from app.users.store import Users
from tests.applications import replace_service, service
from tests.factories import (
    guid,
    make_factor,
    make_key,
    make_role,
    new_secret,
    sha256,
    with_keys,
)

TOKEN = "/api/oauth/token"
USERS = "/api/v1/users"
SECRET = pyotp.random_base32()
CODES = new_recovery_codes()
MANAGE = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)


@pytest.fixture
def factor(app):
    return make_factor(SECRET, service(app, Vault), CODES)


@pytest.fixture
def alice(world, factor):
    return world.add_user("secret", roles=(Role.API,), Name="Alice", SecondFactor=factor)


@pytest.fixture
def code(app):
    """Return the code that the app shows some steps from now, by the database's clock."""
    now = service(app, Users).now
    return lambda steps=0: pyotp.TOTP(SECRET).at(now(), counter_offset=steps)


@pytest.fixture
def sign_in(client):
    def sign_in(otp=None, name="Alice", password="secret"):
        body = {"grant_type": "password", "username": name, "password": sha256(password)}
        return client.post(TOKEN, data={**body, **({} if otp is None else {"otp": otp})})

    return sign_in


def refusal(answer):
    assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant"), answer.json
    assert answer.json["error_description"] == answer.json["Message"]
    return answer.json["error_description"]


def test_an_account_without_one_notices_nothing(world, sign_in):
    world.add_user("secret", roles=(Role.API,), Name="Bob")
    for otp in (None, "", "123456"):
        assert sign_in(otp, "Bob").status_code == 200


def test_the_token_endpoint_asks_for_a_code_and_takes_each_once(alice, sign_in, code):
    for missing in (None, ""):
        asked = refusal(sign_in(missing))
        assert asked.startswith("This account needs a code")
        assert "API key" in asked
    now = code()
    assert sign_in(now).status_code == 200
    assert "already used" in refusal(sign_in(now))
    assert "check the clock" in refusal(sign_in(code(-10)))
    assert sign_in(CODES[0].lower()).status_code == 200
    assert "wrong" in refusal(sign_in(CODES[0]))


def test_a_wrong_password_says_nothing_about_the_second_factor(alice, sign_in, code):
    assert refusal(sign_in(code(), password="x")) == "The username or the password is wrong."
    # The code was not used up.
    assert sign_in(code()).status_code == 200


def test_a_refresh_token_needs_no_code(client, alice, sign_in, code):
    token = sign_in(code()).json["refresh_token"]
    body = {"grant_type": "refresh_token", "refresh_token": token}
    assert client.post(TOKEN, json=body).status_code == 200


def test_guesses_are_limited_as_those_of_passwords_are(app, alice, sign_in, code):
    for _ in range(app.config["ACCOUNT_FAILURES"]):
        assert sign_in("000000").status_code == 400
    locked = sign_in(code())
    assert (locked.status_code, "Retry-After" in locked.headers) == (429, True)


def test_of_sixteen_at_once_with_one_code_one_signs_in(app, make_app, settings, alice, code):
    """Whichever worker each of them comes to."""
    is_mock = service(app, Storage).is_mock
    workers = [app] if is_mock else [app, make_app(settings), make_app(settings)]
    limits = dict.fromkeys(("account", "address"), Limit(1000, 10 * MINUTE))
    for worker in workers:
        replace_service(worker, Limits(service(worker, Storage), limits))
    body = {"grant_type": "password", "username": "Alice", "password": sha256("secret")}

    def post(otp, number):
        client, status = workers[number % len(workers)].test_client(), 503
        while status == 503:  # busy, which says nothing about the code
            status = client.post(TOKEN, data={**body, "otp": otp}).status_code
        return status

    for otp in (code(), CODES[5]):
        with ThreadPoolExecutor(16) as pool:
            assert sorted(pool.map(post, [otp] * 16, range(16))) == [200, *[400] * 15]


def test_a_used_recovery_code_is_in_history_and_no_secret_is_anywhere(
    client, db, alice, sign_in, as_role, app
):
    assert sign_in(CODES[1]).status_code == 200
    (entry,) = client.get(f"{USERS}/Alice/history", headers=as_role(*MANAGE)).json["Values"]
    assert entry["Operation"] == "use-recovery-code"
    assert entry["Changes"] == [{"Path": "SecondFactor", "Before": None, "After": None}]
    assert entry["By"]["Name"] == "Alice"
    told = client.get(f"{USERS}/Alice/personal-data", headers=as_role(*MANAGE)).text
    told += json.dumps(client.get(f"{USERS}/Alice", headers=as_role(*MANAGE)).json)
    told += str(list(db.history.find()))
    stored = db.users.find_one({"Name": "Alice"})["SecondFactor"]
    for secret in (SECRET, stored["Secret"], *stored["RecoveryCodes"], *CODES):
        assert secret not in told


@pytest.fixture
def reset(client, as_role):
    headers = as_role(*MANAGE)
    return lambda name="Alice": client.delete(f"{USERS}/{name}/second-factor", headers=headers)


def test_a_lost_factor_is_reset_with_an_entry_and_a_mail(
    client, db, alice, sign_in, reset, data_dir, as_role
):
    answer = reset()
    assert answer.json == {"username": "Alice", "MailSent": True}
    assert answer.headers["X-History-Id"]
    assert sign_in().status_code == 200
    (file,) = (data_dir / "outbox").glob("*.eml")
    mail = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    assert (mail["To"], "was reset" in mail["Subject"]) == (alice["Email"], True)
    assert "your password alone" in mail.get_body().get_content().replace("\n", " ")
    again = reset()
    assert (again.status_code, again.json["Message"]) == (
        *(409, "This account has no second factor."),
    )
    assert reset("nobody").status_code == 404


def test_a_mail_that_fails_does_not_undo_the_reset_and_is_told(app, alice, sign_in, reset):
    def fail(*_, **__):
        raise MailNotSent("The mail server is away.")

    service(app, Mailer).send = fail
    assert reset().json == {"username": "Alice", "MailSent": False}
    assert sign_in().status_code == 200


def test_an_address_that_gets_no_mail_is_told(db, alice, reset):
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Email": "nowhere"}})
    assert reset().json["MailSent"] is False


def test_nobody_resets_that_of_somebody_who_may_do_more(client, world, db, alice):
    db.roles.insert_one(make_role("lead", "users.read", "staff.manage"))
    lead = world.add_user(Roles=["lead"])
    answer = client.delete(f"{USERS}/Alice/second-factor", headers=world.headers(user=lead))
    assert answer.status_code == 403
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": False}})
    answer = client.delete(f"{USERS}/Alice/second-factor", headers=world.headers(user=lead))
    assert answer.status_code == 200


def test_nobody_resets_their_own_and_no_key_anybodys(client, world, factor):
    own = world.add_user("secret", roles=MANAGE, SecondFactor=factor)
    path = f"{USERS}/{own['_id']}/second-factor"
    answer = client.delete(path, headers=world.headers(user=own))
    assert (answer.status_code, "with a code" in answer.json["Message"]) == (409, True)
    assert client.delete(path, headers=world.key_headers()).status_code == 403


def test_an_erasure_removes_it_at_once(client, db, alice, as_role):
    body = {"Confirm": "Alice"}
    client.post(f"{USERS}/Alice/erase", json=body, headers=as_role(*MANAGE))
    stored = db.users.find_one({"_id": alice["_id"]}) or {}
    assert stored.get("SecondFactor") is None


def test_a_role_that_requires_one_ends_older_tokens_until_there_is_one(
    app, client, db, world, factor
):
    """Keys are for programs, which have no second factor."""
    bob = world.add_user("secret", roles=(Role.API,), Name="Bob")
    secret = new_secret()
    keyed = with_keys(bob, **{guid(): make_key(secret, ("players.read",))})
    db.users.replace_one({"_id": bob["_id"]}, keyed)
    token, key = world.headers(user=bob), {"Authorization": f"Bearer {secret}"}

    def answers(headers, path):
        return client.get(f"/api/v1/{path}", headers=headers)

    assert answers(token, "players").status_code == 200
    db.roles.insert_one(make_role("guards", "users.read", NeedsSecondFactor=True))
    db.users.update_one({"_id": bob["_id"]}, {"$set": {"Roles": ["guards"]}})
    for path in ("players", "users", "info/limits"):
        refused = answers(token, path)
        assert (refused.status_code, refused.json["Code"]) == (403, "FACTOR_REQUIRED"), path
    assert refused.json["Message"] == (
        "A role of your account requires a second factor: set it up at the console first."
    )
    assert answers(key, "players").status_code == 200
    db.users.update_one({"_id": bob["_id"]}, {"$set": {"SecondFactor": factor}})
    assert answers(token, "users").status_code == 200
