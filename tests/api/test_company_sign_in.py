"""Signing in at the console with a company account, at a real provider."""

from __future__ import annotations

import base64
import hmac
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
import requests
from joserfc import jwt
from joserfc.jwk import ECKey

from app.cli.intents import run as run_command
from app.cli.staff import staff
from app.console.session import sign_in as sign_in_views
from app.core.permissions import Role
from app.storage.client import Storage
from app.storage.limits import Marks
from app.users.openid.client import Provider
from app.users.second_factor.domain import new_recovery_codes
from app.users.second_factor.vault import Vault
from app.users.staff.store import Roles
from tests.api.test_console_second_factor import hidden_fields, type_code
from tests.applications import service
from tests.console_visitor import PASSWORD, Visitor, page_of
from tests.factories import NOW, make_factor, sha256
from tests.openid_provider import ANNA, CLIENT_ID, claims_of, new_key, running

CALLBACK = "/sign-in/company/callback"
UNVERIFIED = "could not be verified"
STALE = "took too long, or is already finished"
DOWN = "does not answer at the moment"


@pytest.fixture(scope="module")
def running_provider():
    with running() as provider:
        yield provider


@pytest.fixture
def provider(running_provider):
    """The provider, as it began."""
    vars(running_provider).update(
        person=dict(ANNA),
        claims={},
        forge=None,
        metadata={},
        broken=set(),
        cut=set(),
    )
    vars(running_provider).update(published=None, keeps_codes=False, more=None)
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


def configure(app, **settings):
    app.config.update(settings)
    vars(service(app, Provider)._settings).update(settings)


def begin(browser, back=""):
    """Begin a sign-in, and return the address at the provider."""
    answer = browser.get(f"/sign-in/company?back={back}")
    assert answer.status_code == 303, page_of(answer)
    return answer.headers["Location"]


def decide(url, answer="yes"):
    """Decide at the provider, and return the path to which it sends the browser."""
    sent = requests.post(url, data={"answer": answer}, allow_redirects=False, timeout=60)
    parts = urlsplit(sent.headers["Location"])
    return f"{parts.path}?{parts.query}".removeprefix("/console")


def sign_in(browser):
    return browser.get(decide(begin(browser)))


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def refuse(browser, sentence, status=403):
    """Sign in, which the service must refuse with this sentence."""
    answer = sign_in(browser)
    assert answer.status_code == status, page_of(answer)
    assert sentence in page_of(answer)
    assert not is_signed_in(browser)
    return answer


def test_a_company_account_begins_a_session_that_says_so(browser, anna, client, world):
    page = browser.get("/sign-in?back=/console/players").text
    assert "Sign in with your company account" in page
    assert "/console/sign-in/company?back=%2Fconsole%2Fplayers" in page
    url = begin(browser, "/console/players")
    asked = {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert set(asked["scope"].split()) == {"openid", "profile", "email", "groups"}
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    answer = browser.get(decide(url))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/players")
    assert "company account" in browser.read("/sign-ins")
    listed = client.get("/api/oauth/sign-ins/anna", headers=world.headers(user=anna)).json
    assert {value["Method"] for value in listed["Values"]} == {"openid", None}


def test_a_sign_in_leads_nowhere_but_to_the_console(browser, anna):
    answer = browser.get(decide(begin(browser, "https://evil.example")))
    assert answer.headers["Location"] == "/console"


def test_without_a_provider_there_is_no_such_page(app, browser):
    configure(app, OPENID_ISSUER=None)
    assert "company account" not in browser.get("/sign-in").text
    for path in ("/sign-in/company", CALLBACK):
        assert browser.get(path).status_code == 404


FORGED = {
    "expired": lambda token, p: p.sign({**claims_of(token), "exp": int(time.time()) - 90}),
    "from the future": lambda token, p: p.sign({**claims_of(token), "iat": int(time.time()) + 90}),
    "without an end": lambda token, p: p.sign(without(claims_of(token), "exp")),
    "another audience": lambda token, p: p.sign({**claims_of(token), "aud": "shop"}),
    "another party": lambda token, p: p.sign({**claims_of(token), "azp": "shop"}),
    "two audiences": lambda token, p: p.sign({**claims_of(token), "aud": [CLIENT_ID, "shop"]}),
    "another issuer": lambda token, p: p.sign({**claims_of(token), "iss": "http://evil.example"}),
    "another nonce": lambda token, p: p.sign({**claims_of(token), "nonce": "replayed"}),
    "no nonce": lambda token, p: p.sign(without(claims_of(token), "nonce")),
    "no subject": lambda token, p: p.sign(without(claims_of(token), "sub")),
    "an empty subject": lambda token, p: p.sign({**claims_of(token), "sub": ""}),
    "a subject that is a number": lambda token, p: p.sign({**claims_of(token), "sub": 7}),
    "another key": lambda token, p: p.sign(claims_of(token), new_key()),
    "an unknown key": lambda token, p: p.sign(claims_of(token), new_key("unknown")),
    "alg none": lambda token, p: jwt.encode({"alg": "none"}, claims_of(token), None, ["none"]),
    "HS256 with the public key": lambda token, p: signed_with_public_key(token, p),
    "ES256 with a key of its own": lambda token, p: p.sign(
        claims_of(token), ECKey.generate_key("P-256", {"kid": "first"}), "ES256"
    ),
    "no signature": lambda token, p: token.rpartition(".")[0] + ".",
    "no token": lambda token, p: "nonsense",
    "a number": lambda token, p: 7,
}


def without(claims, name):
    return {key: value for key, value in claims.items() if key != name}


def signed_with_public_key(token, provider):
    """Joserfc refuses to sign with such a key, so this is done by hand."""
    header = base64.urlsafe_b64encode(b'{"alg": "HS256", "kid": "first"}').decode().rstrip("=")
    text = f"{header}.{token.split('.')[1]}"
    public_key = provider.key.as_pem(private=False)
    signature = base64.urlsafe_b64encode(hmac.digest(public_key, text.encode(), "sha256"))
    return f"{text}.{signature.decode().rstrip('=')}"


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_forged_token_is_refused_and_a_good_one_works_after_it(browser, anna, provider, caplog):
    for name, forge in FORGED.items():
        provider.forge = lambda token, forge=forge: forge(token, provider)
        answer = sign_in(browser)
        assert (answer.status_code, UNVERIFIED in answer.text) == (403, True), name
        assert not is_signed_in(browser), name
    provider.forge = None
    assert sign_in(browser).status_code == 303


def test_an_answer_works_once_and_in_one_browser(app, browser, anna, provider):
    provider.keeps_codes = True
    path = decide(begin(browser))
    other = Visitor(app)
    assert STALE in page_of(other.get(path))
    begin(other)
    assert STALE in page_of(other.get(path)), "the state of another sign-in"
    assert browser.get(path).status_code == 303
    again = browser.get(path)
    assert (again.status_code, STALE in page_of(again)) == (403, True)


def test_an_answer_works_once_even_with_a_cookie_that_was_kept(browser, anna, provider):
    provider.keeps_codes = True
    path = decide(begin(browser))
    kept = browser.cookie("quartermaster-company").value
    assert browser.get(path).status_code == 303
    browser._client.set_cookie("quartermaster-company", kept, path="/console")
    assert STALE in page_of(browser.get(path))
    assert browser.cookie("quartermaster-company") is None


def test_a_code_that_the_provider_has_accepted_before_is_refused(browser, anna, provider):
    """Another sign-in of the same browser, with the code of the first."""
    used = parse_qs(urlsplit(path := decide(begin(browser))).query)["code"][0]
    assert browser.get(path).status_code == 303
    path = re.sub("code=[^&]+", f"code={used}", decide(begin(browser)))
    assert UNVERIFIED in page_of(browser.get(path))


def test_a_sign_in_that_takes_too_long_is_refused(browser, anna, monkeypatch):
    path = decide(begin(browser))
    monkeypatch.setattr(sign_in_views, "COMPANY_SECONDS", -1)
    assert STALE in page_of(browser.get(path))


def test_a_forged_cookie_is_refused(browser, anna):
    path = decide(begin(browser))
    kept = browser.cookie("quartermaster-company").value
    browser._client.set_cookie("quartermaster-company", f"x{kept}", path="/console")
    assert STALE in page_of(browser.get(path))


def test_whoever_cancels_at_the_provider_comes_back_to_the_sign_in(browser, anna):
    answer = browser.get(decide(begin(browser), "no"))
    assert answer.status_code == 403
    assert "You cancelled the sign-in" in page_of(answer)
    assert 'name="password"' in answer.text
    assert not is_signed_in(browser)


def test_a_provider_that_is_down_leaves_the_way_with_a_password(app, browser, anna, provider):
    provider.broken = {"openid-configuration"}
    answer = browser.get("/sign-in/company")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert DOWN in page_of(answer)
    assert 'name="password"' in answer.text
    for part in ("token", "jwks"):
        provider.broken = set()
        path = decide(begin(browser))
        provider.broken = {part}
        answer = browser.get(path)
        assert (answer.status_code, DOWN in page_of(answer)) == (503, True), part
        assert not is_signed_in(browser)
    provider.broken = set()
    assert sign_in(browser).status_code == 303


def test_a_provider_that_is_not_listening_or_ends_amid_an_answer_is_down(app, browser, provider):
    provider.cut = {"openid-configuration"}
    assert DOWN in page_of(browser.get("/sign-in/company"))
    configure(app, OPENID_ISSUER="http://localhost:9")
    assert DOWN in page_of(browser.get("/sign-in/company"))


def test_a_provider_that_publishes_nonsense_is_refused(browser, provider, caplog):
    for wrong in (
        {"issuer": "http://localhost:1"},
        {"token_endpoint": "ftp://localhost/token"},
        {"authorization_endpoint": None},
    ):
        provider.metadata = wrong
        answer = browser.get("/sign-in/company")
        assert (answer.status_code, UNVERIFIED in page_of(answer)) == (403, True), wrong
    assert "not QM_OPENID_ISSUER" in caplog.text


def test_a_new_key_of_the_provider_is_fetched_once(browser, anna, provider):
    assert sign_in(browser).status_code == 303
    old, provider.key = provider.key, new_key("second")
    assert sign_in(browser).status_code == 303
    provider.key, provider.published = old, [provider.key]
    refuse(Visitor(browser.app), UNVERIFIED)


def test_claims_may_come_from_userinfo_but_only_of_the_same_person(app, browser, anna, provider):
    configure(app, OPENID_GROUP_ROLES=["leads=support"])
    provider.person = {"sub": ANNA["sub"]}
    provider.more = {"sub": "somebody else", "groups": ["leads"]}
    refuse(browser, UNVERIFIED)
    provider.more = {"sub": ANNA["sub"], "groups": ["leads"]}
    assert sign_in(browser).status_code == 303


def test_only_issuer_and_subject_identify(browser, world, provider):
    world.add_user(PASSWORD, roles=(Role.API,), Name="anna", Email=ANNA["email"])
    identity = {"Issuer": "http://other.example", "Subject": ANNA["sub"]}
    world.add_user(roles=(Role.API,), Name="other", OpenId=identity)
    refuse(browser, f"link one to the subject {ANNA['sub']}")
    provider.person["sub"] = "x" * 256
    refuse(browser, UNVERIFIED)


def test_a_banned_account_and_one_without_access_stay_out(browser, world, db, anna):
    ban = {"IsBanned": True, "BanReason": "x", "BannedBy": "y", "BannedUntil": None}
    db.users.update_one({"_id": anna["_id"]}, {"$set": ban})
    refuse(browser, "This account is banned")
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"IsBanned": False, "IsDisabled": True}})
    refuse(browser, "This account is disabled")
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"IsDisabled": False, "Power.Api": False}})
    refuse(browser, "has no role")


def test_an_account_with_a_second_factor_is_asked_for_its_code_too(app, browser, db, anna):
    codes = new_recovery_codes()
    factor = make_factor(pyotp.random_base32(), service(app, Vault), codes)
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"SecondFactor": factor}})
    step = browser.get(decide(begin(browser, "/console/players")))
    assert (step.status_code, "Second factor" in page_of(step)) == (200, True)
    assert not is_signed_in(browser)
    answer = type_code(browser, step, codes[0], back="/console/players")
    assert answer.status_code == 303
    assert "company account" in browser.read("/sign-ins")


@pytest.fixture
def creating(app):
    configure(app, OPENID_CREATES_ACCOUNTS=True)


def test_the_first_sign_in_creates_an_account_without_a_password(
    browser, world, db, provider, creating, client
):
    world.add_user(Name="anna")
    refuse(browser, "has no role")
    user = db.users.find_one({"OpenId.Subject": ANNA["sub"]})
    assert (user["Name"], user["Email"], user["PasswordHash"]) == ("anna2", ANNA["email"], None)
    (entry,) = db.history.find({"Subject.Id": user["_id"]})
    assert (entry["Operation"], entry["Via"]) == ("create-by-company", "console")
    assert ANNA["sub"] not in str(entry)
    db.users.update_one({"_id": user["_id"]}, {"$set": {"Power.Api": True}})
    assert sign_in(browser).status_code == 303
    assert db.users.count_documents({}) == 2
    for password in ("", "None", sha256("")):
        assert Visitor(browser.app).sign_in("anna2", password).status_code == 400
    reset = client.get(
        "/api/v1/users/anna2/password/reset",
        headers=world.headers(Role.API, Role.USERS_QUERY),
    )
    assert "signs in with a company account" in reset.text, reset.status_code


def test_many_first_sign_ins_of_one_person_create_one_account(app, db, creating):
    # The imitation is not made for threads.
    callers = 1 if service(app, Storage).is_mock else 6
    browsers = [Visitor(app) for _ in range(callers)]
    paths = [decide(begin(browser)) for browser in browsers]
    with ThreadPoolExecutor(callers) as pool:
        answers = list(pool.map(Visitor.get, browsers, paths))
    assert {answer.status_code for answer in answers} <= {403, 503}
    assert db.users.count_documents({}) == 1
    assert "has no role" in page_of(sign_in(Visitor(app)))


def test_an_account_is_not_created_for_everybody(app, browser, world, db, provider, creating):
    person = dict(provider.person)
    for wrong in ({"email": None}, {"email": "nonsense"}, {"email_verified": False}):
        provider.person = {**person, **wrong}
        refuse(browser, "has no verified email address")
    provider.person = person
    configure(app, OPENID_GROUP_ROLES=["leads=support"])
    refuse(browser, "in none of the groups")
    configure(app, OPENID_GROUP_ROLES=[])
    world.add_user(Name="somebody", Email=ANNA["email"])
    refuse(browser, "already has your email address")
    assert db.users.count_documents({"OpenId": {"$exists": True}}) == 0


def test_roles_follow_the_groups_at_each_sign_in(app, browser, db, anna, provider):
    pairs = ["leads=support", "CN=mods = moderator", "all=support", "all=nonsense"]
    configure(app, OPENID_GROUP_ROLES=pairs)
    for groups, roles in (
        (["leads", "CN=mods"], ["moderator", "support"]),
        (["leads", "CN=mods"], ["moderator", "support"]),
        ("all", ["support"]),
        ([7, None, "unknown"], []),
    ):
        provider.person["groups"] = groups
        assert sign_in(browser).status_code == 303
        assert db.users.find_one({"_id": anna["_id"]})["GroupRoles"] == roles
    entries = list(db.history.find({"Operation": "set-group-roles"}))
    assert len(entries) == 3, "only a difference is a change"
    assert {entry["By"]["UserId"] for entry in entries} == {anna["_id"]}


def test_groups_do_not_remove_the_last_administrator(
    app, browser, db, anna, provider, world, monkeypatch
):
    configure(app, OPENID_GROUP_ROLES=["admins=administrator"])
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"GroupRoles": ["administrator"]}})
    provider.person["groups"] = []
    assert sign_in(browser).status_code == 303
    assert db.users.find_one({"_id": anna["_id"]})["GroupRoles"] == ["administrator"]
    world.add_user(PASSWORD, Roles=["administrator"])
    # While passwords are off, somebody who only has one cannot manage staff.
    with monkeypatch.context() as passwords_off:
        passwords_off.setattr(service(app, Roles), "ways_in", ("OpenId",))
        sign_in(browser)
    assert db.users.find_one({"_id": anna["_id"]})["GroupRoles"] == ["administrator"]
    sign_in(browser)
    assert db.users.find_one({"_id": anna["_id"]})["GroupRoles"] == []


def test_another_link_ends_the_sign_ins_of_the_former_person(app, browser, db, anna):
    sign_in(browser)
    assert is_signed_in(browser)
    done = app.test_cli_runner().invoke(run_command, ["unlink-company-account", anna["Name"]])
    assert done.exit_code == 0, done.output
    assert not is_signed_in(browser)


def test_a_group_alone_opens_the_console_and_only_as_far_as_its_role(
    app, browser, db, provider, creating
):
    configure(app, OPENID_GROUP_ROLES=["mods=moderator"])
    provider.person["groups"] = ["mods"]
    assert sign_in(browser).status_code == 303
    assert is_signed_in(browser)
    assert browser.get("/batches/new").status_code == 403
    provider.person["groups"] = []
    refuse(Visitor(app), "has no role")
    # The session that is open ends with the role.
    assert not is_signed_in(browser)


def test_unknown_roles_are_shown_on_the_page_of_health(app, browser, anna):
    configure(app, OPENID_GROUP_ROLES=["leads=support", "leads=wizard"])
    sign_in(browser)
    assert "roles that do not exist, and give nothing: wizard." in browser.read("/health")
    configure(app, OPENID_GROUP_ROLES=["leads=support"])
    assert "do not exist" not in browser.read("/health")


def test_without_a_time_of_the_provider_only_a_sign_in_on_request_is_a_proof(
    browser, anna, provider
):
    provider.forge = lambda token: provider.sign(without(claims_of(token), "auth_time"))
    for query, status in (("", 403), ("?again=1", 200)):
        url = browser.get(f"/sign-in/company{query}").headers["Location"]
        browser.get(decide(url))
        browser._token = None
        browser.submit("/keys", status, **{"Name": "shop", "may-players.read": "true"})


def test_a_provider_that_sends_times_must_send_one_on_request(browser, anna, provider):
    """It is missing if somebody has removed max_age from the address."""
    provider.metadata = {"claims_supported": ["auth_time"]}
    provider.forge = lambda token: provider.sign(without(claims_of(token), "auth_time"))
    assert sign_in(browser).status_code == 303
    url = browser.get("/sign-in/company?again=1").headers["Location"]
    assert parse_qs(urlsplit(url).query)["max_age"] == ["0"]
    assert UNVERIFIED in page_of(browser.get(decide(url)))


def test_with_passwords_off_only_the_company_account_opens(app, browser, anna, client):
    configure(app, STAFF_PASSWORDS=False)
    page = browser.get("/sign-in").text
    assert 'name="password"' not in page
    assert "Sign in with your company account" in page
    configure(app, STAFF_PASSWORDS=True)
    other = Visitor(app)
    token = other.get("/sign-in").text.split('name="token" value="')[1].split('"')[0]
    configure(app, STAFF_PASSWORDS=False)
    answer = other.send("/sign-in", {"token": token, "username": "anna", "password": PASSWORD})
    assert (answer.status_code, "Passwords are off for staff" in page_of(answer)) == (403, True)
    form = {"grant_type": "password", "username": "anna", "password": sha256(PASSWORD)}
    refused = client.post("/api/oauth/token", data=form)
    assert (refused.status_code, refused.json["error"]) == (403, "access_denied")
    assert "Passwords are off for staff" in refused.json["Message"]
    wrong = client.post("/api/oauth/token", data={**form, "password": sha256("wrong")})
    assert wrong.json["error"] == "invalid_grant"
    assert sign_in(browser).status_code == 303


def test_a_rescued_account_signs_in_although_passwords_and_the_provider_are_off(
    app, browser, anna, provider, monkeypatch
):
    configure(app, STAFF_PASSWORDS=False)
    provider.broken = {"openid-configuration"}
    assert DOWN in page_of(browser.get("/sign-in/company"))
    rescue = app.test_cli_runner().invoke(staff, ["rescue", "anna"])
    assert "for an hour: open /console/sign-in?password=1" in rescue.output
    token = re.search('name="token" value="(.*?)"', browser.get("/sign-in?password=1").text)[1]
    wrong = browser.send("/sign-in", {"token": token, "username": "anna", "password": "x"})
    assert 'name="password"' in wrong.text
    fields = {"token": token, "username": "anna", "password": PASSWORD}
    assert browser.send("/sign-in", fields).status_code == 303
    now = service(app, Storage).clock.now() + timedelta(hours=1)
    monkeypatch.setattr(service(app, Marks)._clock, "now", lambda: now)
    assert "Passwords are off" in page_of(browser.send("/sign-in", fields))


def test_no_log_line_holds_a_token_or_a_code(browser, anna, provider, caplog):
    caplog.set_level(logging.DEBUG)
    tokens = []
    provider.forge = lambda token: tokens.append(token) or token
    path = decide(begin(browser))
    cookie = browser.cookie("quartermaster-company").value
    assert browser.get(path).status_code == 303
    provider.forge = lambda token: tokens.append(f"{token}x") or tokens[-1]
    refuse(Visitor(browser.app), UNVERIFIED)
    secrets = [*tokens, cookie, *(v for (v,) in parse_qs(path.partition("?")[2]).values())]
    # The provider and the person's browser are in the same process here.
    records = [record for record in caplog.records if record.name != "werkzeug"]
    ours = [record for record in records if "/authorize?" not in str(vars(record))]
    lines = "\n".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert {"quartermaster", "urllib3.connectionpool"} <= {record.name for record in ours}
    assert [secret for secret in secrets if secret in lines] == []


def test_a_sensitive_form_asks_the_provider_again_or_for_a_code(app, browser, anna, provider, db):
    """The provider says when it asked last, which may be long before the sign-in."""
    key = {"Name": "shop", "may-players.read": "true"}
    provider.claims = {"auth_time": int(time.time()) - 16 * 60}
    assert sign_in(browser).status_code == 303
    asked = browser.submit("/keys", 403, **key)
    assert "Sign in again with your company account" in page_of(asked)
    assert "password" not in page_of(asked)
    path = re.search('href="/console([^"]+again=1)"', asked.text)[1].replace("&amp;", "&")
    url = browser.get(path).headers["Location"]
    asked = parse_qs(urlsplit(url).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    now = int(time.time())
    for at, status in ((now + 36_000, 403), (now + 50, 200)):
        provider.claims = {"auth_time": at}
        url = browser.get(path).headers["Location"]
        assert browser.get(decide(url)).headers["Location"] == "/console/keys"
        browser._token = None
        browser.submit("/keys", status, **key)
    codes = new_recovery_codes()
    factor = make_factor(pyotp.random_base32(), service(app, Vault), codes)
    db.users.update_one({"_id": anna["_id"]}, {"$set": {"SecondFactor": factor}})
    db.refresh_tokens.update_many({}, {"$set": {"ProvedAt": NOW}})
    asked = browser.submit("/keys", 403, **{**key, "Name": "other"})
    assert 'name="own-password"' not in asked.text
    fields = {**hidden_fields(asked), "own-code": codes[0]}
    assert "The key other was created" in page_of(browser.send("/keys", fields))
