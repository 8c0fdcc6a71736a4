import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Conflict
from app.core.permissions import FLAGS, Role, roles_of, with_role, without_role
from app.users.domain import NO_POWER

API, QUERY, MANAGE = Role.API, Role.USERS_QUERY, Role.USERS_MANAGE
powers = st.fixed_dictionaries({flag: st.booleans() for flag in NO_POWER})


def test_roles_are_granted_from_the_ground_up():
    power = with_role(with_role(with_role(NO_POWER, API), QUERY), MANAGE)
    assert roles_of(power) == [API, QUERY, MANAGE]


@pytest.mark.parametrize("role", [QUERY, MANAGE])
def test_a_role_without_what_it_rests_on_is_refused(role):
    with pytest.raises(Conflict, match=f"'{role.value}' needs"):
        with_role(NO_POWER, role)


@pytest.mark.parametrize(("role", "left"), [(API, []), (QUERY, [API]), (MANAGE, [API, QUERY])])
def test_revoking_a_role_takes_those_that_rest_on_it(role, left):
    everything = dict.fromkeys(NO_POWER, True)
    assert roles_of(without_role(everything, role)) == left


@given(powers)
def test_a_role_never_counts_without_what_it_rests_on(power):
    held = roles_of(power)
    assert MANAGE not in held or QUERY in held
    assert QUERY not in held or API in held


@given(powers, st.sampled_from(Role))
def test_a_grant_touches_no_flag_of_the_game(power, role):
    flags = power.keys() - set(FLAGS.values())
    after = without_role(power, role)
    assert {flag: after[flag] for flag in flags} == {flag: power[flag] for flag in flags}
