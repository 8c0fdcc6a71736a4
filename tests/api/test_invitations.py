"""Invitations: the page on which an invited colleague chooses a password."""

from datetime import timedelta

import pytest

from app.storage.client import Storage
from tests.applications import service
from tests.changes import entries_of
from tests.console_visitor import TOKEN, Visitor, page_of

CODE = "K7QF2MZR"
CHOSEN = {"new": "long enough", "again": "long enough"}


@pytest.fixture
def invited(app, world):
    """An account without a password, whose invitation ends in an hour."""
    ends = service(app, Storage).clock.now() + timedelta(hours=1)
    invitation = {"Code": CODE, "ExpiresAt": ends, "Failures": 0}
    power = {"Power": {"Api": True}}
    user = world.add_user(None, Name="Newcomer", Invitation=invitation)
    world.db.users.update_one({"_id": user["_id"]}, {"$set": {"Power.Api": True}})
    return {**user, **power}


def accept(browser, invitation, **fields):
    """Send the form of the page."""
    token = TOKEN.search(browser.get("/invitation").text)[1]
    return browser.send(
        "/invitation", {"token": token, "invitation": invitation, **CHOSEN, **fields}
    )


@pytest.mark.parametrize("link", ["", "https://qm.example.com/console/invitation#"])
def test_whoever_is_invited_chooses_a_password_once(app, db, invited, link):
    browser, invitation = Visitor(app), f"{link}{invited['_id']}.{CODE.lower()}"
    answer = accept(browser, invitation)
    assert answer.headers["Location"] == "/console/sign-in?done=chosen", page_of(answer)
    assert "Your password is set" in browser.read("/sign-in?done=chosen")
    assert browser.sign_in("Newcomer", CHOSEN["new"]).status_code == 303
    entry = entries_of(db, invited)[-1]
    assert (entry["Operation"], entry["By"]["UserId"]) == ("reset-password", invited["_id"])
    assert CODE not in str(entry)
    again = accept(browser, invitation)
    assert again.status_code == 403
    assert "was used already" in page_of(again)


def test_an_invitation_that_is_wrong_sets_no_password(app, db, world, invited):
    """By name it does not work at all: a stranger who knows the name could use up all guesses."""
    other = world.add_user("a password", Name="Other", Invitation=invited["Invitation"])
    ends = service(app, Storage).clock.now() - timedelta(seconds=1)
    ended = {**invited["Invitation"], "ExpiresAt": ends}
    late = world.add_user(None, Name="Late", Invitation=ended)
    browser, ids = Visitor(app), [other["_id"], late["_id"], "Newcomer", "", "\N{SNOWMAN}" * 5000]
    for invitation in (*(f"{id_}.{CODE}" for id_ in ids), f"{invited['_id']}.WRONG", "#", "."):
        answer = accept(browser, invitation)
        assert answer.status_code == 403, invitation
        assert "send it again" in page_of(answer)
    hashes = [user["PasswordHash"] for user in db.users.find({"_id": {"$ne": other["_id"]}})]
    assert hashes == [None] * len(hashes)
    for fields in ({"new": "short", "again": "short"}, {"again": "something else"}):
        answer = accept(browser, f"{invited['_id']}.{CODE}", **fields)
        assert answer.status_code == 400
        assert CODE in answer.text  # the code is still there, the password is not
        assert fields["again"] not in answer.text
    fields = {"token": "x", "invitation": f"{invited['_id']}.{CODE}", **CHOSEN}
    assert browser.send("/invitation", fields).status_code == 403
    assert accept(browser, f"{invited['_id']}.{CODE}").status_code == 303


def test_guesses_of_an_invitation_are_limited(app, invited):
    browser = Visitor(app)
    statuses = [accept(browser, f"{invited['_id']}.WRONG").status_code for _ in range(5)]
    assert statuses == [403] * 5
    assert accept(browser, f"{invited['_id']}.{CODE}").status_code == 403  # five ended it
    more = [accept(browser, f"{invited['_id']}.WRONG").status_code for _ in range(6)]
    assert more[-1] == 429
