"""Sign-ins: listed, ended one by one, and sessions among them (contract-sign-ins)."""

from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from app.storage.client import Storage
from app.users.oauth.schemas import SignInPageSchema
from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.factories import guid, moment, sha256

TOKEN, SIGN_INS = "/api/oauth/token", "/api/oauth/sign-ins"
MANAGE = tuple(Role)


@pytest.fixture
def sign_in(client, alice):
    """Sign in as Alice, and return her tokens."""
    form = {"grant_type": "password", "username": "Alice", "password": sha256("secret")}
    return lambda: client.post(TOKEN, data=form).json


@pytest.fixture
def tokens(app):
    return service(app, RefreshTokens)


@pytest.fixture
def manager(as_role):
    return as_role(*MANAGE)


@pytest.fixture
def listed(client, manager):
    """Return a page of sign-ins, as somebody sees it."""

    def listed(name="Alice", headers=None, status=200, **query):
        answer = client.get(f"{SIGN_INS}/{name}", headers=headers or manager, query_string=query)
        assert answer.status_code == status, answer.json
        return answer.json

    return listed


@pytest.fixture
def end(client, manager):
    return lambda id_, name="Alice", headers=None: client.delete(
        f"{SIGN_INS}/{name}/{id_}", headers=headers or manager
    )


def ids_of(page):
    return [sign_in["Id"] for sign_in in page["Values"]]


def as_bearer(pair):
    return {"Authorization": f"Bearer {pair['access_token']}"}


def status(client, pair):
    return client.get("/api/v1/players", headers=as_bearer(pair)).status_code


def refresh(client, token):
    form = {"grant_type": "refresh_token", "refresh_token": token}
    return client.post(TOKEN, data=form)


def test_a_sign_in_says_when_it_began_and_ends_and_tells_no_token(sign_in, listed, tokens, alice):
    pair = sign_in()
    page = listed()
    assert list(page["Values"][0]) == ["Id", "At", "ExpiresAt", "Via", "Browser", "Method"]
    (found,) = SignInPageSchema().load(page)["Values"]
    (stored,) = tokens.sign_ins(alice)
    assert (found["Id"], found["Via"], found["Browser"]) == (stored["Id"], "api", None)
    assert (found["At"], found["ExpiresAt"]) == (stored["At"], stored["ExpiresAt"])
    assert stored["ExpiresAt"] - stored["At"] == timedelta(days=7)
    assert page["Next"] is None
    for token in ("refresh_token", "access_token"):
        assert pair[token] not in repr(page)


def test_one_sees_and_ends_ones_own_with_the_role_api_alone(client, sign_in, listed, end, alice):
    mine, other = sign_in(), sign_in()
    for name in ("alice", alice["_id"]):
        assert len(listed(name, as_bearer(mine))["Values"]) == 2
    newest = ids_of(listed(headers=as_bearer(mine)))[0]
    answer = end(newest, headers=as_bearer(mine))
    assert (answer.status_code, answer.json) == (200, {"username": "Alice", "Id": newest})
    assert [status(client, pair) for pair in (mine, other)] == [200, 401]


def test_to_end_one_ends_its_tokens_at_once_and_no_others(client, sign_in, listed, end):
    first = sign_in()
    (chain,) = ids_of(listed())
    second = sign_in()
    assert [status(client, pair) for pair in (first, second)] == [200, 200]
    assert end(chain).status_code == 200
    assert [status(client, pair) for pair in (first, second)] == [401, 200]
    assert refresh(client, first["refresh_token"]).json["error"] == "invalid_grant"
    assert refresh(client, second["refresh_token"]).status_code == 200
    assert chain not in ids_of(listed())


def test_to_end_one_leaves_no_entry_in_history(client, sign_in, listed, end, manager):
    sign_in()
    end(ids_of(listed())[0])
    history = client.get("/api/v1/users/Alice/history", headers=manager).json
    assert history["Values"] == []


def test_a_sign_in_stays_the_same_when_it_is_refreshed(client, sign_in, listed):
    pair = sign_in()
    (before,) = listed()["Values"]
    assert refresh(client, pair["refresh_token"]).status_code == 200
    (after,) = listed()["Values"]
    assert (after["Id"], after["At"]) == (before["Id"], before["At"])
    assert moment(after["ExpiresAt"]) >= moment(before["ExpiresAt"])


def test_what_has_ended_or_is_somebody_elses_is_a_404(sign_in, listed, end, world, alice):
    sign_in()
    (chain,) = ids_of(listed())
    world.add_user(Name="Bob")
    for id_, name in ((guid(), "Alice"), (chain, "Bob")):
        answer = end(id_, name)
        message = f"No sign-in with that id belongs to '{name}'."
        assert (answer.status_code, answer.json["Message"]) == (404, message)
    assert ids_of(listed()) == [chain]
    assert end(chain.upper()).status_code == 200
    assert end(chain).status_code == 404
    assert end("x").json["Errors"] == {"id": ["Must be a guid."]}
    assert end(chain, "Nobody").json["Message"] == "No user with name 'Nobody'."
    assert listed("Nobody", status=404)["Message"] == "No user with name 'Nobody'."


def test_a_walk_meets_each_sign_in_once_and_the_last_to_end_first(tokens, listed, alice, db):
    chains = [tokens.issue(alice["_id"], 0).chain for _ in range(9)]
    # Three end at the same time.
    same = {"ExpiresAt": datetime.now(timezone.utc) + timedelta(days=3)}
    db.refresh_tokens.update_many({"Chain": {"$in": chains[:3]}}, {"$set": same})
    seen, page = [], listed(pageSize=2)
    while page["Next"]:
        assert len(page["Values"]) == 2
        seen += page["Values"]
        page = listed(pageSize=2, after=page["Next"])
    seen += page["Values"]
    assert sorted(ids_of({"Values": seen})) == sorted(chains)
    ends = [moment(sign_in["ExpiresAt"]) for sign_in in seen]
    assert ends == sorted(ends, reverse=True)
    assert {sign_in["Id"] for sign_in in seen[-3:]} == set(chains[:3])


def test_what_has_expired_or_is_void_is_not_listed_and_cannot_be_ended(
    tokens, listed, end, alice, db
):
    chains = [tokens.issue(alice["_id"], version).chain for version in (0, 0, 1)]
    expired, in_use, _void = chains
    past = {"ExpiresAt": datetime.now(timezone.utc) - timedelta(seconds=1)}
    db.refresh_tokens.update_one({"Chain": expired}, {"$set": past})
    assert ids_of(listed()) == [in_use]
    assert [end(chain).status_code for chain in chains] == [404, 200, 404]


def test_a_session_is_listed_with_its_browser_and_ends_like_the_others(tokens, listed, end, alice):
    issued = tokens.begin_session(alice["_id"], 0, 60, "Firefox on Linux")
    session = tokens.session(issued.token)
    assert (session.user_id, session.chain) == (alice["_id"], issued.chain)
    (found,) = listed()["Values"]
    assert (found["Id"], found["Via"]) == (issued.chain, "console")
    assert found["Browser"] == "Firefox on Linux"
    assert end(issued.chain).status_code == 200
    assert tokens.session(issued.token) is None


def test_the_log_of_a_user_tells_sessions_from_tokens(client, tokens, alice, manager):
    tokens.issue(alice["_id"], 0)
    tokens.begin_session(alice["_id"], 0, 60, "Firefox")
    log = client.get("/api/v1/logs/user/Alice/activity", headers=manager).json["Values"]
    assert {line["Action"] for line in log} == {"sign-in"}
    assert sorted(line["Peer"] for line in log) == ["api", "console"]


def test_sessions_and_tokens_do_not_push_each_other_out(app, alice):
    """A session ends before most tokens do, and would be the first to go."""
    tokens = RefreshTokens(service(app, Storage), 7 * 24 * 3600, 3)
    for _ in range(3):
        tokens.issue(alice["_id"], 0)
    sessions = [tokens.begin_session(alice["_id"], 0, 60 + n, "Firefox").token for n in range(4)]
    tokens.issue(alice["_id"], 0)
    assert all(tokens.session(token) for token in sessions)
    kinds = [sign_in["Via"] for sign_in in tokens.sign_ins(alice)]
    assert kinds.count("console") == 4
