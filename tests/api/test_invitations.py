"""Invitations: the page on which an invited colleague chooses a password."""

import pytest

from app.core.permissions import Role
from tests.changes import entries_of
from tests.console_visitor import TOKEN, page_of
from tests.factories import NOW

CODE = "K7QF2MZR"
CHOSEN = {"new": "long enough", "again": "long enough"}


@pytest.fixture
def invitation():
    return {"Code": CODE, "ExpiresAt": NOW.replace(year=2100), "Failures": 0}


@pytest.fixture
def invited(world, invitation):
    """An account without a password, which is invited."""
    return world.add_user(None, (Role.API,), Name="Newcomer", Invitation=invitation)


@pytest.fixture
def accept(browser):
    """Send the form of the page."""

    def accept(invitation, status, **fields):
        token = TOKEN.search(browser.get("/invitation").text)[1]
        sent = {"token": token, "invitation": invitation, **CHOSEN, **fields}
        answer = browser.send("/invitation", sent)
        assert answer.status_code == status, (invitation, page_of(answer))
        return answer

    return accept


@pytest.mark.parametrize("link", ["", "https://qm.example.com/console/invitation#"])
def test_whoever_is_invited_chooses_a_password_once(db, browser, invited, accept, link):
    invitation = f"{link}{invited['_id']}.{CODE.lower()}"
    answer = accept(invitation, 303)
    assert answer.headers["Location"] == "/console/sign-in?done=chosen"
    assert "Your password is set" in browser.read("/sign-in?done=chosen")
    assert browser.sign_in("Newcomer", CHOSEN["new"]).status_code == 303
    entry = entries_of(db, invited)[-1]
    assert (entry["Operation"], entry["By"]["UserId"]) == ("reset-password", invited["_id"])
    assert CODE not in str(entry)
    assert "was used already" in page_of(accept(invitation, 403))


def test_an_invitation_that_is_wrong_sets_no_password(world, browser, invited, invitation, accept):
    """By name it does not work at all: a stranger who knows the name could use up all guesses."""
    other = world.add_user("a password", Name="Other", Invitation=invitation)
    late = world.add_user(None, Name="Late", Invitation={**invitation, "ExpiresAt": NOW})
    own = f"{invited['_id']}.{CODE}"
    for id_ in (other["_id"], late["_id"], "Newcomer", "", "\N{SNOWMAN}" * 5000):
        assert "send it again" in page_of(accept(f"{id_}.{CODE}", 403))
    for wrong in (f"{invited['_id']}.WRONG", "#", "."):
        accept(wrong, 403)
    for fields in ({"new": "short", "again": "short"}, {"again": "something else"}):
        answer = accept(own, 400, **fields)
        assert CODE in answer.text  # the code is still there, the password is not
        assert fields["again"] not in answer.text
    accept(own, 403, token="x")
    assert {user["_id"]: user["PasswordHash"] for user in world.db.users.find()} == {
        user["_id"]: user["PasswordHash"] for user in (other, late, invited)
    }
    accept(own, 303)


def test_guesses_of_an_invitation_are_limited(invited, accept):
    for status in [403] * 10 + [429]:
        accept(f"{invited['_id']}.WRONG", status)
