"""What the form of a page says about its change, where a program says it by headers."""

from __future__ import annotations

import pytest
from flask import request

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import KeyAccess
from app.execution import execute
from app.http.intents import intent, keyed_intent, state
from app.http.json import json_response
from app.items.operations import GIVE
from app.moderation.enforcement import impose_on
from app.moderation.penalties import MUTE
from app.naming import Lookup
from app.notes.operations import NOTE_ON_PLAYER
from app.players.store import Players
from app.users.accounts import mail_reset_code
from app.users.operations import MAIL_RESET_CODE
from app.users.store import Users
from tests.applications import service
from tests.factories import guid

ALICE, HERO = Lookup.parse("Alice"), Lookup.parse("Hero")
ACTS = {
    "mail": lambda _: mail_reset_code(ALICE, 60, intent(MAIL_RESET_CODE)),
    "mute": lambda app: impose_on(ALICE, MUTE, MUTED),
    "note": lambda app: execute(NOTE_ON_PLAYER, service(app, Players), HERO, {"Text": "A note."}),
    "look": lambda _: keyed_intent(GIVE, {}),
}
MUTED = {"duration": 1, "reason": "", "moderator": "", "ip": False}


def add_forms(app):
    """Add a page whose form makes a change, with the key and the reason that it has."""

    @guard.required(KeyAccess.NONE, Role.USERS_QUERY)
    def submit(act):
        state(request.form["key"], request.form["reason"])
        applied = ACTS[act](app)
        return json_response({"replayed": getattr(applied, "replayed", None)})

    app.add_url_rule("/forms/<act>", view_func=submit, methods=["POST"])


@pytest.fixture
def extend_app():
    return add_forms


@pytest.fixture
def submit(client, as_role, world):
    world.add_player(Name="Hero")
    world.add_user(Name="Alice", Email="alice@example.com")
    headers = {**as_role(*Role), "X-Reason": "of%20the%20header", "Idempotency-Key": "header"}

    def submit(act, key="form", reason="of the form", status=200):
        form = {"key": key, "reason": reason}
        answer = client.post(f"/forms/{act}", data=form, headers=headers)
        assert answer.status_code == status, answer.json
        return answer.json

    return submit


@pytest.fixture
def entries(client, as_role):
    headers = as_role(Role.API, Role.USERS_QUERY)
    return lambda path: client.get(f"/api/v1/{path}/history", headers=headers).json["Values"]


def test_a_form_and_not_the_headers_gives_key_and_reason(submit, entries, db):
    submit("note")
    (entry,) = entries("players/Hero")
    assert (entry["Reason"], entry["Via"]) == ("of the form", "console")
    (stored,) = db.players.find_one({"Name": "Hero"})["Journal"]
    assert stored["IdempotencyKey"] == "form"


@pytest.mark.parametrize(("act", "path"), [("note", "players/Hero"), ("mute", "users/Alice")])
def test_a_form_that_is_sent_twice_makes_one_change(submit, entries, act, path):
    assert [submit(act)["replayed"] for _ in range(2)] == [False, True]
    assert len(entries(path)) == 1
    assert submit(act, key="another form")["replayed"] is False
    assert len(entries(path)) == 2


@pytest.mark.parametrize("act", ["note", "mute", "mail", "look"])
@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\nb"])
def test_the_key_of_a_form_is_held_to_the_same_rules(submit, entries, act, key):
    submit(act, key, status=400)
    assert entries("users/Alice") == entries("players/Hero") == []


@pytest.mark.parametrize("reason", ["two\nlines", "a\x00b", "x" * 501])
def test_a_reason_that_a_header_could_not_say_is_refused(submit, entries, reason):
    assert list(submit("note", reason=reason, status=400)["Errors"]) == ["reason"]
    assert entries("players/Hero") == []


def test_a_percent_in_a_typed_reason_is_a_percent(submit, entries):
    submit("note", reason=" 100%20 sure ")
    assert entries("players/Hero")[0]["Reason"] == "100%20 sure"


def test_a_form_must_say_why_where_reasons_are_required(app, submit, entries):
    app.config["REASON_REQUIRED"] = True
    answer = submit("mute", reason=" ", status=400)
    assert answer["Errors"] == {"reason": ["Is required."]}
    assert entries("users/Alice") == []


def test_a_code_that_is_asked_for_twice_by_one_form_is_one_code(submit, entries, db, data_dir):
    assert [submit("mail")["replayed"] for _ in range(2)] == [False, True]
    code = db.users.find_one({"Name": "Alice"})["Reset"]["Code"]
    (mail,) = (data_dir / "outbox").glob("*.eml")
    assert code in mail.read_text()
    assert len(entries("users/Alice")) == 1
    # Some time later: at once, it would share the mail.
    db.reset_mails.delete_many({})
    submit("mail", key=guid())
    assert db.users.find_one({"Name": "Alice"})["Reset"]["Code"] != code


def test_another_change_under_the_key_of_a_form_is_refused(submit, app, db):
    submit("mail")
    submit("mute", status=409)
    assert not service(app, Users).get(ALICE, "IsMuted")["IsMuted"]
