"""Sign-ins: listed, ended one by one, and sessions among them (contract-sign-ins)."""

from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from app.storage.client import Storage
from app.users.oauth.schemas import SignInPageSchema
from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.callers import Caller, bearer
from tests.factories import guid, moment


@pytest.fixture
def tokens(app):
    return service(app, RefreshTokens)


@pytest.fixture
def manager(caller, alice):
    return caller("/api/oauth/sign-ins/", *Role)


@pytest.fixture
def listed(manager):
    return lambda: [sign_in["Id"] for sign_in in manager("GET Alice").json["Values"]]


@pytest.fixture
def own(client):
    """Return a caller with the tokens of a sign-in."""
    return lambda pair: Caller(client, bearer(pair["access_token"]), "/api/")


def test_a_sign_in_says_when_it_began_and_ends_and_tells_no_token(
    sign_in, refresh, manager, tokens, alice
):
    pair = sign_in().json
    page = manager("GET Alice").json
    (found,) = page["Values"]
    assert list(found) == ["Id", "At", "ExpiresAt", "Via", "Browser", "Method"]
    assert SignInPageSchema().load(page)["Values"] == tokens.sign_ins(alice)
    assert (found["Via"], found["Browser"], page["Next"]) == ("api", None, None)
    assert moment(found["ExpiresAt"]) - moment(found["At"]) == timedelta(days=7)
    for token in ("refresh_token", "access_token"):
        assert pair[token] not in repr(page)
    refresh(pair["refresh_token"])
    (after,) = manager("GET Alice").json["Values"]
    assert (after["Id"], after["At"]) == (found["Id"], found["At"])
    assert moment(after["ExpiresAt"]) >= moment(found["ExpiresAt"])


def test_one_ends_ones_own_at_once_and_no_others(sign_in, refresh, own, alice, db):
    mine, other = sign_in().json, sign_in().json
    for name in ("alice", alice["_id"]):
        newest, _ = own(mine)(f"GET oauth/sign-ins/{name}").json["Values"]
    own(other)("GET v1/players")
    answer = own(mine)(f"DELETE oauth/sign-ins/Alice/{newest['Id']}")
    assert answer.json == {"username": "Alice", "Id": newest["Id"]}
    own(mine)("GET v1/players")
    own(other)("GET v1/players", status=401)
    assert refresh(other["refresh_token"]).json["error"] == "invalid_grant"
    assert refresh(mine["refresh_token"]).status_code == 200
    assert db.history.count_documents({}) == 0


def test_what_has_ended_or_is_somebody_elses_is_a_404(sign_in, manager, listed, world):
    sign_in()
    (chain,) = listed()
    world.add_user(Name="Bob")
    for id_, name in ((guid(), "Alice"), (chain, "Bob")):
        refused = manager(f"DELETE {name}/{id_}", status=404)
        assert refused.json["Message"] == f"No sign-in with that id belongs to '{name}'."
    assert listed() == [chain]
    manager(f"DELETE Alice/{chain.upper()}")
    manager(f"DELETE Alice/{chain}", status=404)
    assert manager("DELETE Alice/x", status=400).json["Errors"] == {"id": ["Must be a guid."]}


def test_what_has_expired_or_is_void_is_not_listed_and_cannot_be_ended(
    tokens, manager, listed, alice, db
):
    expired, in_use, void = (tokens.issue(alice["_id"], version).chain for version in (0, 0, 1))
    past = {"ExpiresAt": datetime.now(timezone.utc) - timedelta(seconds=1)}
    db.refresh_tokens.update_one({"Chain": expired}, {"$set": past})
    assert listed() == [in_use]
    for chain, status in ((expired, 404), (in_use, 200), (void, 404)):
        manager(f"DELETE Alice/{chain}", status=status)


def test_a_session_is_listed_with_its_browser_and_ends_like_the_others(
    tokens, manager, staff, alice
):
    issued = tokens.begin_session(alice["_id"], 0, 60, "Firefox on Linux")
    session = tokens.session(issued.token)
    assert (session.user_id, session.chain) == (alice["_id"], issued.chain)
    (found,) = manager("GET Alice").json["Values"]
    assert (found["Id"], found["Via"]) == (issued.chain, "console")
    assert found["Browser"] == "Firefox on Linux"
    tokens.issue(alice["_id"], 0)
    log = staff("GET logs/user/Alice/activity").json["Values"]
    assert {(line["Action"], line["Peer"]) for line in log} == {
        *(("sign-in", "api"), ("sign-in", "console")),
    }
    manager(f"DELETE Alice/{issued.chain}")
    assert tokens.session(issued.token) is None


def test_sessions_and_tokens_do_not_push_each_other_out(app, alice):
    """A session ends before most tokens do, and would be the first to go."""
    tokens = RefreshTokens(service(app, Storage), 7 * 24 * 3600, 3)
    for _ in range(3):
        tokens.issue(alice["_id"], 0)
    sessions = [tokens.begin_session(alice["_id"], 0, 60 + n, "Firefox").token for n in range(4)]
    tokens.issue(alice["_id"], 0)
    assert all(tokens.session(token) for token in sessions)
