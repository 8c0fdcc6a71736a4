"""Signing in at the console with a company account, at a real provider."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
import requests
from joserfc import jwt

from app.cli.intents import run as run_command
from app.cli.staff import staff as staff_command
from app.console.session import sign_in as sign_in_views
from app.core.permissions import Role
from app.users.openid.provider import Provider
from app.users.second_factor.domain import new_recovery_codes
from app.users.second_factor.vault import Vault
from app.users.staff.store import Roles
from tests.api.test_console_second_factor import type_code
from tests.applications import service
from tests.console_visitor import PASSWORD, TOKEN, Visitor, fields_in, page_of
from tests.factories import NOW, make_factor, sha256
from tests.mongod import on_mongodb
from tests.openid_provider import ANNA, claims_of, new_key, running

COOKIE = "quartermaster-company"
UNVERIFIED = "could not be verified"
STALE = "took too long, or is already finished"
DOWN = "does not answer at the moment"
NO_ROLE = "has no role"


@pytest.fixture(scope="module")
def running_provider():
    with running() as provider:
        yield provider


@pytest.fixture
def provider(running_provider):
    """The provider, as it began."""
    running_provider.reset()
    return running_provider


@pytest.fixture
def settings(settings, provider):
    vars(settings).update(provider.settings())
    return settings


@pytest.fixture
def anna(world, provider):
    """An account that is linked to Anna's company account."""
    identity = {"Issuer": provider.issuer, "Subject": ANNA["sub"]}
    return world.add_user(PASSWORD, roles=(Role.API,), Name="anna", OpenId=identity)


@pytest.fixture
def stored(db):
    """Return the account of Anna as it is stored."""
    return lambda: db.users.find_one({"OpenId.Subject": ANNA["sub"]})


def configure(app, **settings):
    app.config.update(settings)
    vars(service(app, Provider)._settings).update(settings)


def begin(browser, query=""):
    """Begin a sign-in, and return the address at the provider."""
    answer = browser.get(f"/sign-in/company{query}")
    assert answer.status_code == 303, page_of(answer)
    return answer.headers["Location"]


def query_of(url):
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


def decide(url, answer="yes"):
    """Decide at the provider, and return the path to which it sends the browser."""
    sent = requests.post(url, data={"answer": answer}, allow_redirects=False, timeout=60)
    parts = urlsplit(sent.headers["Location"])
    return f"{parts.path}?{parts.query}".removeprefix("/console")


def sign_in(browser, sentence=None, status=403):
    """Sign in, which succeeds or is refused with this sentence."""
    answer = browser.get(decide(begin(browser)))
    assert answer.status_code == (status if sentence else 303), page_of(answer)
    if sentence:
        assert sentence in page_of(answer)
        assert not is_signed_in(browser)


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def give_factor(app, db, user):
    """Give an account a second factor, and return a code of it."""
    codes = new_recovery_codes()
    factor = make_factor(pyotp.random_base32(), service(app, Vault), codes)
    db.users.update_one({"_id": user["_id"]}, {"$set": {"SecondFactor": factor}})
    return codes[0]


def test_a_company_account_begins_a_session_that_says_so(browser, anna, caller_of):
    page = browser.get("/sign-in?back=/console/players").text
    assert "Sign in with your company account" in page
    assert "/console/sign-in/company?back=%2Fconsole%2Fplayers" in page
    url = begin(browser, "?back=/console/players")
    asked = query_of(url)
    assert asked["code_challenge_method"] == "S256"
    assert set(asked["scope"].split()) == {"openid", "profile", "email", "groups"}
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    assert browser.get(decide(url)).headers["Location"] == "/console/players"
    assert "company account" in browser.read("/sign-ins")
    path = "/api/oauth/sign-ins/anna"
    listed = browser.app.test_client().get(path, headers=caller_of(anna).headers).json
    assert {value["Method"] for value in listed["Values"]} == {"openid", None}
    answer = browser.get(decide(begin(browser, "?back=https://evil.example")))
    assert answer.headers["Location"] == "/console"


def test_without_a_provider_there_is_no_such_page(app, browser):
    configure(app, OPENID_ISSUER=None)
    assert "company account" not in browser.get("/sign-in").text
    for path in ("/sign-in/company", "/sign-in/company/callback"):
        assert browser.get(path).status_code == 404


def forge(provider, **claims):
    """Let ID tokens have other claims, or not have those that are None."""

    def forged(token):
        named = {**claims_of(token), **claims}
        return provider.sign({name: value for name, value in named.items() if value is not None})

    provider.forge = forged


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1_000_000_000},
        {"aud": "shop"},
        {"iss": "http://evil.example"},
        {"nonce": "replayed"},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
    ],
    ids=str,
)
def test_a_token_with_wrong_claims_is_refused(browser, anna, provider, claims):
    forge(provider, **claims)
    sign_in(browser, UNVERIFIED)


def hs256_with_public_key(claims, provider):
    """Joserfc refuses to sign with such a key, so this is done by hand."""
    key = provider.key.as_pem(private=False)
    header, body = (
        base64.urlsafe_b64encode(text).decode().rstrip("=")
        for text in (b'{"alg": "HS256", "kid": "first"}', json.dumps(claims).encode())
    )
    signature = base64.urlsafe_b64encode(hmac.digest(key, f"{header}.{body}".encode(), "sha256"))
    return f"{header}.{body}.{signature.decode().rstrip('=')}"


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize(
    "sign",
    [
        lambda claims, provider: provider.sign(claims, new_key()),
        lambda claims, provider: provider.sign(claims, new_key("unknown")),
        lambda claims, provider: jwt.encode({"alg": "none"}, claims, None, ["none"]),
        hs256_with_public_key,
    ],
)
def test_a_forged_token_is_refused_and_a_good_one_works_after_it(browser, anna, provider, sign):
    provider.forge = lambda token: sign(claims_of(token), provider)
    sign_in(browser, UNVERIFIED)
    provider.forge = None
    sign_in(browser)


def test_an_answer_works_once_and_in_one_browser(app, browser, anna, provider):
    provider.keeps_codes = True
    path, other = decide(begin(browser)), Visitor(app)
    kept = browser.cookie(COOKIE).value
    assert STALE in page_of(other.get(path))
    begin(other)
    assert STALE in page_of(other.get(path)), "the state of another sign-in"
    for cookie, status in ((f"x{kept}", 403), (kept, 303), (None, 403), (kept, 403)):
        if cookie:
            browser._client.set_cookie(COOKIE, cookie, path="/console")
        answer = browser.get(path)
        assert (answer.status_code, STALE in page_of(answer)) == (status, status == 403)
    assert browser.cookie(COOKIE) is None


def test_a_code_that_the_provider_has_accepted_before_is_refused(browser, anna):
    """Another sign-in of the same browser, with the code of the first."""
    used = query_of(path := decide(begin(browser)))["code"]
    assert browser.get(path).status_code == 303
    path = re.sub("code=[^&]+", f"code={used}", decide(begin(browser)))
    assert UNVERIFIED in page_of(browser.get(path))


def test_a_sign_in_that_takes_too_long_is_refused(browser, anna, monkeypatch):
    path = decide(begin(browser))
    monkeypatch.setattr(sign_in_views, "COMPANY_SECONDS", -1)
    assert STALE in page_of(browser.get(path))


def test_whoever_cancels_at_the_provider_comes_back_to_the_sign_in(browser, anna):
    answer = browser.get(decide(begin(browser), "no"))
    assert answer.status_code == 403
    assert "You cancelled the sign-in" in page_of(answer)
    assert 'name="password"' in answer.text
    assert not is_signed_in(browser)


def test_a_provider_that_is_down_leaves_the_way_with_a_password(browser, anna, provider):
    for fault in ({"broken": {"openid-configuration"}}, {"cut": {"openid-configuration"}}):
        provider.reset(**fault)
        answer = browser.get("/sign-in/company")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert DOWN in page_of(answer)
        assert 'name="password"' in answer.text
    for part in ("token", "jwks"):
        provider.reset()
        path = decide(begin(browser))
        provider.reset(broken={part})
        assert DOWN in page_of(browser.get(path))
        assert not is_signed_in(browser)
    provider.reset()
    sign_in(browser)


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://localhost:1"},
        {"token_endpoint": "ftp://localhost/token"},
        {"authorization_endpoint": None},
    ],
)
def test_a_provider_that_publishes_nonsense_is_refused(browser, provider, wrong):
    provider.metadata = wrong
    answer = browser.get("/sign-in/company")
    assert (answer.status_code, UNVERIFIED in page_of(answer)) == (403, True)


def test_a_new_key_of_the_provider_is_fetched_once(app, browser, anna, provider):
    sign_in(browser)
    old, provider.key = provider.key, new_key("second")
    sign_in(browser)
    provider.key, provider.published = old, [provider.key]
    sign_in(Visitor(app), UNVERIFIED)


def test_claims_may_come_from_userinfo_but_only_of_the_same_person(app, browser, anna, provider):
    configure(app, OPENID_GROUP_ROLES=["leads=support"])
    provider.person = {"sub": ANNA["sub"]}
    provider.more = {"sub": "somebody else", "groups": ["leads"]}
    sign_in(browser, UNVERIFIED)
    provider.more = {"sub": ANNA["sub"], "groups": ["leads"]}
    sign_in(browser)


def test_only_issuer_and_subject_identify(browser, world):
    world.add_user(PASSWORD, roles=(Role.API,), Name="anna", Email=ANNA["email"])
    identity = {"Issuer": "http://other.example", "Subject": ANNA["sub"]}
    world.add_user(roles=(Role.API,), Name="other", OpenId=identity)
    sign_in(browser, f"link one to the subject {ANNA['sub']}")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"IsBanned": True, "BannedUntil": None}, "This account is banned"),
        ({"IsDisabled": True}, "This account is disabled"),
        ({"Power.Api": False}, NO_ROLE),
    ],
)
def test_a_banned_account_and_one_without_access_stay_out(browser, db, anna, fields, sentence):
    db.users.update_one({"_id": anna["_id"]}, {"$set": fields})
    sign_in(browser, sentence)


def test_an_account_with_a_second_factor_is_asked_for_its_code_too(app, browser, db, anna):
    code = give_factor(app, db, anna)
    step = browser.get(decide(begin(browser)))
    assert (step.status_code, "Second factor" in page_of(step)) == (200, True)
    assert not is_signed_in(browser)
    assert type_code(browser, step, code).status_code == 303
    assert "company account" in browser.read("/sign-ins")


@pytest.fixture
def creating(app):
    configure(app, OPENID_CREATES_ACCOUNTS=True)


def test_the_first_sign_in_creates_an_account_without_a_password(
    app, browser, world, db, creating, staff, stored
):
    world.add_user(Name="anna")
    sign_in(browser, NO_ROLE)
    user = stored()
    assert (user["Name"], user["Email"], user["PasswordHash"]) == ("anna2", ANNA["email"], None)
    (entry,) = db.history.find({"Subject.Id": user["_id"]})
    assert (entry["Operation"], entry["Via"]) == ("create-by-company", "console")
    assert ANNA["sub"] not in str(entry)
    db.users.update_one({"_id": user["_id"]}, {"$set": {"Power.Api": True}})
    sign_in(browser)
    assert db.users.count_documents({"OpenId": {"$exists": True}}) == 1
    for password in ("", "None", sha256("")):
        assert Visitor(app).sign_in("anna2", password).status_code == 400
    reset = staff("GET users/anna2/password/reset", status=409)
    assert "signs in with a company account" in reset.text


@on_mongodb
def test_many_first_sign_ins_of_one_person_create_one_account(app, db, creating):
    browsers = [Visitor(app) for _ in range(6)]
    paths = [decide(begin(browser)) for browser in browsers]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(Visitor.get, browsers, paths))
    assert {answer.status_code for answer in answers} <= {403, 503}
    assert db.users.count_documents({}) == 1
    sign_in(Visitor(app), NO_ROLE)


def test_an_account_is_not_created_for_everybody(app, browser, world, provider, creating, stored):
    provider.person["email_verified"] = False
    sign_in(browser, "has no verified email address")
    del provider.person["email_verified"]
    configure(app, OPENID_GROUP_ROLES=["leads=support"])
    sign_in(browser, "in none of the groups")
    configure(app, OPENID_GROUP_ROLES=[])
    world.add_user(Name="somebody", Email=ANNA["email"])
    sign_in(browser, "already has your email address")
    assert stored() is None


def test_roles_follow_the_groups_at_each_sign_in(app, browser, db, anna, provider, stored):
    pairs = ["leads=support", "mods=moderator", "leads=nonsense"]
    configure(app, OPENID_GROUP_ROLES=pairs)
    # Others may have seen it before the account was one of staff.
    code = {"Code": "ABCDEFGH", "ExpiresAt": NOW.replace(year=2100), "Failures": 0}
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"Reset": code}})
    for groups, roles in (
        (["leads", "mods"], ["moderator", "support"]),
        (["leads", "mods"], ["moderator", "support"]),
        ("leads", ["support"]),
        (["unknown"], []),
    ):
        provider.person["groups"] = groups
        sign_in(browser)
        assert stored()["GroupRoles"] == roles
    entries = list(db.history.find({"Operation": "set-group-roles"}))
    assert len(entries) == 3, "only a difference is a change"
    assert stored()["Reset"] is None
    assert {entry["By"]["UserId"] for entry in entries} == {anna["_id"]}
    assert "roles that do not exist, and give nothing: nonsense." in browser.read("/health")


def test_groups_do_not_remove_the_last_administrator(
    app, browser, db, anna, world, stored, monkeypatch
):
    configure(app, OPENID_GROUP_ROLES=["admins=administrator"])
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"GroupRoles": ["administrator"]}})
    sign_in(browser)
    assert stored()["GroupRoles"] == ["administrator"]
    world.add_user(PASSWORD, Roles=["administrator"])
    # While passwords are off, somebody who only has one cannot manage staff.
    with monkeypatch.context() as passwords_off:
        passwords_off.setattr(service(app, Roles), "ways_in", ("OpenId",))
        sign_in(browser)
    assert stored()["GroupRoles"] == ["administrator"]
    sign_in(browser)
    assert stored()["GroupRoles"] == []


def test_another_link_ends_the_sign_ins_of_the_former_person(app, browser, anna):
    sign_in(browser)
    app.test_cli_runner().invoke(run_command, ["unlink-company-account", "anna"])
    assert not is_signed_in(browser)


def test_a_group_alone_opens_the_console_and_only_as_far_as_its_role(
    app, browser, provider, creating
):
    configure(app, OPENID_GROUP_ROLES=["mods=moderator"])
    provider.person["groups"] = ["mods"]
    sign_in(browser)
    assert is_signed_in(browser)
    assert browser.get("/batches/new").status_code == 403
    provider.person["groups"] = []
    sign_in(Visitor(app), NO_ROLE)
    # The session that is open ends with the role.
    assert not is_signed_in(browser)


KEY = {"Name": "shop", "may-players.read": "true"}


def make_key(browser, status):
    """Send a sensitive form, with a token of the session of now."""
    browser._token = None
    return browser.submit("/keys", status, **KEY)


def test_a_sensitive_form_asks_the_provider_again_or_for_a_code(app, browser, anna, provider, db):
    """The provider says when it asked last, which may be long before the sign-in."""
    provider.claims = {"auth_time": int(time.time()) - 16 * 60}
    sign_in(browser)
    asked = make_key(browser, 403)
    assert "Sign in again with your company account" in page_of(asked)
    assert "password" not in page_of(asked)
    path = re.search('href="/console([^"]+again=1)"', asked.text)[1].replace("&amp;", "&")
    query = path.removeprefix("/sign-in/company")
    sent = query_of(begin(browser, query))
    assert (sent["prompt"], sent["max_age"]) == ("login", "0")
    now = int(time.time())
    for at, status in ((now + 36_000, 403), (now + 50, 200)):
        provider.claims = {"auth_time": at}
        assert browser.get(decide(begin(browser, query))).headers["Location"] == "/console/keys"
        make_key(browser, status)
    code = give_factor(app, db, anna)
    db.refresh_tokens.update_many({}, {"$set": {"ProvedAt": NOW}})
    asked = browser.submit("/keys", 403, **{**KEY, "Name": "other"})
    assert 'name="own-password"' not in asked.text
    fields = {**fields_in(asked, "form[action$='/keys']"), "own-code": code}
    assert "The key other was created" in page_of(browser.send("/keys", fields))


def test_without_a_time_of_the_provider_only_a_sign_in_on_request_is_a_proof(
    browser, anna, provider
):
    forge(provider, auth_time=None)
    for query, status in (("", 403), ("?again=1", 200)):
        browser.get(decide(begin(browser, query)))
        make_key(browser, status)


def test_a_provider_that_sends_times_must_send_one_on_request(browser, anna, provider):
    """It is missing if somebody has removed max_age from the address."""
    provider.metadata = {"claims_supported": ["auth_time"]}
    forge(provider, auth_time=None)
    sign_in(browser)
    assert UNVERIFIED in page_of(browser.get(decide(begin(browser, "?again=1"))))


@pytest.fixture
def send_password(app):
    """Send a password to a page of sign-in that was loaded while passwords were on."""
    other = Visitor(app)
    token = TOKEN.search(other.get("/sign-in").text)[1]
    fields = {"token": token, "username": "anna"}
    return lambda password: other.send("/sign-in", {**fields, "password": password})


def test_with_passwords_off_only_the_company_account_opens(
    app, browser, anna, client, send_password
):
    configure(app, STAFF_PASSWORDS=False)
    page = browser.get("/sign-in").text
    assert 'name="password"' not in page
    assert "Sign in with your company account" in page
    answer = send_password(PASSWORD)
    assert (answer.status_code, "Passwords are off for staff" in page_of(answer)) == (403, True)
    form = {"grant_type": "password", "username": "anna"}
    for password, error in ((PASSWORD, "access_denied"), ("wrong", "invalid_grant")):
        body = {**form, "password": sha256(password)}
        assert client.post("/api/oauth/token", json=body).json["error"] == error
    sign_in(browser)


def test_a_rescued_account_signs_in_although_passwords_are_off(
    app, browser, anna, send_password, pass_time
):
    configure(app, STAFF_PASSWORDS=False)
    rescue = app.test_cli_runner().invoke(staff_command, ["rescue", "anna"])
    assert "for an hour: open /console/sign-in?password=1" in rescue.output
    assert 'name="password"' in browser.get("/sign-in?password=1").text
    assert 'name="password"' in send_password("x").text
    assert send_password(PASSWORD).status_code == 303
    pass_time(hours=1)
    assert "Passwords are off" in page_of(send_password(PASSWORD))


def test_no_log_line_holds_a_token_or_a_code(app, browser, anna, provider, caplog):
    caplog.set_level(logging.DEBUG)
    tokens = []
    provider.forge = lambda token: tokens.append(token) or token
    path = decide(begin(browser))
    cookie = browser.cookie(COOKIE).value
    assert browser.get(path).status_code == 303
    provider.forge = lambda token: tokens.append(f"{token}x") or tokens[-1]
    sign_in(Visitor(app), UNVERIFIED)
    # The provider and the person's browser are in the same process here.
    records = [record for record in caplog.records if record.name != "werkzeug"]
    ours = [record for record in records if "/authorize?" not in str(vars(record))]
    lines = "\n".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert {"quartermaster", "urllib3.connectionpool"} <= {record.name for record in ours}
    secrets = [*tokens, cookie, *query_of(path).values()]
    assert [secret for secret in secrets if secret in lines] == []
