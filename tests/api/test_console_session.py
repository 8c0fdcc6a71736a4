"""Signing in at the console: the cookie, the tokens of forms, and what ends a session."""

from __future__ import annotations

import gzip
import time
import uuid
from datetime import datetime, timedelta, timezone
from random import Random
from string import ascii_letters
from urllib.parse import urlencode

import pytest

from app.console.frame.pages import FILES
from app.console.session import sessions as session
from app.console.session.sessions import COOKIE
from app.core.permissions import Role
from app.http.parser import FORM
from app.users.oauth.store import RefreshTokens
from app.users.second_factor.vault import Vault
from tests.applications import service
from tests.console_visitor import (
    PASSWORD,
    SAME_ORIGIN,
    TOKEN,
    Visitor,
    WatchedBody,
    database_away,
    visitor,
)
from tests.factories import sha256

ALL = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)


@pytest.fixture
def alice(world):
    return world.add_user(PASSWORD, roles=(Role.API,), Name="alice")


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def test_whoever_is_not_signed_in_is_led_to_the_sign_in_and_back(browser, alice):
    answer = browser.get("/players?search=ala")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/console/sign-in?back=%2Fconsole%2Fplayers%3Fsearch%3Dala"
    page = browser.get(answer.headers["Location"].removeprefix("/console")).text
    assert 'name="back" value="/console/players?search=ala"' in page
    assert browser.sign_in("alice", back="/console/players?search=ala").headers["Location"] == (
        "/console/players?search=ala"
    )


def test_a_sign_in_leads_nowhere_but_to_the_console(browser, alice):
    for back in (
        *("https://evil.example", "//evil.example/console", "/\\evil.example", "/consoleevil", ""),
        *("/console\\..\\..\\evil", "javascript:alert(1)", "/console/\nSet-Cookie: a=b"),
        *("/console/../api/docs", "/console/%2e%2E/api/docs", "/api/v1/players"),
    ):
        assert browser.sign_in("alice", back=back).headers["Location"] == "/console", back


def test_the_cookie_is_kept_from_scripts_and_other_sites_and_only_its_hash_is_stored(
    browser, alice, db
):
    cookie = browser.sign_in("alice").headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/console"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert browser.cookie(COOKIE).value not in str(list(db.refresh_tokens.find()))


def test_by_tls_the_cookie_is_bound_to_the_host(app, alice):
    browser = Visitor(app, "https://localhost")
    cookie = browser.sign_in("alice").headers["Set-Cookie"]
    assert cookie.startswith("__Host-quartermaster=")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert is_signed_in(browser)


def test_a_wrong_password_and_an_unknown_name_look_the_same(browser, alice):
    wrong, unknown = browser.sign_in("alice", "nonsense"), browser.sign_in("nobody", "nonsense")
    assert wrong.status_code == unknown.status_code == 400
    for answer in (wrong, unknown):
        assert "The username or the password is wrong." in answer.text
    assert 'value="alice"' in wrong.text
    assert "nonsense" not in wrong.text


def test_an_account_without_the_role_api_is_refused(browser, world):
    world.add_user(PASSWORD, Name="player")
    answer = browser.sign_in("player")
    assert answer.status_code == 403
    assert "has no role for them. Ask an administrator" in answer.text
    world.add_user(PASSWORD, Name="former", roles=(Role.API,), IsDisabled=True)
    answer = browser.sign_in("former")
    assert (answer.status_code, "is disabled" in answer.text) == (403, True)


def test_guesses_at_a_password_are_limited(browser, alice):
    answers = [browser.sign_in("alice", f"guess {number}") for number in range(12)]
    assert [answer.status_code for answer in answers] == [400] * 10 + [429] * 2
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_a_sign_in_form_of_another_browser_is_refused(app, browser, alice):
    token = TOKEN.search(Visitor(app).get("/sign-in").text)[1]
    browser.get("/sign-in")
    fields = {"token": token, "username": "alice", "password": PASSWORD}
    assert browser.send("/sign-in", fields).status_code == 403
    assert not is_signed_in(browser)


def test_the_cookie_opens_no_door_of_the_api(app, world):
    somebody = visitor(app, world)
    secret = somebody.cookie(COOKIE).value
    client = app.test_client()
    client.set_cookie(COOKIE, secret)
    assert client.get("/api/v1/players").status_code == 401
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/players", headers=headers).status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": secret}
    assert client.post("/api/oauth/token", data=refresh).status_code == 400
    assert is_signed_in(somebody)


def test_a_token_of_the_api_opens_no_page(client, as_role):
    assert client.get("/console/players", headers=as_role()).status_code == 303


def test_a_refresh_token_in_the_cookie_opens_no_page(app, client, alice):
    body = {"grant_type": "password", "username": "alice", "password": sha256(PASSWORD)}
    token = client.post("/api/oauth/token", data=body).json["refresh_token"]
    client.set_cookie(COOKIE, token, path="/console")
    assert client.get("/console/sign-ins").status_code == 303


FOREIGN = [
    *({}, {"Origin": "null"}, {"Origin": "https://localhost"}, {"Origin": "http://evil.example"}),
    *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")),
    {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
]


def test_a_form_of_another_site_or_session_is_refused(app, world):
    somebody, other = visitor(app, world), visitor(app, world)
    for headers in FOREIGN:
        answer = somebody.send("/sign-out", {"token": somebody.token()}, headers)
        assert answer.status_code == 403, headers
        assert "is not from this page" in answer.text
    for token in ("", "nonsense", "00" * 64, "é", other.token()):
        assert somebody.send("/sign-out", {"token": token}).status_code == 403, token
    assert is_signed_in(somebody)
    # An old browser says its origin alone.
    origin = {"Origin": "http://localhost"}
    assert somebody.send("/sign-out", {"token": somebody.token()}, origin).status_code == 303


def test_form_tokens_differ_each_time_and_all_count(app, world):
    somebody, other = visitor(app, world), visitor(app, world)
    made = {TOKEN.search(somebody.get("/sign-ins").text)[1] for _ in range(3)}
    assert len(made) == 3
    for token in made:
        assert other.send("/sign-out", {"token": token}).status_code == 403
    for token in made:
        fields = {"token": token, "key": str(uuid.uuid4())}
        assert somebody.send(f"/sign-ins/{uuid.uuid4()}/end", fields).status_code == 404
    # What is sealed for another purpose is no token.
    cookie = somebody.cookie(COOKIE).value
    forged = service(app, Vault).seal("something else", cookie)
    assert somebody.send("/sign-out", {"token": forged}).status_code == 403


def test_a_form_that_is_no_form_is_refused(app, world):
    somebody = visitor(app, world)
    client = somebody._client
    answer = client.post("/console/sign-out", json={"token": "x"}, headers=SAME_ORIGIN)
    assert answer.status_code == 415


def test_signing_out_ends_the_session_for_good(app, world, db):
    somebody = visitor(app, world)
    secret = somebody.cookie(COOKIE).value
    assert somebody.post("/sign-out").headers["Location"] == "/console/sign-in"
    assert not is_signed_in(somebody)
    assert db.refresh_tokens.count_documents({}) == 0
    somebody._client.set_cookie(COOKIE, secret, path="/console")
    assert not is_signed_in(somebody)


def change_password(world, manager, user):
    path = f"/api/v1/users/{user['Name']}/manage/password/change"
    assert manager.post(path, new=sha256("another")).status_code == 200


def ban(world, manager, user):
    path = f"/api/v1/users/{user['Name']}/admin/ban"
    assert manager.post(path, duration=1).status_code == 200


def delete_account(world, manager, user):
    world.db.users.delete_one({"_id": user["_id"]})


def let_it_expire(world, manager, user):
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    world.db.refresh_tokens.update_many({}, {"$set": {"ExpiresAt": past}})


@pytest.mark.parametrize("end", [change_password, ban, delete_account, let_it_expire])
def test_a_session_ends_with_the_password_a_ban_the_account_and_its_time(app, world, caller, end):
    somebody = visitor(app, world)
    end(world, caller("", *ALL), somebody.user)
    assert not is_signed_in(somebody)


def test_a_session_ends_with_the_role_for_good(app, world, db):
    somebody = visitor(app, world)
    db.users.update_one({"_id": somebody.user["_id"]}, {"$set": {"Power.Api": False}})
    answer = somebody.get("/players")
    assert answer.status_code == 403
    assert "may no longer use this console" in answer.text
    db.users.update_one({"_id": somebody.user["_id"]}, {"$set": {"Power.Api": True}})
    assert not is_signed_in(somebody)


def test_a_session_lives_as_long_as_is_set(app, browser, alice, db):
    app.config["CONSOLE_SESSION_SECONDS"] = 100
    browser.sign_in("alice")
    (row,) = db.refresh_tokens.find({"IsSession": True})
    assert 90 < row["ExpiresAt"].timestamp() - time.time() <= 101


def test_a_form_sent_after_the_end_shows_what_was_typed_once_the_caller_is_known(app, world):
    somebody = visitor(app, world)
    player = world.add_player()
    fields = {"token": somebody.token(), "Text": "A long note", "password": "hush"}
    somebody.post("/sign-out")
    answer = somebody.send(f"/players/{player['_id']}/notes", fields)
    assert answer.status_code == 401
    assert "A long note" not in answer.text
    assert "sign in on another tab, then reload this page" in answer.text
    somebody.sign_in(somebody.user["Name"])
    answer = somebody.send(f"/players/{player['_id']}/notes", fields)
    assert answer.status_code == 403
    assert "A long note" in answer.text
    assert "hush" not in answer.text


@pytest.mark.parametrize("away", [(RefreshTokens, "session"), (session, "require_own_form")])
def test_a_form_that_was_not_read_is_not_offered_again(app, world, monkeypatch, away):
    """When the database is away, nobody is known, and the form may be from another site."""
    somebody = visitor(app, world)
    tokens = ["", "00" * 64, somebody.token()]
    monkeypatch.setattr(*away, database_away)
    for token in tokens:
        fields = {"token": token, "key": str(uuid.uuid4()), "Text": "A long note"}
        answer = somebody.send("/players/Aladric/notes", fields)
        assert answer.status_code == 503
        assert "A long note" not in answer.text or away[0] is session
        assert TOKEN.search(answer.text) is None
        assert "Reload this page to send the form again" in answer.text


def test_a_form_in_chunks_is_refused_before_it_is_read(app, world):
    body = WatchedBody(b"token=x")
    answer = visitor(app, world).stream("/sign-out", body, FORM, is_chunked=True)
    assert (answer.status_code, body.taken) == (411, 0)
    assert "needs the header Content-Length" in answer.text


def test_a_form_sent_after_the_end_leads_back_to_its_page(app):
    for form, page in (
        ("/players/Aladric/give", "/players/Aladric"),
        ("/batches/new/changes?by=x", "/batches/new/changes?by=x"),
        ("/users/thalia/keys", "/users/thalia/keys"),
    ):
        answer = Visitor(app).send(form, {"Text": "A long note"})
        assert answer.status_code == 401
        back = urlencode({"back": f"/console{page}"})
        assert f'href="/console/sign-in?{back}"' in answer.text


@pytest.mark.parametrize("base", ["http://localhost", "https://localhost"])
def test_another_sign_in_ends_the_former_session_of_the_browser(app, world, db, base):
    somebody, other = visitor(app, world, base=base), visitor(app, world)
    first = {session["_id"] for session in db.refresh_tokens.find()}
    for name in (somebody.user["Name"], other.user["Name"]):
        former = somebody.cookie(COOKIE) or somebody.cookie(f"__Host-{COOKIE}")
        assert somebody.sign_in(name).status_code == 303
        thief = Visitor(app, base)
        thief._client.set_cookie(former.key, former.value, path=former.path, secure=former.secure)
        assert not is_signed_in(thief)
        assert is_signed_in(somebody)
    assert is_signed_in(other)
    assert db.refresh_tokens.count_documents({}) == len(first)
    # A sign-in that is refused ends nothing.
    assert somebody.sign_in(somebody.user["Name"], "wrong").status_code == 400
    assert is_signed_in(somebody)


def test_sign_ins_are_listed_and_ended_one_by_one(app, world):
    somebody = visitor(app, world)
    other = Visitor(app)
    other.sign_in(somebody.user["Name"])
    page = somebody.get("/sign-ins").text
    assert page.count("this one") == 1
    ids = [part.split("/end")[0] for part in page.split("/console/sign-ins/")[1:]]
    assert len(ids) == 2
    (theirs,) = [id_ for id_ in ids if id_ not in page.split("this one")[1].split("</tr>")[0]]
    assert somebody.post(f"/sign-ins/{theirs}/end").status_code == 303
    assert is_signed_in(somebody)
    assert not is_signed_in(other)
    again = somebody.post(f"/sign-ins/{theirs}/end")
    assert again.status_code == 404
    assert "No sign-in with that id" in again.text


def test_somebody_elses_session_is_not_ended_without_the_role(app, world, db):
    somebody, other = visitor(app, world), visitor(app, world, *ALL)
    row = db.refresh_tokens.find_one({"UserId": other.user["_id"]})
    assert somebody.post(f"/sign-ins/{row['Chain']}/end").status_code == 404
    path = f"/users/{other.user['_id']}/sign-ins/{row['Chain']}/end"
    assert somebody.post(path).status_code == 403
    assert is_signed_in(other)


def test_every_page_tells_the_browser_what_it_may_do(app, world):
    somebody = visitor(app, world)
    for path in ("", "/players", "/sign-in", "/nowhere", "/players/nobody"):
        headers = somebody.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; ")), policy
        assert "unsafe" not in policy
        expected = {
            **{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"},
            **{"Referrer-Policy": "same-origin", "Cache-Control": "no-store"},
            "Content-Type": "text/html; charset=utf-8",
        }
        assert {name: headers[name] for name in expected} == expected
        assert headers["X-Request-ID"]
    page = somebody.get("").text
    assert page.count("<script") == 1
    assert '<script type="module" src="/console/files/' in page
    assert [own for own in ("<style", " style=", " onclick=") if own in page] == []


def test_files_are_cached_for_ever_under_the_digest_of_their_content(app, world, client):
    page = visitor(app, world).get("").text
    path = page.split('href="')[2].split('"')[0]
    assert path.endswith("console.css")
    answer = client.get(path)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.text.startswith("/*")
    assert client.get(path.replace("console.css", "nothing.css")).status_code == 404
    assert client.get("/console/files/000000000000/console.css").status_code == 404


def test_a_page_is_small_even_for_a_player_who_has_everything(app, world, client):
    random = Random(1)
    items = [
        world.add_object(Name="".join(random.choices(ascii_letters, k=255))) for _ in range(135)
    ]
    held = [{"ItemId": item["_id"], "Quantity": 1_000_000} for item in items]
    inventory, bank = (
        {str(slot): content for slot, content in enumerate(part)} for part in (held[:35], held[35:])
    )
    player = world.add_player(Inventory=inventory, Bank=bank)
    page = visitor(app, world).get(f"/players/{player['_id']}")
    assert page.status_code == 200
    assert page.text.count('class="slot"') == 135
    # The proxy compresses it.
    sent = len(gzip.compress(page.data, 4))
    assert sent <= 20_000
    kept = sum(len(gzip.compress(content, 4)) for content in FILES.values())
    assert kept + sent <= 100_000


def test_a_page_names_the_game_and_the_service_once(app, browser):
    for game, title, label in (
        ("Quartermaster", "Sign in · Quartermaster", "testing"),
        ("Ashfall", "Sign in · Ashfall · Quartermaster", "Ashfall · testing"),
    ):
        app.config["GAME_NAME"] = game
        page = browser.get("/sign-in").text
        assert f"<title>{title}</title>" in page
        assert f'<span class="env">{label}</span>' in page


def test_the_environment_is_always_in_sight(app, world, browser):
    app.config["ENVIRONMENT_NAME"], app.config["ENVIRONMENT_COLOUR"] = "staging", "violet"
    for page in (browser.get("/sign-in").text, visitor(app, world).get("").text):
        assert ">staging</span>" in page
        assert 'class="env-violet' in page
