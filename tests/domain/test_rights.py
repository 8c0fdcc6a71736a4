"""What an account may do by its Power and its roles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Conflict
from app.core.permissions import (
    FLAGS,
    Permission,
    Role,
    permissions_of_power,
    rights_of,
    roles_of,
    shipped_roles,
    with_role,
    without_role,
)
from app.users.domain import NO_POWER
from tests.factories import make_role

ALL_POWER = dict.fromkeys(NO_POWER, True)
ROLES = [*Role]
powers = st.fixed_dictionaries({flag: st.booleans() for flag in NO_POWER})


@pytest.mark.parametrize("place", range(3))
def test_a_role_of_power_is_granted_after_and_revoked_with_those_that_it_rests_on(place):
    if place:
        with pytest.raises(Conflict, match=f"'{ROLES[place].value}' needs"):
            with_role(NO_POWER, ROLES[place])
    left = without_role(ALL_POWER, ROLES[place])
    assert roles_of(left) == ROLES[:place]
    assert roles_of(with_role(left, ROLES[place])) == ROLES[: place + 1]


@given(powers, st.sampled_from(Role))
def test_a_role_never_counts_without_what_it_rests_on_and_no_flag_of_the_game_does(power, role):
    held = roles_of(power)
    assert held == ROLES[: len(held)]
    of_game = power.keys() - set(FLAGS.values())
    after = without_role(power, role)
    assert {flag: after[flag] for flag in of_game} == {flag: power[flag] for flag in of_game}


def test_every_permission_has_words_and_a_role():
    assert all(one.about.endswith(".") and one.role in Role for one in Permission)


def test_power_stands_for_sets_that_grow():
    sizes = [len(permissions_of_power(without_role(ALL_POWER, role))) for role in Role]
    assert sizes == sorted(set(sizes))
    assert permissions_of_power(ALL_POWER) == frozenset(Permission) - {Permission.APPROVE}


STORED = {
    **shipped_roles(),
    "some": make_role("some", "items.move", "players.fly", Limits={"ItemsPerDay": 5}),
    "more": make_role("more", "batches.run", Limits={"ItemsPerDay": 9, "RowsPerBatch": 3}),
}


@pytest.mark.parametrize(
    ("roles", "limits"),
    [
        (["some"], (None, 5, None)),
        # The largest limit counts, and a role without one has none, if it moves items.
        (["some", "more"], (None, 9, 3)),
        (["some", "more", "economy"], (None, None, None)),
        (["support", "viewer", "gone"], (100, 1000, 100)),
    ],
)
def test_rights_are_the_union_of_roles_and_the_largest_limits(roles, limits):
    rights = rights_of({"Roles": roles[:1], "GroupRoles": roles[1:]}, STORED)
    assert rights.limits == limits
    held = {one for name in roles if name in STORED for one in STORED[name]["Permissions"]}
    named = {one.value for one in rights.permissions} - {"leaderboard.read", "users.find"}
    assert named == held - {"players.fly"}


def test_power_has_no_limits_unless_a_role_says_so():
    user = {"Power": with_role(NO_POWER, Role.API)}
    assert rights_of({**user, "Roles": ["support"]}, STORED).limits == (None, None, None)
    assert rights_of(user, STORED, "support").limits == (100, 1000, 100)


def test_a_disabled_account_may_nothing():
    user = {"Power": ALL_POWER, "Roles": ["administrator"], "IsDisabled": True}
    assert not rights_of(user, STORED).permissions
