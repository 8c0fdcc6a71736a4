"""Company accounts: names for accounts, and roles by groups."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.users.domain import is_username
from app.users.openid.domain import SignInRefused, names_for, roles_of_groups, verified_address


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "anna"}, "anna"),
        ({"preferred_username": "anna.lee@company.example", "email": "x@y.example"}, "annalee"),
        ({"preferred_username": "...", "email": "anna_1@company.example"}, "anna1"),
        ({"preferred_username": None, "email": 7}, "staff"),
        ({"preferred_username": "a"}, "staff"),
        ({"preferred_username": "x" * 30}, "x" * 20),
        ({"preferred_username": "Zoe\u0308 Müller"}, "ZoëMüller"),
        ({"preferred_username": "李小龙"}, "李小龙"),
        ({}, "staff"),
    ],
)
def test_a_name_is_made_of_what_the_provider_calls_a_person(claims, name):
    assert next(names_for(claims)) == name


@given(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.text()))
def test_every_name_is_valid_and_they_differ(username, email):
    names = list(islice(names_for({"preferred_username": username, "email": email}), 9))
    assert all(map(is_username, names))
    # A long name that ends with a number is tried again with this number.
    assert len(set(names[1:])) == len(names) - 1
    assert is_username(next(islice(names_for({"email": email}), 12, None)))


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (["leads"], ["support"]),
        (["leads", "mods", "leads"], ["moderator", "support"]),
        ("mods", ["moderator"]),
        (["CN=a"], ["viewer"]),
        (["Leads"], []),
        *((value, []) for value in (None, [], 7, {}, [None, 7, []], "")),
    ],
)
def test_groups_are_compared_exactly(groups, roles):
    assert roles_of_groups(groups, ["leads=support", "mods = moderator", "CN=a=viewer"]) == roles


@pytest.mark.parametrize(
    ("claims", "is_fine"),
    [
        ({"email": "a@b.example"}, True),
        ({"email": "a@b.example", "email_verified": True}, True),
        ({"email": "a@b.example", "email_verified": "true"}, True),
        ({"email": "a@b.example", "email_verified": False}, False),
        ({"email": "a@b.example", "email_verified": "false"}, False),
        ({"email": "nonsense"}, False),
        ({"email": ["a@b.example"]}, False),
        ({}, False),
    ],
)
def test_an_account_needs_an_address_that_the_provider_does_not_doubt(claims, is_fine):
    if is_fine:
        assert verified_address(claims) == "a@b.example"
    else:
        with pytest.raises(SignInRefused, match="no verified email"):
            verified_address(claims)
