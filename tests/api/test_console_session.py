"""Signing in at the console: the cookie, the tokens of forms, and what ends a session."""

import gzip
import time
import uuid
from datetime import datetime, timedelta, timezone
from random import randbytes
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
from tests.callers import bearer
from tests.console_visitor import (
    PASSWORD,
    SAME_ORIGIN,
    TOKEN,
    Visitor,
    WatchedBody,
    database_away,
    fields_in,
    markup_of,
    page_of,
    texts_in,
    visitor,
)
from tests.factories import sha256


@pytest.fixture
def alice(world):
    return world.add_user(PASSWORD, roles=(Role.API,), Name="alice")


@pytest.fixture
def clerk(app, world):
    return visitor(app, world)


@pytest.fixture
def other(app, world):
    return visitor(app, world)


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def test_whoever_is_not_signed_in_is_led_to_the_sign_in_and_back(browser, alice):
    answer = browser.get("/players?search=ala")
    assert answer.headers["Location"] == "/console/sign-in?back=%2Fconsole%2Fplayers%3Fsearch%3Dala"
    back = fields_in(browser.led_to(answer), "main form")["back"]
    assert browser.sign_in("alice", back=back).headers["Location"] == "/console/players?search=ala"


def test_a_sign_in_leads_nowhere_but_to_the_console(browser, alice):
    for back in ("https://evil.example", "//evil.example/console", "/console/%2e%2E/api/docs", ""):
        assert browser.sign_in("alice", back=back).headers["Location"] == "/console", back


@pytest.mark.parametrize(
    ("base", "name", "attributes"),
    [
        ("http://localhost", COOKIE, {"HttpOnly", "SameSite=Lax", "Path=/console"}),
        # By TLS, the cookie is bound to the host.
        ("https://localhost", f"__Host-{COOKIE}", {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"}),
    ],
)
def test_the_cookie_is_kept_from_scripts_and_other_sites_and_only_its_hash_is_stored(
    app, alice, db, base, name, attributes
):
    browser = Visitor(app, base)
    cookie, *rest = browser.sign_in("alice").headers["Set-Cookie"].split("; ")
    assert cookie.startswith(f"{name}=")
    assert {part for part in rest if not part.startswith(("Expires", "Max-Age"))} == attributes
    assert browser.cookie(name).value not in str(list(db.refresh_tokens.find()))
    assert is_signed_in(browser)


def test_who_may_not_sign_in_is_told_why(browser, alice, world):
    world.add_user(PASSWORD, Name="player")
    world.add_user(PASSWORD, Name="former", roles=(Role.API,), IsDisabled=True)
    for name, password, status, why in (
        ("alice", "nonsense", 400, "The username or the password is wrong."),
        ("nobody", "nonsense", 400, "The username or the password is wrong."),
        ("player", PASSWORD, 403, "has no role for them. Ask an administrator"),
        ("former", PASSWORD, 403, "is disabled"),
    ):
        refused = browser.sign_in(name, password)
        assert (refused.status_code, why in page_of(refused)) == (status, True), name
        assert fields_in(refused, "main form")["username"] == name
        assert password not in refused.text
    assert not is_signed_in(browser)


def test_a_sign_in_form_of_another_browser_is_refused(app, browser, alice):
    token = TOKEN.search(Visitor(app).get("/sign-in").text)[1]
    browser.get("/sign-in")
    fields = {"token": token, "username": "alice", "password": PASSWORD}
    assert browser.send("/sign-in", fields).status_code == 403
    assert not is_signed_in(browser)


def test_sessions_are_not_for_the_api_and_its_tokens_not_for_the_console(
    app, clerk, client, as_role, refresh, sign_in, alice
):
    secret = clerk.cookie(COOKIE).value
    assert refresh(secret).status_code == 400
    assert client.get("/api/v1/players", headers=bearer(secret)).status_code == 401
    client.set_cookie(COOKIE, secret)
    assert client.get("/api/v1/players").status_code == 401
    assert is_signed_in(clerk)
    assert app.test_client().get("/console/players", headers=as_role()).status_code == 303
    token = sign_in("alice", PASSWORD).json["refresh_token"]
    clerk.set_cookie(COOKIE, token)
    assert not is_signed_in(clerk)


FOREIGN = [
    *({}, {"Origin": "null"}, {"Origin": "https://localhost"}, {"Origin": "http://evil.example"}),
    *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")),
    {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
]


def test_a_form_of_another_site_or_session_is_refused(app, clerk, other):
    for headers in FOREIGN:
        refused = clerk.send("/sign-out", {"token": clerk.token()}, headers)
        assert refused.status_code == 403, headers
        assert "is not from this page" in refused.text
    # What is sealed for another purpose is no token.
    forged = service(app, Vault).seal("something else", clerk.cookie(COOKIE).value)
    for token in ("", "nonsense", "00" * 64, "é", other.token(), forged):
        assert clerk.send("/sign-out", {"token": token}).status_code == 403, token
    assert is_signed_in(clerk)
    # An old browser says its origin alone.
    origin = {"Origin": "http://localhost"}
    assert clerk.send("/sign-out", {"token": clerk.token()}, origin).status_code == 303


def test_form_tokens_differ_each_time_and_all_count(clerk):
    made = {TOKEN.search(clerk.get("/sign-ins").text)[1] for _ in range(3)}
    assert len(made) == 3
    for token in made:
        fields = {"token": token, "key": str(uuid.uuid4())}
        assert clerk.send(f"/sign-ins/{uuid.uuid4()}/end", fields).status_code == 404


def test_a_form_that_is_no_form_or_comes_in_chunks_is_refused(clerk):
    answer = clerk._client.post("/console/sign-out", json={"token": "x"}, headers=SAME_ORIGIN)
    assert answer.status_code == 415
    body = WatchedBody(b"token=x")
    answer = clerk.stream("/sign-out", body, FORM, is_chunked=True)
    assert (answer.status_code, body.taken) == (411, 0)
    assert "needs the header Content-Length" in answer.text


def test_signing_out_ends_the_session_for_good(clerk, db):
    secret = clerk.cookie(COOKIE).value
    assert clerk.submit("/sign-out", 303).headers["Location"] == "/console/sign-in"
    assert db.refresh_tokens.count_documents({}) == 0
    clerk.set_cookie(COOKIE, secret)
    assert not is_signed_in(clerk)


def change_password(staff, user):
    path = f"users/{user['Name']}/manage/password/change"
    staff(f"POST {path}", {"new": sha256("another")})


def ban(staff, user):
    staff(f"POST users/{user['Name']}/admin/ban", {"duration": 1})


def delete_account(staff, user):
    staff(f"DELETE users/{user['Name']}", None, 200)


@pytest.mark.parametrize("end", [change_password, ban, delete_account])
def test_a_session_ends_with_the_password_a_ban_and_the_account(clerk, staff, end):
    end(staff, clerk.user)
    assert not is_signed_in(clerk)


def test_a_session_lives_as_long_as_is_set(app, browser, alice, db):
    app.config["CONSOLE_SESSION_SECONDS"] = 100
    browser.sign_in("alice")
    (row,) = db.refresh_tokens.find({"IsSession": True})
    assert 90 < row["ExpiresAt"].timestamp() - time.time() <= 101
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.refresh_tokens.update_many({}, {"$set": {"ExpiresAt": past}})
    assert not is_signed_in(browser)


def test_a_session_ends_with_the_role_for_good(clerk, db):
    def may_use_the_api(is_allowed):
        change = {"$set": {"Power.Api": is_allowed}}
        db.users.update_one({"_id": clerk.user["_id"]}, change)

    may_use_the_api(False)
    assert "may no longer use this console" in clerk.read("/players", 403)
    may_use_the_api(True)
    assert not is_signed_in(clerk)


def test_a_form_sent_after_the_end_shows_what_was_typed_once_the_caller_is_known(clerk, world):
    path = f"/players/{world.add_player()['_id']}/notes"
    fields = {"token": clerk.token(), "Text": "A long note", "password": "hush"}
    clerk.submit("/sign-out", 303)
    refused = clerk.send(path, fields)
    assert (refused.status_code, "A long note" in refused.text) == (401, False)
    assert "sign in on another tab, then reload this page" in refused.text
    clerk.sign_in(clerk.user["Name"])
    refused = clerk.send(path, fields)
    assert (refused.status_code, "A long note" in refused.text) == (403, True)
    assert "hush" not in refused.text


@pytest.mark.parametrize("away", [(RefreshTokens, "session"), (session, "require_own_form")])
def test_a_form_that_was_not_read_is_not_offered_again(clerk, monkeypatch, away):
    """When the database is away, nobody is known, and the form may be from another site."""
    tokens = ["", "00" * 64, clerk.token()]
    monkeypatch.setattr(*away, database_away)
    for token in tokens:
        fields = {"token": token, "key": str(uuid.uuid4()), "Text": "A long note"}
        answer = clerk.send("/players/Aladric/notes", fields)
        assert answer.status_code == 503
        assert "A long note" not in answer.text or away[0] is session
        assert TOKEN.search(answer.text) is None
        assert "Reload this page to send the form again" in answer.text


def test_a_form_sent_after_the_end_leads_back_to_its_page(browser):
    for form, page in (
        ("/players/Aladric/give", "/players/Aladric"),
        ("/batches/new/changes?by=x", "/batches/new/changes?by=x"),
        ("/users/thalia/keys", "/users/thalia/keys"),
    ):
        answer = browser.send(form, {"Text": "A long note"})
        assert answer.status_code == 401
        back = urlencode({"back": f"/console{page}"})
        assert markup_of(answer).select(f"a[href='/console/sign-in?{back}']"), form


@pytest.mark.parametrize("base", ["http://localhost", "https://localhost"])
def test_another_sign_in_ends_the_former_session_of_the_browser(app, world, other, db, base):
    clerk = visitor(app, world, base=base)
    sessions = db.refresh_tokens.count_documents({})
    for name in (clerk.user["Name"], other.user["Name"]):
        former = clerk.cookie(COOKIE) or clerk.cookie(f"__Host-{COOKIE}")
        assert clerk.sign_in(name).status_code == 303
        thief = Visitor(app, base)
        thief._client.set_cookie(former.key, former.value, path=former.path, secure=former.secure)
        assert not is_signed_in(thief)
    assert (is_signed_in(clerk), is_signed_in(other)) == (True, True)
    assert db.refresh_tokens.count_documents({}) == sessions
    # A sign-in that is refused ends nothing.
    assert clerk.sign_in(clerk.user["Name"], "wrong").status_code == 400
    assert is_signed_in(clerk)


def test_ones_own_sign_ins_are_listed_and_ended_one_by_one(app, clerk, other, db):
    elsewhere = Visitor(app)
    elsewhere.sign_in(clerk.user["Name"])
    rows = {
        row.form["action"].removeprefix("/console"): "this one" in row.text
        for row in markup_of(clerk.get("/sign-ins")).select("tbody tr")
    }
    assert sorted(rows.values()) == [False, True]
    (end,) = (path for path, is_this_one in rows.items() if not is_this_one)
    clerk.submit(end, 303)
    assert (is_signed_in(clerk), is_signed_in(elsewhere)) == (True, False)
    assert "No sign-in with that id" in page_of(clerk.submit(end, 404))
    theirs = db.refresh_tokens.find_one({"UserId": other.user["_id"]})["Chain"]
    clerk.submit(f"/sign-ins/{theirs}/end", 404)
    assert is_signed_in(other)


def test_every_page_tells_the_browser_what_it_may_do(clerk):
    for path in ("", "/players", "/sign-in", "/nowhere", "/players/nobody"):
        headers = clerk.get(path).headers
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
    page = markup_of(clerk.get(""))
    (script,) = page.select("script")
    assert (script["type"], "/console/files/" in script["src"]) == ("module", True)
    assert page.select("style, [style], [onclick]") == []


def test_files_are_cached_for_ever_under_the_digest_of_their_content(clerk, client):
    path = markup_of(clerk.get("")).select_one("link[href$='/console.css']")["href"]
    answer = client.get(path)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.text.startswith("/*")
    assert client.get(path.replace("console.css", "nothing.css")).status_code == 404
    assert client.get("/console/files/000000000000/console.css").status_code == 404


def test_a_page_is_small_even_for_a_player_who_has_everything(clerk, world):
    items = [world.add_object(Name=f"{n} {randbytes(120).hex()}") for n in range(135)]
    slots = [{"ItemId": item["_id"], "Quantity": 1_000_000} for item in items]
    inventory, bank = (
        {str(n): slot for n, slot in enumerate(part)} for part in (slots[:35], slots[35:])
    )
    player = world.add_player(Inventory=inventory, Bank=bank)
    page = clerk.get(f"/players/{player['_id']}")
    assert page.text.count('class="slot"') == 135
    # The proxy compresses it.
    sent = len(gzip.compress(page.data, 4))
    assert sent <= 20_000
    kept = sum(len(gzip.compress(content, 4)) for content in FILES.values())
    assert kept + sent <= 100_000


@pytest.mark.parametrize(
    ("game", "title", "label"),
    [
        ("Quartermaster", "Sign in · Quartermaster", "staging"),
        ("Ashfall", "Sign in · Ashfall · Quartermaster", "Ashfall · staging"),
    ],
)
def test_the_game_and_the_environment_are_always_in_sight(app, clerk, browser, game, title, label):
    app.config["GAME_NAME"] = game
    app.config["ENVIRONMENT_NAME"], app.config["ENVIRONMENT_COLOUR"] = "staging", "violet"
    assert texts_in(browser.get("/sign-in"), "title") == [title]
    for page in (browser.get("/sign-in"), clerk.get("")):
        assert texts_in(page, ".env") == [label]
        assert "violet" in str(markup_of(page).select("[class*=env-violet]"))
