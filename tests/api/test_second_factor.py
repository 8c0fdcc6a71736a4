"""The second factor at the token endpoint: asked for, used once, limited, reset, kept secret."""

from __future__ import annotations

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
from tests.callers import Caller, bearer
from tests.factories import guid, make_factor, make_key, make_role, new_secret, sha256, with_keys
from tests.mongod import on_mongodb

SECRET = pyotp.random_base32()
CODES = new_recovery_codes()


@pytest.fixture
def factor(app):
    return make_factor(SECRET, service(app, Vault), CODES)


@pytest.fixture
def alice(world, factor):
    return world.add_user("secret", roles=(Role.API,), Name="Alice", SecondFactor=factor)


@pytest.fixture
def code(app):
    """Return the code that the app shows now, by the database's clock."""
    return lambda: pyotp.TOTP(SECRET).at(service(app, Users).now())


def refusal(answer):
    assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant"), answer.json
    return answer.json["error_description"]


def test_the_token_endpoint_asks_for_a_code_and_takes_each_once(
    alice, sign_in, refresh, code, world
):
    for missing in ({}, {"otp": ""}):
        asked = refusal(sign_in(**missing))
        assert asked.startswith("This account needs a code")
        assert "API key" in asked
    now = code()
    # With a wrong password, the code is not used up.
    assert refusal(sign_in(password="x", otp=now)) == "The username or the password is wrong."
    tokens = sign_in(otp=now).json
    assert "already used" in refusal(sign_in(otp=now))
    assert sign_in(otp=CODES[0].lower()).status_code == 200
    assert "wrong" in refusal(sign_in(otp=CODES[0]))
    assert refresh(tokens["refresh_token"]).status_code == 200
    world.add_user("secret", roles=(Role.API,), Name="Bob")
    assert sign_in("Bob", otp="123456").status_code == 200


def test_guesses_are_limited_as_those_of_passwords_are(app, alice, sign_in, code):
    for _ in range(app.config["ACCOUNT_FAILURES"]):
        assert sign_in(otp="000000").status_code == 400
    assert sign_in(otp=code()).status_code == 429


@on_mongodb
def test_of_sixteen_at_once_with_one_code_one_signs_in(app, alice, code):
    limits = dict.fromkeys(("account", "address"), Limit(1000, 10 * MINUTE))
    replace_service(app, Limits(service(app, Storage), limits))
    body = {"grant_type": "password", "username": "Alice", "password": sha256("secret")}

    def post(otp):
        status = 503
        while status == 503:  # busy, which says nothing about the code
            answer = app.test_client().post("/api/oauth/token", json={**body, "otp": otp})
            status = answer.status_code
        return status

    for otp in (code(), CODES[5]):
        with ThreadPoolExecutor(16) as pool:
            assert sorted(pool.map(post, [otp] * 16)) == [200, *[400] * 15]


def test_a_used_recovery_code_is_in_history_and_no_secret_is_anywhere(db, alice, sign_in, staff):
    assert sign_in(otp=CODES[1]).status_code == 200
    (entry,) = staff("GET users/Alice/history").json["Values"]
    assert (entry["Operation"], entry["By"]["Name"]) == ("use-recovery-code", "Alice")
    assert entry["Changes"] == [{"Path": "SecondFactor", "Before": None, "After": None}]
    told = staff("GET users/Alice/personal-data").text + staff("GET users/Alice").text
    told += str(list(db.history.find()))
    stored = db.users.find_one({"Name": "Alice"})["SecondFactor"]
    for secret in (SECRET, stored["Secret"], *stored["RecoveryCodes"], *CODES):
        assert secret not in told


RESET = "DELETE users/Alice/second-factor"


def test_a_lost_factor_is_reset_with_an_entry_and_a_mail(alice, sign_in, staff, mails):
    answer = staff(RESET)
    assert answer.json == {"username": "Alice", "MailSent": True}
    assert answer.headers["X-History-Id"]
    assert sign_in().status_code == 200
    (mail,) = mails()
    assert (mail["To"], "was reset" in mail["Subject"]) == (alice["Email"], True)
    assert "your password alone" in mail.get_body().get_content().replace("\n", " ")
    assert staff(RESET, status=409).json["Message"] == "This account has no second factor."


def fail(*_, **__):
    raise MailNotSent("The mail server is away.")


@pytest.mark.parametrize("address", ["alice@example.com", "nowhere"])
def test_a_mail_that_fails_does_not_undo_the_reset_and_is_told(
    app, db, alice, sign_in, staff, address
):
    if "@" in address:
        service(app, Mailer).send = fail
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Email": address}})
    assert staff(RESET).json == {"username": "Alice", "MailSent": False}
    assert sign_in().status_code == 200


def test_it_is_reset_by_peers_alone_and_neither_by_its_owner_nor_by_a_key(
    person, with_key, staff, db, alice, factor
):
    lead = person("Lead", ["users.read", "staff.manage"])
    lead(RESET, status=403)
    with_key()(RESET, status=403)
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": False}})
    lead(RESET)
    db.users.update_one({"_id": staff.user["_id"]}, {"$set": {"SecondFactor": factor}})
    assert "with a code" in staff("DELETE users/Clerk/second-factor", status=409).json["Message"]


def test_a_role_that_requires_one_ends_older_tokens_until_there_is_one(
    client, caller_of, db, world, factor
):
    """Keys are for programs, which have no second factor."""
    secret = new_secret()
    bob = with_keys(world.add_user(Name="Bob"), **{guid(): make_key(secret, ("players.read",))})
    db.roles.insert_one(make_role("guards", "players.read", "users.read", NeedsSecondFactor=True))
    db.users.replace_one({"_id": bob["_id"]}, {**bob, "Roles": ["guards"]})
    token = caller_of(bob)
    for path in ("players", "users", "info/limits"):
        refused = token(f"GET {path}", status=403).json
        assert refused["Code"] == "FACTOR_REQUIRED", path
    assert refused["Message"] == (
        "A role of your account requires a second factor: set it up at the console first."
    )
    Caller(client, bearer(secret), "/api/v1/")("GET players")
    db.users.update_one({"_id": bob["_id"]}, {"$set": {"SecondFactor": factor}})
    token("GET users")
